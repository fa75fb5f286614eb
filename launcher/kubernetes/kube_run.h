/* SPDX-License-Identifier: Apache-2.0 */
/* kube_run.h - the pods of a run: made, waited for, found by their labels, deleted. */
#pragma once

#include "launcher/kubernetes/kube_manifest.h"
#include "launcher/kubernetes/kubectl.h"

enum { KUBE_POD = 64 };

struct kube_run {
    struct kube_plan plan;
    struct kubectl ctl;
    int has_ctl;
    int made;              /* by this paddlectl, which deletes the objects */
    char (*pod)[KUBE_POD]; /* index: node id. The pod's name now; "": there is none */
    char *started;         /* index: node id. 1: a program may run in the pod */
};

/* A run that begins: only its plan. */
int kube_run_plan(struct kube_run *r, const struct pd_options *opts, struct pd_err *err);
/* Makes the objects of the plan and waits until all pods run. Objects of that name that are there
 * already are used, and stay. After a failure nothing is left. */
int kube_run_start(struct kube_run *r, struct pd_err *err);
/* A run that is there: run_name, or the only one of this user. PD_ENOENT: there is none. */
int kube_run_find(struct kube_run *r, const struct pd_options *opts, struct pd_err *err);
/* Deletes the objects. Signals do not stop it. -1: that failed; a warning was printed. */
int kube_run_delete(struct kube_run *r);
void kube_run_release(struct kube_run *r);

/* The name of node `id` in lists and messages: that of its pod, without the random end that pods of
 * a Job have. */
void kube_run_label(const struct kube_run *r, int id, char out[KUBE_POD]);
/* Append the command that deletes the objects. */
void kube_run_put_delete(const struct kube_run *r, struct pd_buf *out);
