/* options.c - the table of all options, and its fields' defaults. Parsing is in parse.c. */
#include "conf/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/str.h"
#include "conf/conf_internal.h"

#define F(field) offsetof(struct pd_options, field)
#define ALL (PD_LAUNCHER | PD_WORKER)

/* Sections in the order of the manual. `who` is PD_LAUNCHER for what only paddlectl needs. */
static const struct pd_option table[] = {
    {"cluster", "hosts", PD_STR, F(hosts), PD_LAUNCHER, "", 0, 0, 0, "",
     "nodes in order of their ids: [user@]host[:port], ranges as node-[01-16], !without, @group or "
     "@file, 'local' or 'local*3' for "
     "this machine"},
    {"cluster", "pservers", PD_STR, F(pservers), PD_LAUNCHER, "all", 0, 0, 0, "",
     "nodes that run a parameter server: all, none, a number (the first so many), or 'nodes "
     "0-3,7'"},
    {"cluster", "trainers", PD_STR, F(trainers), PD_LAUNCHER, "all", 0, 0, 0, "",
     "nodes that run a trainer, likewise"},
    {"cluster", "root_dir", PD_STR, F(root_dir), PD_LAUNCHER, "~/paddle", 0, 0, 0, "",
     "folder on the nodes below which everything is written; ~ and %n (node id) are replaced"},
    {"cluster", "nic", PD_STR, F(nic), PD_LAUNCHER, "", 0, 0, 0, "",
     "network interface or subnet between the nodes; empty: the address that the other nodes can "
     "reach"},
    {"cluster", "port", PD_INT, F(port), ALL, "7164", 0, 65535, 0, "",
     "of trainers and pservers among themselves: where the search for free ports starts; taken "
     "ones are skipped; 0: any. (ssh's port is written "
     "in hosts: user@host:port)"},
    {"cluster", "ports_num", PD_INT, F(ports_num), ALL, "1", 1, 64, 0, "threads",
     "dense server threads of a parameter server, one port each"},
    {"cluster", "ports_num_for_sparse", PD_INT, F(ports_num_for_sparse), ALL, "1", 1, 64, 0,
     "threads", "sparse server threads of a parameter server, one port each"},

    {"ssh", "identity_file", PD_PATH, F(identity_file), PD_LAUNCHER, "", 0, 0, 0, "",
     "private key to log in with"},
    {"ssh", "known_hosts", PD_PATH, F(known_hosts), PD_LAUNCHER, "~/.ssh/known_hosts", 0, 0, 0, "",
     "file with the keys that the hosts must show"},
    {"ssh", "host_key_policy", PD_CHOICE, F(host_key_policy), PD_LAUNCHER, "strict", 0, 0,
     "strict|accept-new", "",
     "an unknown host key is refused, or noted; a changed one is always refused"},
    {"ssh", "config", PD_PATH, F(ssh_config), PD_LAUNCHER, "~/.ssh/config", 0, 0, 0, "",
     "OpenSSH client configuration to follow"},
    {"ssh", "proxy_jump", PD_STR, F(proxy_jump), PD_LAUNCHER, "", 0, 0, 0, "",
     "jump hosts on the way to every node: [user@]host[:port],...; none: not even those of the ssh "
     "configuration"},
    {"ssh", "connect_timeout", PD_F64, F(connect_timeout), PD_LAUNCHER, "10", 0.1, 3600, 0, "s",
     "how long a host may take until it is logged in"},
    {"ssh", "fanout", PD_INT, F(fanout), PD_LAUNCHER, "128", 1, 10000, 0, "hosts",
     "log-ins under way at the same time"},

    {"job", "job_dispatch_package", PD_PATH, F(job_dispatch_package), PD_LAUNCHER, "", 0, 0, 0, "",
     "workspace to send to every node: a folder or a tar archive"},
    {"job", "job_workspace", PD_STR, F(job_workspace), PD_LAUNCHER, "", 0, 0, 0, "",
     "folder that is already on the nodes, used in place of a package"},
    {"job", "outputs", PD_PATH, F(outputs), PD_LAUNCHER, "output", 0, 0, 0, "",
     "folder here that gets <job id>/ with what the job wrote to its output folder"},
    {"job", "trainer_command", PD_STR, F(trainer_command), PD_LAUNCHER, "", 0, 0, 0, "",
     "command that runs in place of our trainer"},
    {"job", "pserver_command", PD_STR, F(pserver_command), PD_LAUNCHER, "", 0, 0, 0, "",
     "command that runs in place of our parameter server"},
    {"job", "data_layout", PD_CHOICE, F(data_layout), PD_LAUNCHER | PD_TRAINER, "dispatched", 0, 0,
     "dispatched|shared|local", "",
     "dispatched: of the data files in the package a node gets those that its trainer reads; "
     "shared: every node has all; local: a "
     "trainer reads whatever its own node holds"},
    {"job", "relay", PD_CHOICE, F(relay), PD_LAUNCHER, "auto", 0, 0, "auto|off", "",
     "auto: a package leaves this machine once and goes from node to node; off: from here to each"},
    {"job", "encrypt", PD_CHOICE, F(encrypt), PD_LAUNCHER, "relay", 0, 0, "relay|off", "",
     "packages between nodes: encrypted, or only proved to come from this job; what ssh carries is "
     "always encrypted"},
    {"job", "store_limit", PD_SIZE, F(store_limit), PD_LAUNCHER, "10G", 0, 1099511627776.0 * 1024,
     0, "bytes",
     "what a node may keep of packages that no kept job uses, the least recently used go first; 0: "
     "no limit"},
    {"job", "silence_timeout", PD_F64, F(silence_timeout), PD_LAUNCHER, "60", 1, 86400, 0, "s",
     "a node that takes a package and says nothing for so long is given up"},
    {"job", "min_nodes", PD_INT, F(min_nodes), PD_LAUNCHER, "0", 0, 16384, 0, "hosts",
     "start with the hosts that can be used when they are at least so many; 0: all or nothing"},
    {"job", "save_on_stop", PD_BOOL, F(job_save_on_stop), PD_LAUNCHER, "0", 0, 0, 0, "",
     "Ctrl-C lets the trainers save the model first, which is then fetched; a second one does not "
     "wait for it"},
    {"job", "attach_lease", PD_F64, F(attach_lease), PD_LAUNCHER, "5", 1, 86400, 0, "s",
     "an attached job ends when paddlectl has been gone so long"},
    {"job", "detach_lease", PD_F64, F(detach_lease), PD_LAUNCHER, "60", 1, 86400, 0, "s",
     "a node ends its processes when it has lost the head node so long"},
    {"job", "on_failure", PD_CHOICE, F(on_failure), PD_LAUNCHER, "stop", 0, 0, "stop|restart", "",
     "when a process fails or a node is lost: the job ends, or all its processes are ended and "
     "started again, without that node"},
    {"job", "max_restarts", PD_INT, F(max_restarts), PD_LAUNCHER, "3", 0, 1000000, 0, "restarts",
     "restarts in the life of a job before a failure ends it; with on_failure = restart"},
    {"job", "bind", PD_CHOICE, F(bind), PD_LAUNCHER, "auto", 0, 0, "none|auto|cores|numa", "",
     "CPUs of a process: all; its node's part where nodes of the job share a machine; cores or "
     "NUMA nodes of its own"},
    {"job", "log_max_size", PD_SIZE, F(log_max_size), PD_LAUNCHER, "256M", 0, 1099511627776.0, 0,
     "bytes",
     "a log file on a node that has grown so long becomes NAME.1 and a new one begins; 0: it grows "
     "for ever"},
    {"job", "keep_jobs", PD_INT, F(keep_jobs), PD_LAUNCHER, "10", 0, 10000, 0, "jobs",
     "jobs that are over and that paddlectl clean keeps on the hosts"},
    {"job", "log_keep", PD_INT, F(log_keep), PD_LAUNCHER, "4", 0, 100, 0, "files",
     "older log files that are kept: NAME.1, NAME.2, ..."},

    {"train", "config", PD_STR, F(config), ALL, "train.ini", 0, 0, 0, "",
     "model and training configuration in the workspace"},
    {"train", "job", PD_CHOICE, F(job), ALL, "train", 0, 0, "train|test|checkgrad|online", "",
     "train; test: evaluate init_model_path on the test data; checkgrad: compare gradients with "
     "finite differences; online: train folders of "
     "data as they appear"},
    {"train", "num_passes", PD_INT, F(num_passes), ALL, "1", 1, 1000000, 0, "passes",
     "passes over the training data"},
    {"train", "batch_size", PD_INT, F(batch_size), ALL, "128", 1, 1 << 24, 0, "samples",
     "samples of one update: of the whole job, cut evenly over the streams; of one trainer unless "
     "update = sync"},
    {"train", "trainer_count", PD_INT, F(trainer_count), ALL, "1", 1, 256, 0, "threads",
     "threads of a trainer, which cut its part of a batch among them"},
    {"train", "n_streams", PD_INT, F(n_streams), ALL, "0", 0, 65536, 0, "streams",
     "streams that the data is divided into; 0: one for each trainer"},
    {"train", "data", PD_CHOICE, F(data), ALL, "static", 0, 0, "static|queue", "",
     "static: a trainer reads the files of its streams; queue: it is handed one file after the "
     "other, so that fast trainers read more, and the "
     "file of one that is lost goes to another; not with update = sync"},
    {"train", "seed", PD_INT, F(seed), ALL, "1", 0, 9007199254740992.0, 0, "",
     "seed of every random number of the job"},
    {"train", "update", PD_CHOICE, F(update), ALL, "sync", 0, 0, "sync|async|ssp|geo", "",
     "sync: all trainers' gradients are one update; async: applied as they come; ssp: async, but "
     "nobody is more than staleness "
     "ahead; geo: trainers step by themselves and exchange differences"},
    {"train", "reproducible", PD_CHOICE, F(reproducible), ALL, "run", 0, 0, "run|topology", "",
     "run: the same job gives the same bits again; topology: also with other numbers of trainers, "
     "servers and threads, as long as "
     "n_streams (12, say) is the same; sync only"},
    {"train", "staleness", PD_INT, F(staleness), ALL, "4", 0, 1 << 30, 0, "batches",
     "ssp: how far a trainer may be ahead of the slowest"},
    {"train", "async_lagged_grad_discard_ratio", PD_F64, F(async_lagged_grad_discard_ratio), ALL,
     "1.5", 0, 1e9, 0, "",
     "async: a gradient that lags by more than this times the number of trainers is dropped and "
     "counted; 0: none"},
    {"train", "geo_sgd_need_push_nums", PD_INT, F(geo_sgd_need_push_nums), ALL, "100", 1, 1 << 30,
     0, "batches",
     "geo: batches between exchanges with the servers; the first exchanges come sooner"},
    {"train", "log_period", PD_INT, F(log_period), ALL, "100", 1, 1 << 30, 0, "batches",
     "batches between lines on the cost"},
    {"train", "saving_period", PD_INT, F(saving_period), ALL, "0", 0, 1 << 30, 0, "passes",
     "passes between saved models; 0: only after the last one"},
    {"train", "saving_period_by_batches", PD_INT, F(saving_period_by_batches), ALL, "0", 0, 1 << 30,
     0, "batches", "batches between checkpoints inside a pass; 0: none"},
    {"train", "saving_deltas", PD_INT, F(saving_deltas), ALL, "0", 0, 255, 0, "saves",
     "between two saves of all rows of the tables, saves of those that have changed since the one "
     "before; 0: all rows every time"},
    {"train", "checkpoint_copies", PD_INT, F(checkpoint_copies), ALL, "1", 1, 2, 0, "",
     "2: each pserver's part of what is saved is on another pserver's disk too, so that losing one "
     "node loses nothing"},
    {"train", "save_only_one", PD_BOOL, F(save_only_one), ALL, "0", 0, 0, 0, "",
     "when a saved model is complete, remove the older ones"},
    {"train", "save_state", PD_BOOL, F(save_state), ALL, "1", 0, 0, 0, "",
     "save the optimizer's state too, so that training can go on from what is saved"},
    {"train", "resume", PD_STR, F(resume), ALL, "", 0, 0, 0, "",
     "go on from this checkpoint: its folder, or a name in save_dir, or latest: the furthest in "
     "save_dir, if there is one"},
    {"train", "resume_older", PD_BOOL, F(resume_older), ALL, "0", 0, 0, 0, "",
     "when that checkpoint is damaged or not complete, go on from the one before it"},
    {"train", "start_pass", PD_INT, F(start_pass), ALL, "0", 0, 1000000, 0, "",
     "begin with this pass, from the checkpoint of the pass before it in save_dir"},
    {"train", "save_initial", PD_BOOL, F(save_initial), ALL, "0", 0, 0, 0, "",
     "also save the initial model, as pass-init"},
    {"train", "save_dir", PD_STR, F(save_dir), ALL, "output", 0, 0, 0, "",
     "folder for models, in the workspace"},
    {"train", "init_model_path", PD_STR, F(init_model_path), ALL, "", 0, 0, 0, "",
     "saved model to start from"},
    {"train", "load_missing_parameter_strategy", PD_CHOICE, F(load_missing_parameter_strategy), ALL,
     "fail", 0, 0, "fail|rand|zero", "",
     "what happens to parameters that the saved model does not have"},
    {"train", "max_bad_lines", PD_INT, F(max_bad_lines), ALL, "0", 0, 1 << 30, 0, "lines",
     "unreadable data lines of a stream and pass that are skipped before the job fails"},
    {"train", "reader_threads", PD_INT, F(reader_threads), ALL, "1", 0, 64, 0, "threads",
     "threads of a trainer that read and parse data ahead, besides one that makes batches; 0: data "
     "is read when it is needed"},
    {"train", "shuffle_buffer", PD_INT, F(shuffle_buffer), ALL, "0", 0, 1 << 28, 0, "samples",
     "training samples are shuffled within groups of so many of a stream, in another order each "
     "pass; 0: they stay in order"},
    {"train", "online_done_file", PD_STR, F(online_done_file), ALL, "_DONE", 0, 0, 0, "",
     "job = online: a folder is complete when it has this file; empty: when nothing in it has "
     "changed for online_quiet"},
    {"train", "online_quiet", PD_F64, F(online_quiet), ALL, "60", 0, 86400, 0, "s",
     "job = online: see online_done_file"},
    {"train", "online_until", PD_STR, F(online_until), ALL, "", 0, 0, 0, "",
     "job = online: end behind this folder (DAY/MINUTE) or day (DAY)"},
    {"train", "online_stop_file", PD_STR, F(online_stop_file), ALL, "online.stop", 0, 0, 0, "",
     "job = online: end, between two folders, when there is this file in the workspace of the "
     "first trainer"},
    {"train", "online_idle", PD_F64, F(online_idle), ALL, "0", 0, 1e9, 0, "s",
     "job = online: end when no folder was complete for so long; 0: wait for ever"},
    {"train", "online_shuffle", PD_BOOL, F(online_shuffle), ALL, "1", 0, 0, 0, "",
     "job = online: files of a folder are dealt to the streams in another random order each pass; "
     "0: in the order of their names"},
    {"train", "online_test", PD_BOOL, F(online_test), ALL, "1", 0, 0, 0, "",
     "job = online: each folder is tested with before it is trained"},
    {"train", "online_base_period", PD_INT, F(online_base_period), ALL, "0", 0, 1 << 30, 0,
     "passes",
     "job = online: passes between saves of all rows; 0: behind the first pass of each day"},
    {"train", "online_delta_period", PD_INT, F(online_delta_period), ALL, "1", 0, 1 << 30, 0,
     "passes",
     "job = online: passes between saves, which are of the rows that have changed where they are "
     "not of all; 0: none"},
    {"train", "online_keep", PD_INT, F(online_keep), ALL, "0", 0, 1 << 30, 0, "passes",
     "job = online: saved models of so many passes are kept, older ones removed; 0: all are kept"},
    {"train", "stop_on_nan", PD_BOOL, F(stop_on_nan), ALL, "1", 0, 0, 0, "",
     "end the job when the cost is no finite number"},
    {"train", "reject_nan", PD_BOOL, F(reject_nan), ALL, "0", 0, 0, 0, "",
     "pservers refuse a trainer whose gradient is no finite number, and on_trainer_lost says what "
     "becomes of the job; wins over stop_on_nan"},
    {"train", "reconnect_timeout", PD_F64, F(reconnect_timeout), ALL, "10", 0.1, 86400, 0, "s",
     "how long a connection between trainer and pserver that broke is tried again, and how long a "
     "pserver waits for it"},
    {"train", "heartbeat_timeout", PD_F64, F(heartbeat_timeout), ALL, "30", 2, 86400, "0", "s",
     "silence after which a trainer or pserver counts as lost; long steps are not silence. 0: "
     "never (for debuggers)"},
    {"train", "start_timeout", PD_F64, F(start_timeout), ALL, "1800", 1, 1e7, 0, "s",
     "how long a pserver waits for trainers that never connected; each new trainer restarts the "
     "count"},
    {"train", "on_trainer_lost", PD_CHOICE, F(on_trainer_lost), ALL, "fail", 0, 0,
     "fail|wait|continue", "",
     "when a trainer does not come back: the pservers end the job, wait until it is started again "
     "(by on_failure = restart, or by hand), or "
     "go on without its streams"},
    {"train", "overlap", PD_BOOL, F(overlap), ALL, "1", 0, 0, 0, "",
     "gradients leave while backward goes on, and the next batch's rows are asked for before it; "
     "0: behind it, with the same result"},
    {"train", "local", PD_BOOL, F(local), PD_TRAINER, "0", 0, 0, 0, "",
     "train in this one process, without servers"},
    {"train", "use_gpu", PD_INT, F(use_gpu), ALL, "0", 0, 0, 0, "",
     "accepted for compatibility; only 0"},

    {"worker", "pservers", PD_STR, F(pserver_list), PD_TRAINER, "", 0, 0, 0, "",
     "addresses of the parameter servers: 10.0.0.1,10.0.0.2:7170 (first port of each)"},
    {"worker", "nics", PD_STR, F(nics), PD_PSERVER, "", 0, 0, 0, "",
     "interface or address to listen on; empty: all"},
    {"worker", "key_file", PD_STR, F(key_file), PD_WORKER, "", 0, 0, 0, "",
     "file with the job's key, 32 bytes, mode 0600; the same on every machine"},
    {"worker", "trainer_id", PD_INT, F(trainer_id), PD_TRAINER, "0", 0, 65535, 0, "",
     "number of this trainer"},
    {"worker", "num_gradient_servers", PD_INT, F(num_gradient_servers), PD_WORKER, "1", 1, 65536, 0,
     "trainers", "number of trainers of the job"},
    {"worker", "save_on_stop", PD_BOOL, F(save_on_stop), PD_TRAINER, "0", 0, 0, 0, "",
     "Ctrl-C or TERM: finish the step, save the model, then end; a second one ends at once "
     "(SIGUSR1 always saves)"},
    {"worker", "server_timeout", PD_F64, F(server_timeout), PD_WORKER, "60", 0.1, 86400, 0, "s",
     "how long servers that do not answer yet are tried"},
};

