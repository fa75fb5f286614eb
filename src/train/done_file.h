/* done.h - files that tell a serving system of saved models: written when a model is complete on
 * every server, last, each by rename.
 *
 *     save_dir/online/pass-00012.json   this one
 *                     latest.json       the same bytes: what to poll
 *                     base.json         of the last save of all rows
 */
#ifndef PD_TRAIN_DONE_FILE_H
#define PD_TRAIN_DONE_FILE_H

#include <limits.h>

#include "ps/client/client.h"
#include "train/checkpoint.h"

struct train_done_file {
    const struct ps_client *client;
    const char *save_dir;
    char dir[PATH_MAX], base[64]; /* base: name of the last save of all rows */
};

/* output_dir: where the folder "output" really is, or NULL. */
int train_done_file_init(struct train_done_file *d, const struct ps_client *client,
                         const char *save_dir, const char *output_dir, struct pd_err *err);
int train_done_file_write(void *done, const struct train_saved *s,
                          struct pd_err *err); /* struct train_online_saves */

#endif
