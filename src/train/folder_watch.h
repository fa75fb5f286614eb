/* watch.h - folders of data that appear: which is the next one, and is it complete? docs/online.md,
 * "Folders".
 *
 * A pattern like stream/20??????/????/part-* (relative to a folder) names files; the folders that
 * they lie in are what is watched. A folder's key is "DAY/MINUTE", the names of its parent and its
 * own; folders are taken in the order of their keys (by bytes). Complete: it has the done-file, or
 * without one (done_file "") nothing in it has changed for `quiet` seconds.
 */
#ifndef PD_TRAIN_FOLDER_WATCH_H
#define PD_TRAIN_FOLDER_WATCH_H

#include <stdint.h>

#include "base/err.h"
#include "data/read/reader.h"

enum { WATCH_KEY_MAX = 127 };

struct train_folder_watch_opts {
    const char *dir,
        *pattern; /* of the files; the last two folders of the pattern are the day and the minute */
    const char *done_file; /* a name in the folder, or "" */
    double quiet;          /* seconds; without a done-file */
};

struct watch;
int train_folder_watch_new(
    struct watch **out, const struct train_folder_watch_opts *opts,
    struct pd_err *err); /* opts' texts are borrowed. PD_ECONF: not such a pattern */
void train_folder_watch_free(struct watch *w);

/* The first folder behind `last` ("" : the first of all). 1: it is complete; 0: it is there, but
 * not complete yet; PD_ENOENT: there is none (no message); or another PD_E*. */
int train_folder_watch_next(struct watch *w, const char *last, char key[WATCH_KEY_MAX + 1],
                            struct pd_err *err);
int train_folder_watch_complete(struct watch *w, const char *key,
                                struct pd_err *err); /* this one: 1, 0, PD_ENOENT, PD_E* */
/* Its files, sorted by name, relative to `dir`; the done-file is none of them. May be none. */
int train_folder_watch_files(const struct watch *w, const char *key, struct data_files *out,
                             struct pd_err *err);

/* "20261122" of "20261122/0105". */
void train_folder_watch_day(const char *key, char day[WATCH_KEY_MAX + 1]);

#endif
