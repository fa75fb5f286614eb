/* SPDX-License-Identifier: Apache-2.0 */
/* folder_watch.h - folders of data that appear over time: finds the next folder and checks whether
 * it is complete. docs/online.md, "Folders".
 *
 * A pattern such as stream/20??????/????/part-* (relative to a folder) names files; the folders of
 * these files are watched. A folder's key is "DAY/MINUTE": the name of its parent and its own name.
 * Folders are trained in the order of their keys (by bytes). A folder is complete when it holds the
 * done-file. Without a done-file (done_file "") it is complete when nothing in it has changed for
 * `quiet` seconds. */
#pragma once

#include "data/read/reader.h"

enum { WATCH_KEY_MAX = 127 };

struct train_folder_watch_opts {
    /* Pattern of the files, relative to dir; its last two folders are the day and the minute. */
    const char *dir, *pattern;
    const char *done_file; /* a name in the folder, or "" */
    double quiet;          /* seconds; without a done-file */
};

struct train_folder_watch;
/* Borrows the texts of `opts`. PD_ECONF: not such a pattern. */
int train_folder_watch_new(struct train_folder_watch **out,
                           const struct train_folder_watch_opts *opts, struct pd_err *err);
void train_folder_watch_free(struct train_folder_watch *w);

/* Finds the first folder after `last` (""; the first of all). 1: it is complete; 0: it exists but
 * is not complete; PD_ENOENT without a message: no such folder; or another PD_E*. */
int train_folder_watch_next(struct train_folder_watch *w, const char *last,
                            char key[WATCH_KEY_MAX + 1], struct pd_err *err);
/* The same for the folder with this key: 1, 0, PD_ENOENT or another PD_E*. */
int train_folder_watch_complete(struct train_folder_watch *w, const char *key, struct pd_err *err);
/* Lists the files of a folder without the done-file, sorted by name, relative to `dir`. The list
 * may be empty. */
int train_folder_watch_files(const struct train_folder_watch *w, const char *key,
                             struct data_files *out, struct pd_err *err);

/* "20261122" of "20261122/0105". */
void train_folder_watch_day(const char *key, char day[WATCH_KEY_MAX + 1]);
