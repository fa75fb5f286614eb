/* SPDX-License-Identifier: Apache-2.0 */
/* kube_run.c - see kube_run.h.
 *
 *     plan ─▶ start: apply ─▶ pods, events ... ─▶ all run         find: objects with the label
 *                      └──────── failure, Ctrl-C ─▶ delete
 */
#include "base/json_text.h"
#include "launcher/kubernetes/kube_run.h"

enum { UID_MAX = 64, POLL_FIRST_MS = 100, POLL_MS = 1000, SHOW_NS = 2000000000 };

static json_t *part(const json_t *o, const char *a, const char *b) {
    return json_object_get(json_object_get(o, a), b);
}

static const char *label_of(const json_t *o, const char *label) {
    return pd_json_text(part(o, "metadata", "labels"), label);
}

static void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    flockfile(stderr);
    fputs("paddlectl: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    funlockfile(stderr);
    va_end(ap);
}

/* --- nodes and pods --- */

/* The number of node `id` among the pods of its controller. */
static int index_of(const struct kube_plan *p, int id) {
    int n = 0;
    for (int i = 0; i < id; i++)
        n += p->server[i] == p->server[id];
    return n;
}

static int node_of(const struct kube_plan *p, int server, int64_t index) {
    for (int i = 0; i < p->n_nodes; i++)
        if (p->server[i] == server && index-- == 0)
            return i;
    return -1;
}

void kube_run_label(const struct kube_run *r, int id, char out[KUBE_POD]) {
    pd_fmt(out, KUBE_POD, "%s%s-%d", r->plan.name, r->plan.server[id] ? "" : "-trainer",
           index_of(&r->plan, id));
}

/* The node of a pod, or -1. The number of a StatefulSet's pod is at the end of its name, that of an
 * Indexed Job's pod in an annotation. */
static int node_of_pod(const struct kube_plan *p, const json_t *pod) {
    const int server = !strcmp(label_of(pod, "app.kubernetes.io/component"), "pserver");
    const char *name = pd_json_text(json_object_get(pod, "metadata"), "name"),
               *end = strrchr(name, '-');
    const char *text = server ? (end ? end + 1 : "")
                              : pd_json_text(part(pod, "metadata", "annotations"),
                                             "batch.kubernetes.io/job-completion-index");
    int64_t n;
    return pd_parse_i64(text, 0, INT32_MAX, &n) ? -1 : node_of(p, server, n);
}

static const char *phase_of(const json_t *pod) {
    return pd_json_text(json_object_get(pod, "status"), "phase");
}

static int is_alive(const json_t *pod) {
    const char *phase = phase_of(pod);
    return !part(pod, "metadata", "deletionTimestamp") && strcmp(phase, "Failed") != 0 &&
           strcmp(phase, "Succeeded") != 0;
}

static const json_t *condition(const json_t *pod, const char *type) {
    const json_t *c;
    size_t i;
    json_array_foreach (part(pod, "status", "conditions"), i, c)
        if (!strcmp(pd_json_text(c, "type"), type))
            return c;
    return NULL;
}

static int is_ready(const json_t *pod) {
    return !strcmp(pd_json_text(condition(pod, "Ready"), "status"), "True");
}

/* The reason why a pod waits. 1: it will never start. */
static int reason_of(const json_t *pod, char *out, size_t cap) {
    static const char *const hopeless[] = {"InvalidImageName",     "ErrImageNeverPull",
                                           "ImagePullBackOff",     "CreateContainerConfigError",
                                           "CreateContainerError", "RunContainerError",
                                           "CrashLoopBackOff"};
    const json_t *waiting =
        part(json_array_get(part(pod, "status", "containerStatuses"), 0), "state", "waiting");
    const json_t *place = condition(pod, "PodScheduled");
    const char *reason = pd_json_text(waiting, "reason"), *text = pd_json_text(waiting, "message");
    if (!waiting && !strcmp(pd_json_text(place, "status"), "False")) {
        reason = pd_json_text(place, "reason");
        text = pd_json_text(place, "message");
    }
    if (!*reason)
        reason = phase_of(pod);
    pd_fmt(out, cap, "%.60s%s%.300s", reason, *text ? ": " : "", text);
    for (size_t i = 0; i < sizeof hopeless / sizeof hopeless[0]; i++)
        if (!strcmp(reason, hopeless[i]))
            return 1;
    return 0;
}

/* --- asking --- */

