/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.h - the folders of a job's outputs on this machine:
 *
 *     outputs/<job id>/          the output folders of all nodes, merged; log/ with --log
 *     outputs/latest             points at the newest
 *     FOLDER/                    with --to=FOLDER in place of outputs/<job id>
 *     outputs/.<job id>.part/    transfer under way; locked by the fetching paddlectl
 *         try-XXXXXX/            node-0, node-1, ...: complete folders of this try
 *         .paddlectl/            what came of incomplete ones (pack/store/store_rest.c)
 *
 * An interrupted transfer leaves its .part, and the next fetch takes from there what it has. Only
 * complete results get a place outside of it.
 */
#pragma once

#include "launcher/dispatch/package.h"
#include "model/model.h"

struct outputs {
    char root[4096], id[64], dir[4200], aside[4200], try[4250], logs_aside[4300];
    int own_folder; /* `dir` is the user's folder (--to), and `latest` stays as it is */
    int lock;       /* open folder `aside`, locked between begin and drop; else -1 */
    struct package_fetches fetches; /* since begin: into try, for `dir` */
};

/* Compute the paths; creates nothing. to: the folder that gets the outputs, NULL: <root>/<job>.
 * `where` names the option in messages. */
int outputs_init(struct outputs *o, const char *root, const char *to, const char *job,
                 const char *where, struct pd_err *err);
/* Test before the job starts whether outputs can be written, since they arrive at its end, perhaps
 * hours later. The test leaves no files. */
int outputs_try(const struct outputs *o, const char *where, struct pd_err *err);
/* Create and lock aside, try and logs_aside, and remove what fetches of other jobs left more than
 * STORE_REST_DAYS ago. Two fetches of a job to the same place would mix their
 * files. PD_EEXIST: another process fetches. */
int outputs_begin(struct outputs *o, struct pd_err *err);
/* Merge the outputs of nodes 0..n-1 and move them to `dir`, over the files of an earlier fetch;
 * then update `latest`. */
int outputs_place(const struct outputs *o, int n_nodes, int *n_renamed, struct pd_err *err);
/* Call `tell` for each incomplete model, with its first missing part. For a job that lost nodes. */
void outputs_incomplete(const struct outputs *o,
                        void (*tell)(void *arg, const char *model, const char *part, int n_missing),
                        void *arg);
/* Read the manifest of a saved model, and count its parts that are not in the folder: `first` is
 * the first of them. 0, or -1: the folder is no readable model. The caller releases *m in any case.
 */
int outputs_read_model(const char *folder, struct model_manifest *m, int *n_missing,
                       char first[MODEL_FILE_MAX + 1]);
/* The newest complete model below a folder of outputs: that of the newest job that has one, else of
 * the folder itself. PD_ENOENT: none. */
int outputs_newest_model(const char *root, char *out, size_t cap, struct pd_err *err);
/* If outputs_begin created `aside`: unlock it and remove it. With `keep`, all that the next fetch
 * can use stays. */
void outputs_drop(struct outputs *o, int keep);
