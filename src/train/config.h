/* config.h - train.ini as a trainer takes it: the network, the optimizer's settings, and its text,
 * which goes into the model's manifest. All that can be wrong with it is said here, with file:line;
 * `paddle_worker model` says the same without training (src/conf/train_check.h has the options). */
#ifndef PD_TRAIN_CONFIG_H
#define PD_TRAIN_CONFIG_H

#include "base/buf.h"
#include "nn/graph/graph.h"
#include "ps/plan/optim_conf.h"

struct train_config {
    struct pd_buf text; /* with a NUL behind it */
    struct nn_graph *graph;
    struct ps_optim_conf optimizer;
};

/* PD_ECONF; PD_ENOENT, PD_EIO, PD_ENOMEM. In any case *c may be released then. */
int train_config_load(struct train_config *c, const char *path, struct pd_err *err);
void train_config_release(struct train_config *c); /* a zeroed one, too */

#endif
