/* online.h - job = online: folders of data as they appear, each tested with and then trained, saved
 * on a schedule. docs/online.md.
 *
 *     wait for the next folder ─▶ a new day? the old one ends ─▶ test ─▶ train ─▶ save, done-file ─┐
 *            ^                                                                                      │
 *            └──────────────────────────────────────────────────────────────────────────────────────┘
 *
 * A folder is a pass. Trainer 0 looks for folders and says which one is next; the others follow.
 */
#ifndef PD_TRAIN_ONLINE_H
#define PD_TRAIN_ONLINE_H

#include "train/pass.h"

struct train_online {
    struct train_loop *loop;
    const struct data_spec *train, *test; /* as for the streams of a folder's files */
    const char *dir, *pattern;            /* train/folder_watch.h */
    const char *output_dir; /* where the folder "output" really is; NULL: as it says */
    int own_batches;
};

/* Until somebody asks to stop, there is the stop file, the last folder is trained, or none comes.
 */
int train_online(const struct train_online *o, struct pd_err *err);

#endif
