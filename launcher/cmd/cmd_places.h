/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_places.h - the model and the workspace for infer and export, where the user gives none. */
#pragma once

struct cmd_places {
    const char *conf;                          /* the file of --conf, or NULL */
    char model[PATH_MAX], workspace[PATH_MAX]; /* "": to be found */
};

/* Completes what is not given. The model: the newest in a given folder, else in the outputs of
 * conf.ini, else in the workspace's output. The workspace: job_dispatch_package of conf.ini, else
 * ./workspace, else the current folder. Prints what it has found. PD_EUSAGE: there is no model. */
int cmd_find_places(struct cmd_places *p, struct pd_err *err);
