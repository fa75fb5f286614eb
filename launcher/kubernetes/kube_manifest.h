/* SPDX-License-Identifier: Apache-2.0 */
/* kube_manifest.h - the objects of a run on Kubernetes, as JSON and as YAML:
 *
 *     Service RUN (headless)         names of the pods: RUN-0.RUN
 *     StatefulSet RUN                a pod for each node with a parameter server
 *     Job RUN-trainer (Indexed)      a pod for each other node
 *
 * A pod waits; paddlectl brings agent, programs and data with `kubectl exec`. All objects have the
 * label app.kubernetes.io/instance=RUN, by which they are found and deleted. docs/kubernetes.md
 * says which objects are left out, and why. */
#pragma once

#include <jansson.h>

#include "conf/options.h"

enum { KUBE_NAME = 41 };

#define KUBE_RUN_LABEL "app.kubernetes.io/instance"
#define KUBE_MANAGED "app.kubernetes.io/managed-by=paddlectl"

struct kube_plan {
    const struct pd_options *opts;
    char name[KUBE_NAME]; /* of the run */
    char user[64];        /* of this machine, as a label */
    int n_nodes;
    int n_servers; /* nodes with a parameter server */
    char *server;  /* index: node id. 1: its pod belongs to the StatefulSet */
};

/* Checks the options of [kubernetes]. The name of the run is run_name, or a new one. `opts` stays
 * in use. */
int kube_plan_init(struct kube_plan *p, const struct pd_options *opts, struct pd_err *err);
/* The pods of the nodes. n_servers, n_others: of a run that is there; -1: as the options say. */
int kube_plan_size(struct kube_plan *p, int n_servers, int n_others, struct pd_err *err);
void kube_plan_release(struct kube_plan *p);

/* An object of kind List for kubectl. NULL: no memory. The caller owns the reference. */
json_t *kube_manifest(const struct kube_plan *p);

/* Append the items of a List as documents of YAML. Every text is in quotes: a parser of YAML 1.1
 * takes a plain no for false and 1e3 for a number. */
void kube_put_yaml(struct pd_buf *out, const json_t *list);