enum { N_OPTIONS = sizeof table / sizeof table[0] };

/* Names that users of the original system may bring along, and why they mean nothing here. */
const struct pd_refused pd_refused_options[] = {
    {"ports_num_for_pserver", "the number of ports is ports_num"},
    {"rdma_tcp", "the transport is always TCP"},
    {"parallel_nn", "layers are not placed on devices"},
    {"gpu_id", "there is no GPU support"},
    {"nccl_init", "there is no GPU support"},
    {"predict_output_dir", "paddlectl infer prints predictions"},
    {"comment", "it was never used"},
    {NULL, NULL},
};

const struct pd_option *pd_option_table(size_t *n) {
    *n = N_OPTIONS;
    return table;
}

void *pd_option_field(const struct pd_options *o, size_t i) {
    return (char *)(uintptr_t)o + table[i].field;
}

int pd_options_init(struct pd_options *o, struct pd_err *err) {
    memset(o, 0, sizeof *o);
    o->origin = pd_calloc(N_OPTIONS, sizeof *o->origin);
    if (!o->origin)
        return pd_fail(err, PD_ENOMEM, "options: out of memory");
    for (size_t i = 0; i < N_OPTIONS; i++) {
        int rc = pd_option_assign(o, i, table[i].def, "default", NULL, err);
        if (rc) {
            pd_options_release(o);
            return rc;
        }
        pd_fmt(o->origin[i].where, sizeof o->origin[i].where, "default");
    }
    return 0;
}

int pd_options_copy(struct pd_options *o, const struct pd_options *from, struct pd_err *err) {
    int rc = pd_options_init(o, err);
    for (size_t i = 0; i < N_OPTIONS && !rc; i++) {
        const void *was = pd_option_field(from, i);
        void *to = pd_option_field(o, i);
        o->origin[i] = from->origin[i];
        if (table[i].type != PD_STR && table[i].type != PD_PATH) {
            memcpy(to, was, table[i].type == PD_F64 ? sizeof(double) : sizeof(int64_t));
            continue;
        }
        free(*(char **)to);
        if (!(*(char **)to = pd_strdup(*(char *const *)was)))
            rc = pd_fail(err, PD_ENOMEM, "options: out of memory");
    }
    if (rc && o->origin)
        pd_options_release(o);
    return rc;
}

void pd_options_release(struct pd_options *o) {
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (table[i].type == PD_STR || table[i].type == PD_PATH)
            free(*(char **)pd_option_field(o, i));
    pd_sections_release(o);
    free(o->conf_dir);
    free(o->origin);
    memset(o, 0, sizeof *o);
}
