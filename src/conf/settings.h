/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h - --set SECTION.KEY=VALUE: any key of train.ini or conf.ini from the command line.
 *
 *     --set train.seed=7, --set cluster.port=0      an option of the table (options.c)
 *     --set env.A=b, --set host.gpu1.user=root      a pair of a section of conf.ini, over the file
 *     --set layer.hidden.size=512                   a pair of train.ini
 *
 * Pairs of train.ini are kept in struct pd_options. PADDLE_INIT_SET brings them to the nodes, where
 * each trainer puts them into the text of train.ini before it reads the network from it. The text
 * with the pairs is saved with the model. A pair replaces its line, or stands at the end of the
 * text, so that the other lines keep their numbers. */
#pragma once

#include "conf/options.h"

enum { PD_MAX_SETTINGS = 256 };
#define PD_SETTINGS_AGAIN "resumed job: --set " /* the origin of a pair of pd_settings_again */
#define PD_SETTINGS_VARIABLE "PADDLE_INIT_SET"

/* Take "SECTION.KEY=VALUE". The last pair for a key wins; PD_FROM_ENV never replaces PD_FROM_ARGV.
 * PD_EUSAGE or PD_ECONF with "--set SECTION.KEY=VALUE: ...". */
int pd_settings_add(struct pd_options *o, unsigned who, const char *text,
                    enum pd_origin_level level, struct pd_err *err);

/* Put the pairs for [env], [groups] and [host ...] over those of conf.ini, after it was read. */
int pd_settings_to_sections(struct pd_options *o, struct pd_err *err);

/* `text` is the train.ini of a saved model. Take the pairs that --set gave to that job, except
 * those that this command line or environment gives. Append " --set SECTION.KEY=VALUE" for each to
 * `taken`. */
int pd_settings_again(struct pd_options *o, const char *text, struct pd_buf *taken,
                      struct pd_err *err);

/* Append "SECTION.KEY=VALUE" and a newline for each pair of train.ini. */
void pd_settings_text(const struct pd_options *o, struct pd_buf *out);

/* The arguments of a worker that reads train.ini with these pairs: `first` (ended by NULL), --set
 * and a pair for each, `last`, NULL. The caller frees the array only. NULL: out of memory. */
char **pd_settings_argv(const struct pd_options *o, const char *const *first, const char *last);

/* Put the pairs of train.ini into its text. `name` is for messages. line: receives the line of each
 * pair, by its index in o->settings; may be NULL. PD_ECONF: the text lacks the layer, cost or
 * evaluator of a pair, or is no INI file. */
int pd_settings_apply(const struct pd_options *o, const char *name, struct pd_buf *text,
                      int line[PD_MAX_SETTINGS], struct pd_err *err);

/* If the message in `err` begins with "NAME:LINE: " and a pair has this line, it begins with "--set
 * SECTION.KEY=VALUE: " instead. */
void pd_settings_blame(const struct pd_options *o, const char *name,
                       const int line[PD_MAX_SETTINGS], struct pd_err *err);