static json_t *get(struct kubectl *k, const char *kinds, const char *selector, struct pd_err *err) {
    const char *const words[] = {"get", kinds, "-l", selector, "-o", "json", NULL};
    if (kubectl_call(k, words, NULL, err))
        return NULL;
    json_error_t e;
    json_t *list = json_loads(k->out.data ? (char *)k->out.data : "", 0, &e);
    if (!json_is_array(json_object_get(list, "items"))) {
        json_decref(list);
        pd_fail(err, PD_EHOST, "kubectl get %s does not print a list", kinds);
        return NULL;
    }
    return list;
}

static int open_ctl(struct kube_run *r, struct pd_err *err) {
    int rc = r->has_ctl ? 0 : kubectl_open(&r->ctl, r->plan.opts, err);
    r->has_ctl |= !rc;
    return rc;
}

static void run_selector(const struct kube_run *r, char *out, size_t cap) {
    pd_fmt(out, cap, KUBE_MANAGED "," KUBE_RUN_LABEL "=%s", r->plan.name);
}

static int make_tables(struct kube_run *r, struct pd_err *err) {
    r->pod = pd_calloc((size_t)r->plan.n_nodes, sizeof *r->pod);
    r->started = pd_calloc((size_t)r->plan.n_nodes, 1);
    return r->pod && r->started ? 0 : pd_oom(err, "the pods");
}

/* Note the pods' names. Returns the number of pods that are ready. */
static int take_pods(struct kube_run *r, const json_t *list) {
    const json_t *pod;
    size_t i;
    int n = 0;
    memset(r->pod, 0, (size_t)r->plan.n_nodes * sizeof *r->pod);
    memset(r->started, 0, (size_t)r->plan.n_nodes);
    json_array_foreach (json_object_get(list, "items"), i, pod) {
        int id = !strcmp(pd_json_text(pod, "kind"), "Pod") && is_alive(pod)
                     ? node_of_pod(&r->plan, pod)
                     : -1;
        if (id < 0)
            continue;
        pd_fmt(r->pod[id], KUBE_POD, "%s", pd_json_text(json_object_get(pod, "metadata"), "name"));
        r->started[id] = strcmp(phase_of(pod), "Pending") != 0;
        n += is_ready(pod);
    }
    return n;
}

/* --- waiting --- */

struct pod_wait {
    struct kube_run *r;
    uint64_t begin_ns, shown_ns;
    char shown[400]; /* the last progress */
    int n_ready;
    int node;               /* a node without a ready pod */
    char uid[UID_MAX];      /* of its pod; "": there is none */
    char owner[2][UID_MAX]; /* the controllers' uids; index: server */
    char why[400];          /* what it waits for */
    char event[400];        /* the text of the newest warning about it */
    int hopeless;
};

static void find_culprit(struct pod_wait *w, const json_t *list) {
    const json_t *pod;
    size_t i;
    struct kube_run *r = w->r;
    w->node = -1;
    *w->uid = 0;
    for (int id = 0; id < r->plan.n_nodes && w->node < 0; id++)
        if (!*r->pod[id])
            w->node = id;
    pd_fmt(w->why, sizeof w->why, "the pod does not exist yet");
    json_array_foreach (json_object_get(list, "items"), i, pod) {
        char why[sizeof w->why];
        int id = node_of_pod(&r->plan, pod), bad;
        if (id < 0 || !is_alive(pod) || is_ready(pod))
            continue;
        bad = reason_of(pod, why, sizeof why);
        if (w->node >= 0 && !bad)
            continue;
        w->node = id;
        pd_fmt(w->uid, UID_MAX, "%s", pd_json_text(json_object_get(pod, "metadata"), "uid"));
        pd_fmt(w->why, sizeof w->why, "%s", why);
        w->hopeless = bad;
        if (bad)
            return;
    }
}

static int find_owners(struct pod_wait *w, const char *selector, struct pd_err *err) {
    json_t *list = get(&w->r->ctl, "statefulset,job", selector, err);
    const json_t *o;
    size_t i;
    json_array_foreach (json_object_get(list, "items"), i, o)
        pd_fmt(w->owner[!strcmp(pd_json_text(o, "kind"), "StatefulSet")], UID_MAX, "%s",
               pd_json_text(json_object_get(o, "metadata"), "uid"));
    json_decref(list);
    return err->code;
}

