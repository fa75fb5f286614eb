/* SPDX-License-Identifier: Apache-2.0 */
/* engine_kubernetes.c - engine = kubernetes: the nodes are pods, and a shell in a pod is `kubectl
 * exec`. `paddlectl run` makes the pods and deletes them; other commands find them by label. */
#include "launcher/engine/engine.h"
#include "launcher/kubernetes/kube_run.h"

/* The pods' names are not known yet. */
static int set_hosts(struct pd_options *o, struct pd_err *err) {
    char hosts[32] = "pod-0";
    if (o->nodes > 1)
        pd_fmt(hosts, sizeof hosts, "pod-[0-%d]", (int)o->nodes - 1);
    return engine_set(o, "hosts", hosts, err);
}

static int options(struct pd_options *o, struct pd_err *err) {
    struct pd_buf b = {0};
    kubectl_put_command(&b, o);
    pd_put_fmt(&b, " exec -i %%h -c paddle --");
    pd_put_u8(&b, 0);
    int rc = b.failed ? pd_oom(err, "connect") : engine_set(o, "connect", (char *)b.data, err);
    pd_buf_release(&b);
    return rc ? rc : set_hosts(o, err);
}

static int put_hosts(struct engine_run *run, struct pd_err *err) {
    const struct kube_run *k = run->state;
    struct pd_buf b = {0};
    for (int i = 0; i < k->plan.n_nodes; i++) {
        char label[KUBE_POD];
        kube_run_label(k, i, label);
        pd_put_fmt(&b, "%s%s", i ? "," : "", label);
    }
    pd_put_u8(&b, 0);
    run->hosts = (char *)b.data;
    return b.failed ? pd_oom(err, "the names of the pods") : 0;
}

static void release(struct engine_run *run) {
    struct kube_run *k = run->state;
    struct pd_buf command = {0};
    if (k && k->made && run->keep) {
        kube_run_put_delete(k, &command);
        pd_put_u8(&command, 0);
        fprintf(stderr,
                "paddlectl: the pods stay: run_name = %s. 'paddlectl fetch' copies their outputs, "
                "'paddlectl clean' deletes them (or %s)\n",
                k->plan.name, command.failed ? "" : (char *)command.data);
        pd_buf_release(&command);
    } else if (k && run->unsure) {
        kube_run_put_delete(k, &command);
        pd_put_u8(&command, 0);
        fprintf(stderr, "paddlectl: the pods stay, since a job may run there; delete them: %s\n",
                command.failed ? "" : (char *)command.data);
        pd_buf_release(&command);
    } else if (k && (k->made || run->dispose)) {
        if (!kube_run_delete(k) && run->dispose)
            fprintf(stderr, "paddlectl: run %s: the pods are deleted\n", k->plan.name);
    }
    if (k)
        kube_run_release(k);
    free(k);
}

static int prepare(struct engine_run *run, const struct pd_options *o, struct pd_err *err) {
    struct kube_run *k = pd_calloc(1, sizeof *k);
    run->state = k;
    int rc = k ? 0 : pd_oom(err, "the pods");
    if (!rc && *o->launch)
        rc = pd_fail(err, PD_ECONF, "%s: engine = kubernetes starts its pods without launch",
                     o->origin[pd_options_find("launch", PD_LAUNCHER)].where);
    if (!rc && !run->begins)
        rc = engine_needs(o, "kubectl", err);
    if (!rc)
        rc = run->begins ? kube_run_plan(k, o, err) : kube_run_find(k, o, err);
    return rc ? rc : put_hosts(run, err);
}

static int start(struct engine_run *run, struct pd_err *err) {
    struct kube_run *k = run->state;
    int rc = engine_needs(k->plan.opts, "kubectl", err);
    return rc ? rc : kube_run_start(k, err);
}

static const char *address(const struct engine_run *run, size_t i) {
    const struct kube_run *k = run->state;
    return *k->pod[i] ? k->pod[i] : NULL;
}

static int is_up(const struct engine_run *run, size_t i) {
    const struct kube_run *k = run->state;
    return k->started[i];
}

static int manifest(struct pd_buf *out, const struct pd_options *o, struct pd_err *err) {
    struct kube_run k;
    int rc = kube_run_plan(&k, o, err);
    if (rc)
        return rc;
    json_t *list = kube_manifest(&k.plan);
    if (list)
        kube_put_yaml(out, list);
    if (!list || out->failed)
        rc = pd_oom(err, "the manifests");
    json_decref(list);
    kube_run_release(&k);
    return rc;
}

const struct engine engine_kubernetes = {.name = "kubernetes",
                                         .options = options,
                                         .prepare = prepare,
                                         .start = start,
                                         .address = address,
                                         .is_up = is_up,
                                         .manifest = manifest,
                                         .release = release};
