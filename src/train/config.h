/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - train.ini as a trainer uses it: the network, the settings of the optimizer, and the
 * text, which goes into the model's manifest. All errors in the file are reported here with
 * file:line. `paddle_worker model` reports the same errors without training (src/conf/train_check.h
 * has the options). */
#pragma once

#include "conf/options.h"
#include "nn/graph/graph.h"
#include "ps/plan/optim_conf.h"

struct train_config {
    struct pd_buf text; /* followed by a NUL */
    struct nn_graph *graph;
    struct ps_optim_conf optimizer;
};

/* The text is that of the file with the settings of `o` (conf/settings.h). PD_ECONF, PD_ENOENT,
 * PD_EIO, PD_ENOMEM. *c may be released in any case. */
int train_config_load(struct train_config *c, const struct pd_options *o, const char *path,
                      struct pd_err *err);
void train_config_release(struct train_config *c); /* a zeroed struct may be released, too */