/* Events outlive their objects by an hour, so the uid counts: that of the pod, or of the controller
 * that does not make it. A name may be that of an earlier run. */
static int find_event(struct pod_wait *w, struct pd_err *err) {
    const char *const words[] = {"get",  "events", "--field-selector", "type=Warning", "-o",
                                 "json", NULL};
    const json_t *e;
    size_t i;
    if (kubectl_call(&w->r->ctl, words, NULL, err))
        return err->code;
    json_t *list = json_loads(w->r->ctl.out.data ? (char *)w->r->ctl.out.data : "", 0, NULL);
    const char *newest = "", *uid = *w->uid ? w->uid : w->owner[(int)w->r->plan.server[w->node]];
    int forbidden = 0;
    *w->event = 0;
    json_array_foreach (json_object_get(list, "items"), i, e) {
        const char *at = pd_json_text(e, "lastTimestamp");
        if (!*at)
            at = pd_json_text(e, "eventTime");
        if (strcmp(pd_json_text(json_object_get(e, "involvedObject"), "uid"), uid) != 0 ||
            strcmp(at, newest) < 0)
            continue;
        newest = at;
        pd_fmt(w->event, sizeof w->event, "%.380s", pd_json_text(e, "message"));
        /* a quota, or a rule of the cluster */
        forbidden = !strcmp(pd_json_text(e, "reason"), "FailedCreate") &&
                    strstr(pd_json_text(e, "message"), "forbidden") != NULL;
    }
    w->hopeless |= forbidden;
    json_decref(list);
    return 0;
}

static void show(struct pod_wait *w, uint64_t now) {
    char text[sizeof w->shown], label[KUBE_POD];
    if (now - w->begin_ns < SHOW_NS || now - w->shown_ns < SHOW_NS)
        return;
    kube_run_label(w->r, w->node, label);
    pd_fmt(text, sizeof text, "%d of %d pods run; %s: %.250s", w->n_ready, w->r->plan.n_nodes,
           label, w->why);
    if (strcmp(text, w->shown) != 0)
        tell("%s", text);
    pd_fmt(w->shown, sizeof w->shown, "%s", text);
    w->shown_ns = now;
}

static int give_up(const struct pod_wait *w, struct pd_err *err) {
    char label[KUBE_POD], limit[60] = "";
    kube_run_label(w->r, w->node, label);
    if (!w->hopeless)
        pd_fmt(limit, sizeof limit, " within %g s", w->r->plan.opts->pod_timeout);
    return pd_fail(err, PD_EHOST, "%s: the pod did not start%s: %s%s%s", label, limit, w->why,
                   *w->event ? ": " : "", w->event);
}

static int wait_for_pods(struct kube_run *r, struct pd_err *err) {
    struct pod_wait w = {.r = r, .begin_ns = pd_mono_ns()};
    const uint64_t limit = (uint64_t)(r->plan.opts->pod_timeout * 1e9);
    char selector[200];
    uint64_t pause = POLL_FIRST_MS;
    run_selector(r, selector, sizeof selector);
    if (find_owners(&w, selector, err))
        return err->code;
    for (;;) {
        json_t *list = get(&r->ctl, "pods", selector, err);
        if (!list)
            return err->code;
        w.n_ready = take_pods(r, list);
        w.hopeless = 0;
        if (w.n_ready < r->plan.n_nodes)
            find_culprit(&w, list);
        json_decref(list);
        if (w.n_ready == r->plan.n_nodes)
            return 0;
        uint64_t now = pd_mono_ns();
        const int late = now - w.begin_ns >= limit;
        if ((w.hopeless || late || pause > POLL_FIRST_MS) && find_event(&w, err))
            return err->code;
        if (w.hopeless || late)
            return give_up(&w, err);
        show(&w, now);
        if (kubectl_pause(&r->ctl, pause, err))
            return err->code;
        pause = pause * 2 < POLL_MS ? pause * 2 : POLL_MS;
    }
}

/* Pods of a deleted run live on until the garbage collector finds them, with the same labels and
 * ready. A new run of that name must not take them for its own. */
