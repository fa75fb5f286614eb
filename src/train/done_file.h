/* SPDX-License-Identifier: Apache-2.0 */
/* done_file.h - done-files tell a serving system about saved models. They are written last, when a
 * model is complete on every server, each by rename.
 *
 *     save_dir/online/pass-00012.json   one per saved model
 *                     latest.json       the same bytes: the file to poll
 *                     base.json         the last save of all rows
 */
#pragma once

#include "ps/client/client.h"
#include "train/checkpoint.h"

struct train_done_file {
    const struct ps_client *client;
    const char *save_dir;
    char dir[PATH_MAX], base[64]; /* base: name of the last save of all rows */
};

/* output_dir: the real path of the folder "output", or NULL. */
int train_done_file_init(struct train_done_file *d, const struct ps_client *client,
                         const char *save_dir, const char *output_dir, struct pd_err *err);
/* Writes the done-files of a saved model; the callback `saved` of struct train_online_saves. */
int train_done_file_write(void *done, const struct train_saved *s, struct pd_err *err);
