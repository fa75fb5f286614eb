/* SPDX-License-Identifier: Apache-2.0 */
/* tensorboard.h - event files for TensorBoard, made of the record of a run, also while the run goes
 * on:
 *
 *     metrics.jsonl ──> tensorboard.c: tags and steps ──> tfrecord.c
 *                                       ──> ROOT/JOB/events.out.tfevents.START.paddlectl
 *
 * The bytes of a file follow from the record alone. So a run may be written again, by the same or
 * another paddlectl: the file then grows, and stays valid (tfrecord.h). docs/records.md has the
 * names of the values. */
#pragma once

struct tensorboard;

/* Makes the folder `root`. PD_ECONF: nothing can be written there. */
int tensorboard_root(const char *root, struct pd_err *err);
/* Opens the event file of the run whose record is in `dir`. */
int tensorboard_new(struct tensorboard **out, const char *root, const char *dir,
                    struct pd_err *err);
/* Writes what the record has now. After an error the file is left as it is. */
int tensorboard_update(struct tensorboard *t, struct pd_err *err);
/* As record_damage, for what has been read. */
void tensorboard_damage(const struct tensorboard *t, void (*say)(void *arg, const char *text),
                        void *arg);
void tensorboard_free(struct tensorboard *t);