static int wait_for_old_pods(struct kube_run *r, struct pd_err *err) {
    const uint64_t begin_ns = pd_mono_ns();
    char selector[200];
    int told = 0;
    run_selector(r, selector, sizeof selector);
    for (;;) {
        json_t *list = get(&r->ctl, "pods", selector, err);
        size_t n = json_array_size(json_object_get(list, "items"));
        json_decref(list);
        if (err->code || !n)
            return err->code;
        if (!told++)
            tell("run %s: waiting for the end of %zu pods of an earlier run of this name",
                 r->plan.name, n);
        if ((double)(pd_mono_ns() - begin_ns) >= r->plan.opts->pod_timeout * 1e9)
            return pd_fail(err, PD_EHOST,
                           "run %s: %zu pods of an earlier run of this name did not end within "
                           "%g s: use another run_name",
                           r->plan.name, n, r->plan.opts->pod_timeout);
        if (kubectl_pause(&r->ctl, POLL_MS, err))
            return err->code;
    }
}

/* --- runs that are there --- */

/* The numbers of pods that the controllers want. */
static void count_wanted(const json_t *list, const char *run, int *n_servers, int *n_others) {
    const json_t *o;
    size_t i;
    *n_servers = *n_others = 0;
    json_array_foreach (json_object_get(list, "items"), i, o) {
        if (strcmp(label_of(o, KUBE_RUN_LABEL), run) != 0)
            continue;
        if (!strcmp(pd_json_text(o, "kind"), "StatefulSet"))
            *n_servers = (int)json_integer_value(part(o, "spec", "replicas"));
        if (!strcmp(pd_json_text(o, "kind"), "Job"))
            *n_others = (int)json_integer_value(part(o, "spec", "completions"));
    }
}

/* The names of the runs in the list, each once, "a, b"; returns their number. */
static int list_runs(const json_t *list, struct pd_buf *names) {
    json_t *seen = json_object();
    const json_t *o;
    const char *name;
    json_t *value;
    size_t i;
    json_array_foreach (json_object_get(list, "items"), i, o)
        if (strcmp(pd_json_text(o, "kind"), "Pod") != 0) /* a pod may be about to end */
            json_object_set_new(seen, label_of(o, KUBE_RUN_LABEL), json_true());
    json_object_foreach (seen, name, value)
        pd_put_fmt(names, "%s%s", names->len ? ", " : "", name);
    pd_put_u8(names, 0);
    int n = (int)json_object_size(seen);
    json_decref(seen);
    return n;
}

/* Objects of the run, if run_name names it, else all of this user. */
static json_t *get_runs(struct kube_run *r, const char *kinds, struct pd_err *err) {
    char selector[200];
    if (*r->plan.opts->run_name)
        run_selector(r, selector, sizeof selector);
    else
        pd_fmt(selector, sizeof selector, KUBE_MANAGED ",paddlectl/user=%s", r->plan.user);
    return get(&r->ctl, kinds, selector, err);
}

static int choose_run(struct kube_run *r, const json_t *list, struct pd_err *err) {
    const struct pd_options *o = r->plan.opts;
    struct pd_buf names = {0}, command = {0};
    int n = list_runs(list, &names);
    kubectl_put_command(&command, o);
    pd_put_u8(&command, 0);
    if (names.failed || command.failed)
        pd_oom(err, "the names of the runs");
    else if (!n && *o->run_name)
        pd_fail(err, PD_ENOENT, "Kubernetes has no run %s (%s get pods)", o->run_name,
                (char *)command.data);
    else if (!n)
        pd_fail(err, PD_ENOENT,
                "Kubernetes has no pods of %s: 'paddlectl run' makes them (%s get pods)",
                r->plan.user, (char *)command.data);
    else if (n > 1)
        pd_fail(err, PD_EUSAGE, "there are %d runs: choose with --run_name (%.600s)", n,
                (char *)names.data);
    else
        pd_fmt(r->plan.name, sizeof r->plan.name, "%s", (char *)names.data);
    pd_buf_release(&names);
    pd_buf_release(&command);
    return err->code;
}

int kube_run_find(struct kube_run *r, const struct pd_options *opts, struct pd_err *err) {
    int n_servers = 0, n_others = 0, rc;
    *r = (struct kube_run){0};
    if ((rc = kube_plan_init(&r->plan, opts, err)))
        return rc;
    rc = open_ctl(r, err);
    if (!rc)
        kubectl_catch_signals(&r->ctl);
    json_t *list = rc ? NULL : get_runs(r, "statefulset,job,pod", err);
    rc = list ? choose_run(r, list, err) : err->code;
    if (!rc) {
        count_wanted(list, r->plan.name, &n_servers, &n_others);
        rc = kube_plan_size(&r->plan, n_servers, n_others, err);
    }
    if (!rc)
        rc = make_tables(r, err);
    if (!rc)
        take_pods(r, list);
    json_decref(list);
    if (!rc)
        rc = kubectl_leave_signals(&r->ctl, err);
    if (rc)
        kube_run_release(r);
    return rc;
}

