/* SPDX-License-Identifier: Apache-2.0 */
/* train_check.c - see train_check.h. */
#include "conf/train_check.h"

/* Begins the message with the place where `option` was set, unless it has its default. */
static int prefix_origin(const struct pd_options *o, const char *option, struct pd_err *err) {
    int i = pd_options_find(option, PD_TRAINER);
    if (i >= 0 && o->origin[i].level > PD_FROM_DEFAULT)
        pd_err_prefix(err, "%s", o->origin[i].where);
    return err ? err->code : PD_ECONF;
}

uint32_t pd_train_streams(const struct pd_options *o, const struct pd_train_place *place) {
    if (o->n_streams)
        return (uint32_t)o->n_streams;
    int more = o->data != PD_DATA_QUEUE && place->first_trainers > o->num_gradient_servers;
    return more ? place->first_trainers : (uint32_t)o->num_gradient_servers;
}

static int check_place(const struct pd_options *o, const struct pd_train_place *place,
                       struct pd_err *err) {
    const long long id = o->trainer_id, n = o->num_gradient_servers;
    const long long streams = pd_train_streams(o, place);
    if (id >= n)
        return pd_fail(err, PD_EUSAGE,
                       "trainer_id is %lld, but there are %lld trainers (num_gradient_servers)", id,
                       n);
    if (o->local && n > 1)
        return pd_fail(err, PD_EUSAGE, "local = 1 is one process: num_gradient_servers must be 1");
    if (o->checkpoint_copies > 1 && !place->restarted && (o->local || place->n_pservers < 2)) {
        pd_fail(err, PD_ECONF,
                "checkpoint_copies = 2 needs a second pserver to keep the copies: give "
                "--pservers=2 or more");
        return prefix_origin(o, "checkpoint_copies", err);
    }
    if (streams < n) {
        pd_fail(err, PD_ECONF, "n_streams is %lld, fewer than the %lld trainers", streams, n);
        return prefix_origin(o, "n_streams", err);
    }
    if (o->batch_size < streams) {
        pd_fail(err, PD_ECONF,
                "batch_size is %lld, fewer than one sample for each of %lld streams: give at least "
                "%lld",
                (long long)o->batch_size, streams, streams);
        return prefix_origin(o, "batch_size", err);
    }
    return 0;
}

int pd_train_check(const struct pd_options *o, const struct pd_train_place *place,
                   struct pd_err *err) {
    const int sync = o->update == PD_UPDATE_SYNC,
              topology = o->reproducible == PD_REPRODUCIBLE_TOPOLOGY,
              queue = o->data == PD_DATA_QUEUE, online = o->job == PD_JOB_ONLINE,
              trains = online || o->job == PD_JOB_TRAIN;
    const struct {
        int is_so;
        const char *option, *text;
    } rules[] = {
        {topology && !sync, "reproducible",
         "reproducible = topology needs update = sync: under the other rules the result depends on "
         "timing"},
        {topology && !o->n_streams, "reproducible",
         "reproducible = topology needs n_streams, the same for every number of trainers (12 suits "
         "1, 2, 3, 4, 6 and 12)"},
        {queue && sync, "data",
         "data = queue needs update = async, ssp or geo (trainers of sync read equal numbers of "
         "samples): give --update=async"},
        {queue && o->n_streams, "n_streams",
         "n_streams has no meaning with data = queue: each file is a stream by itself"},
        {queue && o->data_layout == PD_DATA_LOCAL, "data",
         "data = queue needs the same list of files on all nodes: not data_layout = local"},
        {queue && online, "data",
         "data = queue hands out the files of a pass of job = train; job = online divides the "
         "files "
         "of a folder"},
        {online && *o->keep_best, "keep_best",
         "keep_best compares the passes of job = train: job = online has none"},
        {*o->keep_best && !pd_starts_with(o->keep_best, "test."), "keep_best",
         "keep_best is a value of the test data: test.NAME, as in test.auc or test.cost"},
        {o->early_stopping_passes && !*o->keep_best, "early_stopping_passes",
         "early_stopping_passes needs keep_best, the value that has to improve"},
        {online && o->on_trainer_lost != PD_TRAINER_LOST_FAIL, "on_trainer_lost",
         "job = online continues after a failure by on_failure = restart, not by on_trainer_lost"},
        {o->job == PD_JOB_TEST && !*o->init_model_path, "job",
         "job = test needs init_model_path, the saved model to test: give "
         "--init_model_path=FOLDER"},
        {trains && *o->resume && *o->init_model_path, "resume",
         "resume continues a checkpoint, init_model_path starts from a model: give only one of "
         "them"},
    };
    int rc = check_place(o, place, err);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0] && !rc; i++)
        if (rules[i].is_so) {
            pd_fail(err, PD_ECONF, "%s", rules[i].text);
            rc = prefix_origin(o, rules[i].option, err);
        }
    return rc;
}
