/* SPDX-License-Identifier: Apache-2.0 */
/* kube_manifest.c - see kube_manifest.h. */
#include "launcher/kubernetes/kube_manifest.h"

#include <pwd.h>
#include <sodium.h>

#include "launcher/hosts/hosts.h"

enum { PORTS_MAX = 128, GRACE_S = 5, STARTUP_S = 60, RECREATE = 1000 };

/* The program of a pod. As process 1 the shell collects the processes whose parents have ended; it
 * would ignore TERM without the trap. With status 0 an evicted pod would count as done, and its Job
 * would not make it again. The folder keeps others out: /tmp of an image has the sticky
 * bit, an emptyDir lets everybody write. */
#define HOME "/tmp/home"
#define WAIT                                                                                  \
    "umask 077; mkdir -p \"$HOME\"; trap \"exit 1\" TERM INT; while :; do sleep 3600 & wait " \
    "$!; done"
#define CAN_WRITE "test -w \"$HOME\" && test -w /dev/shm"

/* --- the options --- */

static const char *where(const struct pd_options *o, const char *name) {
    return o->origin[pd_options_find(name, PD_LAUNCHER)].where;
}

static int has_only(const char *s, const char *more) {
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr(more, *s))
            return 0;
    return 1;
}

static int is_quantity(const char *s) {
    static const char *const units[] = {"", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"};
    size_t n = strspn(s, "0123456789");
    const char *unit = s + n;
    if (*unit == '.')
        unit += 1 + strspn(unit + 1, "0123456789");
    for (size_t i = 0; n && i < sizeof units / sizeof units[0]; i++)
        if (!strcmp(unit, units[i]))
            return 1;
    return 0;
}

/* A name of an object: small letters, digits and -, and at its ends no -. */
static int is_name(const char *s, size_t max) {
    size_t n = strlen(s);
    return n && n <= max && n == strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") &&
           isalnum((unsigned char)*s) && s[n - 1] != '-';
}

static int check_options(const struct pd_options *o, struct pd_err *err) {
    const struct {
        const char *name, *value, *unlike;
        int ok;
    } checks[] = {
        {"image", o->image, "an image, as in debian:12-slim",
         *o->image && has_only(o->image, "./_:@-")},
        {"namespace", o->kube_namespace, "the name of a namespace",
         !*o->kube_namespace || is_name(o->kube_namespace, 63)},
        {"context", o->kube_context, "a name without blanks, quotes and %",
         !o->kube_context[strcspn(o->kube_context, " \t\"'%")]},
        {"image_pull_secret", o->image_pull_secret, "the name of a Secret",
         !*o->image_pull_secret || has_only(o->image_pull_secret, ".-")},
        {"cpu", o->cpu, "a number of CPUs, as in 4 or 500m", is_quantity(o->cpu)},
        {"memory", o->memory, "an amount of memory, as in 8Gi", is_quantity(o->memory)},
        {"shm", o->shm, "an amount of memory, as in 512Mi", is_quantity(o->shm)},
        {"run_name", o->run_name,
         "a name of at most 40 small letters, digits and -, with a letter first",
         !*o->run_name || (is_name(o->run_name, KUBE_NAME - 1) && isalpha(*o->run_name))},
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        if (!checks[i].ok)
            return pd_fail(err, PD_ECONF, "%s: %s is '%.200s', not %s", where(o, checks[i].name),
                           checks[i].name, checks[i].value, checks[i].unlike);
    return 0;
}

/* The next of the words that commas or blanks separate, or NULL. The caller frees it. */
static char *next_word(const char **text) {
    const char *s = *text + strspn(*text, ", \t");
    size_t n = strcspn(s, ", \t");
    *text = s + n;
    return n ? strndup(s, n) : NULL;
}

/* "disk=ssd, zone=a" as an object. */
static int read_selector(json_t *out, const struct pd_options *o, struct pd_err *err) {
    const char *rest = o->node_selector;
    int rc = 0;
    for (char *word; !rc && (word = next_word(&rest)); free(word)) {
        char *value = strchr(word, '=');
        if (value)
            *value++ = 0;
        if (!value || !*word || !has_only(word, "./_-") || !has_only(value, "._-"))
            rc = pd_fail(err, PD_ECONF,
                         "%s: node_selector is a list of labels of nodes, as in disk=ssd, zone=a; "
                         "not '%.200s'",
                         where(o, "node_selector"), o->node_selector);
        else if (json_object_set_new(out, word, json_string(value)))
            rc = pd_oom(err, "the node selector");
    }
    return rc;
}

/* key=value:Effect, key:Effect, key=value, key: as `kubectl taint` writes taints. */
static json_t *read_toleration(char *word) {
    static const char *const effects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute"};
    char *effect = strchr(word, ':'), *value = strchr(word, '=');
    int known = !effect;
    if (effect)
        *effect++ = 0;
    if (value && (!effect || value < effect))
        *value++ = 0;
    for (size_t i = 0; effect && i < sizeof effects / sizeof effects[0]; i++)
        known |= !strcmp(effect, effects[i]);
    if (!known || !*word || !has_only(word, "./_-") || (value && !has_only(value, "._-")))
        return NULL;
    json_t *t = json_pack("{s:s, s:s, s:s*, s:s*}", "key", word, "operator",
                          value ? "Equal" : "Exists", "value", value, "effect", effect);
    return t;
}

static int read_tolerations(json_t *out, const struct pd_options *o, struct pd_err *err) {
    const char *rest = o->tolerations;
    int rc = 0;
    for (char *word; !rc && (word = next_word(&rest)); free(word)) {
        json_t *t = read_toleration(word);
        if (!t)
            rc =
                pd_fail(err, PD_ECONF,
                        "%s: tolerations is a list of taints, as in dedicated=training:NoSchedule, "
                        "spot; not '%.200s'",
                        where(o, "tolerations"), o->tolerations);
        else if (json_array_append_new(out, t))
            rc = pd_oom(err, "the tolerations");
    }
    return rc;
}

/* --- the plan --- */

/* The user's name as a value of a label and a part of a name. */
static void user_label(char *out, size_t cap) {
    struct passwd *pw = getpwuid(getuid());
    size_t n = 0;
    for (const char *s = pw ? pw->pw_name : ""; *s && n + 1 < cap; s++)
        if (isalnum((unsigned char)*s))
            out[n++] = (char)tolower((unsigned char)*s);
    out[n] = 0;
    if (!n)
        pd_fmt(out, cap, "uid%u", (unsigned)getuid());
}

int kube_plan_init(struct kube_plan *p, const struct pd_options *opts, struct pd_err *err) {
    *p = (struct kube_plan){.opts = opts};
    json_t *selector = json_object(), *tolerations = json_array();
    int rc = check_options(opts, err);
    rc = rc ? rc : read_selector(selector, opts, err);
    rc = rc ? rc : read_tolerations(tolerations, opts, err);
    json_decref(selector);
    json_decref(tolerations);
    user_label(p->user, sizeof p->user);
    if (*opts->run_name)
        pd_fmt(p->name, sizeof p->name, "%s", opts->run_name);
    else
        pd_fmt(p->name, sizeof p->name, "paddle-%.24s-%06x", p->user,
               (unsigned)randombytes_uniform(1u << 24));
    return rc;
}

int kube_plan_size(struct kube_plan *p, int n_servers, int n_others, struct pd_err *err) {
    const struct pd_options *o = p->opts;
    int *ids = NULL;
    size_t n = 0;
    p->n_nodes = n_servers < 0 ? (int)o->nodes : n_servers + n_others;
    if (!p->n_nodes)
        return pd_fail(err, PD_ECONF, "engine = kubernetes needs the number of pods: nodes = 4");
    if (!(p->server = pd_calloc((size_t)p->n_nodes, 1)))
        return pd_oom(err, "the nodes");
    int rc = hosts_parse_roles(&ids, &n, o->pservers, (size_t)p->n_nodes, "pservers",
                               where(o, "pservers"), err);
    for (size_t i = 0; i < n && !rc; i++)
        p->server[ids[i]] = 1;
    free(ids);
    p->n_servers = (int)n;
    if (!rc && n_servers >= 0 && n_servers != p->n_servers)
        rc = pd_fail(err, PD_ECONF,
                     "the run %s has %d pods for parameter servers, but pservers = %s asks for %d",
                     p->name, n_servers, o->pservers, p->n_servers);
    return rc;
}

void kube_plan_release(struct kube_plan *p) {
    free(p->server);
    p->server = NULL;
}

/* --- the objects --- */

static json_t *labels(const struct kube_plan *p, const char *component) {
    return json_pack("{s:s, s:s, s:s, s:s, s:s*}", "app.kubernetes.io/name", "paddlectl",
                     KUBE_RUN_LABEL, p->name, "app.kubernetes.io/managed-by", "paddlectl",
                     "paddlectl/user", p->user, "app.kubernetes.io/component", component);
}

static json_t *metadata(const struct kube_plan *p, const char *end, const char *component) {
    return json_pack("{s:s+, s:o}", "name", p->name, end, "labels", labels(p, component));
}

static json_t *selector(const struct kube_plan *p, const char *component) {
    return json_pack("{s:s, s:s*}", KUBE_RUN_LABEL, p->name, "app.kubernetes.io/component",
                     component);
}

static json_t *container(const struct kube_plan *p) {
    const struct pd_options *o = p->opts;
    json_t *amounts = json_pack("{s:s, s:s}", "cpu", o->cpu, "memory", o->memory);
    json_t *c = json_pack(
        "{s:s, s:s, s:[s,s,s], s:[{s:s, s:s}], s:{s:O, s:O}, s:{s:{s:[s,s,s]}, s:i, s:i, s:i},"
        " s:{s:b, s:{s:[s]}}, s:[{s:s, s:s}]}",
        "name", "paddle", "image", o->image, "command", "/bin/sh", "-c", WAIT, "env", "name",
        "HOME", "value", HOME, "resources", "requests", amounts, "limits", amounts, "startupProbe",
        "exec", "command", "/bin/sh", "-c", CAN_WRITE, "periodSeconds", 1, "timeoutSeconds", 10,
        "failureThreshold", STARTUP_S, "securityContext", "allowPrivilegeEscalation", 0,
        "capabilities", "drop", "ALL", "volumeMounts", "name", "shm", "mountPath", "/dev/shm");
    json_decref(amounts);
    return c;
}

/* The part of a pod that does not depend on its controller. */
static json_t *pod(const struct kube_plan *p, const char *component, const char *restart) {
    const struct pd_options *o = p->opts;
    json_t *spec = json_pack(
        "{s:s, s:b, s:b, s:s, s:i, s:{s:b, s:I, s:I, s:I, s:{s:s}}, s:[o],"
        " s:[{s:s, s:{s:s, s:s}}]}",
        "restartPolicy", restart, "automountServiceAccountToken", 0, "enableServiceLinks", 0,
        "subdomain", p->name, "terminationGracePeriodSeconds", GRACE_S, "securityContext",
        "runAsNonRoot", o->run_as != 0, "runAsUser", (json_int_t)o->run_as, "runAsGroup",
        (json_int_t)o->run_as, "fsGroup", (json_int_t)o->run_as, "seccompProfile", "type",
        "RuntimeDefault", "containers", container(p), "volumes", "name", "shm", "emptyDir",
        "medium", "Memory", "sizeLimit", o->shm);
    json_t *nodes = json_object(), *taints = json_array();
    if (!read_selector(nodes, o, NULL) && json_object_size(nodes))
        json_object_set(spec, "nodeSelector", nodes);
    if (!read_tolerations(taints, o, NULL) && json_array_size(taints))
        json_object_set(spec, "tolerations", taints);
    if (*o->image_pull_secret)
        json_object_set_new(spec, "imagePullSecrets",
                            json_pack("[{s:s}]", "name", o->image_pull_secret));
    json_decref(nodes);
    json_decref(taints);
    return json_pack("{s:{s:o}, s:o}", "metadata", "labels", labels(p, component), "spec", spec);
}

/* The ports that pservers of the run try first; the pods need no Service to reach each other. */
static json_t *service_ports(const struct kube_plan *p) {
    const struct pd_options *o = p->opts;
    int64_t n = o->ports_num + o->ports_num_for_sparse;
    json_t *ports = json_array();
    for (int64_t i = 0; o->port && i < n && i < PORTS_MAX && o->port + i <= 65535; i++) {
        char name[16];
        pd_fmt(name, sizeof name, "port-%d", (int)i);
        json_array_append_new(
            ports, json_pack("{s:s, s:I}", "name", name, "port", (json_int_t)(o->port + i)));
    }
    return ports;
}

static json_t *service(const struct kube_plan *p) {
    json_t *ports = service_ports(p);
    json_t *spec = json_pack("{s:s, s:b, s:o}", "clusterIP", "None", "publishNotReadyAddresses", 1,
                             "selector", selector(p, NULL));
    if (json_array_size(ports))
        json_object_set(spec, "ports", ports);
    json_decref(ports);
    return json_pack("{s:s, s:s, s:o, s:o}", "apiVersion", "v1", "kind", "Service", "metadata",
                     metadata(p, "", NULL), "spec", spec);
}

static json_t *stateful_set(const struct kube_plan *p) {
    return json_pack("{s:s, s:s, s:o, s:{s:s, s:i, s:s, s:{s:o}, s:o}}", "apiVersion", "apps/v1",
                     "kind", "StatefulSet", "metadata", metadata(p, "", "pserver"), "spec",
                     "serviceName", p->name, "replicas", p->n_servers, "podManagementPolicy",
                     "Parallel", "selector", "matchLabels", selector(p, "pserver"), "template",
                     pod(p, "pserver", "Always"));
}

/* A lost pod must not end the Job, which would delete its other pods: backoffLimit is large. */
static json_t *job(const struct kube_plan *p) {
    const int n = p->n_nodes - p->n_servers;
    return json_pack("{s:s, s:s, s:o, s:{s:s, s:i, s:i, s:i, s:o}}", "apiVersion", "batch/v1",
                     "kind", "Job", "metadata", metadata(p, "-trainer", "trainer"), "spec",
                     "completionMode", "Indexed", "completions", n, "parallelism", n,
                     "backoffLimit", RECREATE, "template", pod(p, "trainer", "Never"));
}

json_t *kube_manifest(const struct kube_plan *p) {
    json_t *items = json_array();
    int bad = json_array_append_new(items, service(p));
    if (p->n_servers)
        bad |= json_array_append_new(items, stateful_set(p));
    if (p->n_servers < p->n_nodes)
        bad |= json_array_append_new(items, job(p));
    if (bad) {
        json_decref(items);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:o}", "apiVersion", "v1", "kind", "List", "items", items);
}
