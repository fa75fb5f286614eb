/* SPDX-License-Identifier: Apache-2.0 */
/* split.h - which files of a workspace are data that only one trainer reads: data_layout =
 * dispatched.
 *
 *     train.ini [data] train, test ─▶ patterns ─▶ matching files of the package, sorted by bytes
 *     file i of this list ─▶ stream i mod n_streams ─▶ the trainer that owns the stream
 *
 * Files that other nodes may need go to all nodes: train.ini itself, and files that it also names
 * in another key. Nothing is split if a node would list other files than the package holds:
 * - symbolic links among the data
 * - patterns that lead out of the workspace
 * - a program other than paddlectl's trainer
 * - a train.ini that cannot be read
 * - job = online: its trainers list folders themselves
 *
 * With data = queue, file i of the training data belongs to trainer i mod n, which is handed it
 * first (ps/client/client.h). A trainer that is handed another file fetches it. The lists travel
 * with the package (data/read/file_list.h): the place of a file in its list is its stream.
 */
#pragma once

#include "conf/options.h"
#include "data/read/file_list.h"
#include "pack/scan/scan.h"

struct split {
    /* all files of the package that match, sorted by bytes */
    struct data_files train, test;
    struct data_files apart; /* of both: the files that are sent apart */
    uint32_t n_streams;      /* 0: one for each trainer */
    int queue;               /* train: as if n_streams were the number of trainers */
    struct pd_buf list;      /* the contents of DATA_LIST */
};

void split_init(struct split *s);
void split_release(struct split *s);
/* 1 if a glob on a node finds just the package's entries: no links on the way, no files outside. */
int split_can_list(const struct scan *scan, const char *patterns);
/* Find the files among the entries of a listed scan; for scan_on_listed. 0: s->apart.n files are
 * split off, perhaps none. PD_ENOMEM. */
int split_find(struct split *s, const struct scan *scan, const struct pd_options *o,
               struct pd_err *err);
int split_is_apart(const struct split *s, const char *path);
/* index in s->apart; -1: not in it */
long split_place(const struct split *s, const char *path);
/* The ranks of the trainers that read the file: rank[0] as training data, rank[1] as test data.
 * -1: no trainer. */
void split_readers(const struct split *s, const char *path, uint32_t n_trainers, int rank[2]);