/* --- a run that begins --- */

int kube_run_plan(struct kube_run *r, const struct pd_options *opts, struct pd_err *err) {
    *r = (struct kube_run){0};
    int rc = kube_plan_init(&r->plan, opts, err);
    if (!rc)
        rc = kube_plan_size(&r->plan, -1, -1, err);
    if (!rc)
        rc = make_tables(r, err);
    if (rc)
        kube_run_release(r);
    return rc;
}

static int apply(struct kube_run *r, struct pd_err *err) {
    const char *const words[] = {"apply", "-f", "-", NULL};
    json_t *list = kube_manifest(&r->plan);
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    if (!text)
        return pd_oom(err, "the manifests");
    r->made = 1; /* some objects may be there after a failure */
    int rc = kubectl_call(&r->ctl, words, text, err);
    free(text);
    return rc;
}

/* Objects of the run's name: 1; none: 0. Names the user's other runs, which may be forgotten. */
static int is_there(struct kube_run *r, struct pd_err *err) {
    struct pd_buf names = {0};
    json_t *list = get_runs(r, "statefulset,job", err);
    int n_servers, n_others, n = list ? list_runs(list, &names) : 0, there = 0;
    if (list && *r->plan.opts->run_name) {
        count_wanted(list, r->plan.name, &n_servers, &n_others);
        there = n_servers + n_others > 0;
        if (there && (n_servers != r->plan.n_servers || n_servers + n_others != r->plan.n_nodes))
            pd_fail(err, PD_ECONF,
                    "the run %s is there with %d + %d pods, but nodes and pservers ask for %d + %d",
                    r->plan.name, n_servers, n_others, r->plan.n_servers,
                    r->plan.n_nodes - r->plan.n_servers);
    } else if (n && !names.failed) {
        tell("you have pods of other runs, too: %s ('paddlectl clean --run_name=NAME' deletes "
             "them, unless a job runs there)",
             (char *)names.data);
    }
    pd_buf_release(&names);
    json_decref(list);
    return there;
}

int kube_run_start(struct kube_run *r, struct pd_err *err) {
    if (open_ctl(r, err))
        return err->code;
    kubectl_catch_signals(&r->ctl); /* to the end: the pods are deleted after a signal, too */
    int there = is_there(r, err);
    if (!err->code && !there && *r->plan.opts->run_name)
        wait_for_old_pods(r, err);
    if (!err->code && there)
        tell("run %s: its pods are there, and stay", r->plan.name);
    else if (!err->code && !apply(r, err))
        tell("run %s: %d pods", r->plan.name, r->plan.n_nodes);
    if (!err->code)
        wait_for_pods(r, err);
    if (err->code && r->made && !kube_run_delete(r))
        r->made = 0;
    return err->code;
}

/* --- the end --- */

void kube_run_put_delete(const struct kube_run *r, struct pd_buf *out) {
    kubectl_put_command(out, r->plan.opts);
    pd_put_fmt(out, " delete statefulset,job,service -l %s=%s", KUBE_RUN_LABEL, r->plan.name);
}

int kube_run_delete(struct kube_run *r) {
    char selector[200];
    struct pd_buf command = {0};
    struct pd_err err = {0};
    run_selector(r, selector, sizeof selector);
    const char *const words[] = {"delete", "statefulset,job,service", "-l",
                                 selector, "--ignore-not-found",      "--wait=false",
                                 NULL};
    if (!open_ctl(r, &err)) {
        kubectl_deaf(&r->ctl);
        kubectl_call(&r->ctl, words, NULL, &err);
    }
    if (!err.code)
        return 0;
    kube_run_put_delete(r, &command);
    pd_put_u8(&command, 0);
    tell("warning: the pods could not be deleted: %s; delete them: %s", err.msg,
         command.failed ? "" : (char *)command.data);
    pd_buf_release(&command);
    return -1;
}

void kube_run_release(struct kube_run *r) {
    kube_plan_release(&r->plan);
    if (r->has_ctl)
        kubectl_close(&r->ctl);
    free(r->pod);
    free(r->started);
    *r = (struct kube_run){0};
}
