/* SPDX-License-Identifier: Apache-2.0 */
/* online.h - job = online: folders of data as they appear. Each folder is first used for testing,
 * then trained; models are saved on a schedule. docs/online.md.
 *
 *     wait for the next folder ─▶ end the old day if the day changed ─▶ test ─▶ train ─▶ save ─┐
 *            ^                                                                                  │
 *            └──────────────────────────────────────────────────────────────────────────────────┘
 *
 * A folder is a pass. Trainer 0 finds the next folder and tells the other trainers.
 */
#pragma once

#include "train/pass.h"

struct train_online {
    struct train_loop *loop;
    const struct data_spec *train, *test; /* for the streams of a folder's files */
    const char *dir, *pattern;            /* train/input/folder_watch.h */
    const char *output_dir; /* real path of the folder "output"; NULL: the path itself */
    int own_batches;
};

/* Runs until a stop is requested, the stop file exists, the last folder (online_until) is trained,
 * or no folder is complete for online_idle seconds. */
int train_online(const struct train_online *o, struct pd_err *err);
