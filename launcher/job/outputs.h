/* outputs.h - where the outputs of a job go on this machine:
 *
 *     outputs/<job id>/          what the nodes' output folders held, merged; log/ with --log
 *     outputs/latest             points at it
 *     outputs/.<job id>.part/    what is on its way: node-0, node-1, ...; locked by whoever fetches
 */
#ifndef LAUNCHER_OUTPUTS_H
#define LAUNCHER_OUTPUTS_H

#include "base/err.h"

struct outputs {
    char root[4096], id[64], dir[4200], aside[4200], logs_aside[4300];
    int lock; /* the open folder `aside` between begin and drop; else -1 */
};

/* `where` names the option in the message. Only says what is what. */
int outputs_init(struct outputs *o, const char *root, const char *job, const char *where,
                 struct pd_err *err);
/* Outputs come at the end, after hours maybe: whether they can be written is tried before. Nothing
 * stays of the trial. */
int outputs_try(const struct outputs *o, const char *where, struct pd_err *err);
/* Makes aside and logs_aside, for us alone: two fetches of a job into one place would spoil each
 * other's. */
int outputs_begin(struct outputs *o, struct pd_err *err);
/* Merge what came from nodes 0..n-1 and put it in its place, over what an earlier fetch brought;
 * then `latest`. */
int outputs_place(const struct outputs *o, int n_nodes, int *n_renamed, struct pd_err *err);
/* Models among them that are not whole: told one by one, with the first part that is missing. For a
 * job that lost nodes. */
void outputs_incomplete(const struct outputs *o,
                        void (*tell)(void *arg, const char *model, const char *part, int n_missing),
                        void *arg);
void outputs_drop(struct outputs *o); /* what is still aside, if outputs_begin made it */

#endif
