/* split.h - which files of a workspace are data that only one trainer reads: data_layout =
 * dispatched.
 *
 *     train.ini [data] train, test ─▶ patterns ─▶ the package's files that match, sorted by bytes: the job's lists
 *     file i of a list ─▶ stream i mod n_streams ─▶ the trainer that owns the stream
 *
 * What may be needed elsewhere, too, goes to all: train.ini itself, files that it also names
 * otherwise. Nothing is split where what a node would list is not what the package holds: links
 * among the data, patterns that lead out of the workspace, another program than our trainer, a
 * train.ini that can't be read, job = online, whose trainers list folders by themselves. With data
 * = queue file i of the training data is trainer i mod n's, who is handed it first
 * (ps/client/client.h); whoever is handed another one fetches it. The lists go with the package
 * (data/read/file_list.h): a file's stream is its place in them.
 */
#ifndef LAUNCHER_SPLIT_H
#define LAUNCHER_SPLIT_H

#include "conf/options.h"
#include "data/read/file_list.h"
#include "pack/scan/scan.h"

struct split {
    struct data_files train, test; /* all files of the package that match, sorted by bytes */
    struct data_files apart;       /* of both, those that are sent apart */
    uint32_t n_streams;            /* 0: as many as there are trainers */
    int queue;                     /* train: as if there were as many */
    struct pd_buf list;            /* what becomes DATA_LIST */
};

void split_init(struct split *s);
void split_release(struct split *s);
/* From the entries of a scan that has listed them; for scan_on_listed. 0: s->apart.n files are
 * split off, perhaps none; PD_ENOMEM. */
int split_find(struct split *s, const struct scan *scan, const struct pd_options *o,
               struct pd_err *err);
int split_is_apart(const struct split *s, const char *path);
long split_place(const struct split *s, const char *path); /* among those; -1: it is none of them */
/* The ranks of the trainers that read it: of the training data, of the test data; -1: nobody does.
 */
void split_readers(const struct split *s, const char *path, uint32_t n_trainers, int rank[2]);

#endif
