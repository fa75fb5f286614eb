/* SPDX-License-Identifier: Apache-2.0 */
/* env.c - see env.h. */
#include "agent/process/env.h"

#include "agent/process/proc.h"
#include "base/json_text.h"

struct list {
    char **v;
    size_t n, cap;
    int failed;
};

/* Set NAME=value, replacing an earlier NAME. Takes `text` over. */
static void list_put(struct list *l, char *text) {
    if (!text || l->failed) {
        l->failed = 1;
        free(text);
        return;
    }
    size_t name = strcspn(text, "=") + 1;
    for (size_t i = 0; i < l->n; i++)
        if (!strncmp(l->v[i], text, name)) {
            free(l->v[i]);
            l->v[i] = text;
            return;
        }
    if (pd_grow(l->v, l->cap, l->n + 2)) {
        l->failed = 1;
        free(text);
        return;
    }
    l->v[l->n++] = text;
    l->v[l->n] = NULL;
}

static void put(struct list *l, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void put(struct list *l, const char *name, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    size_t head = strlen(name) + 1;
    char *text = pd_malloc(head + (size_t)n + 1);
    if (text) {
        pd_fmt(text, head + 1, "%s=", name);
        va_start(ap, fmt);
        vsnprintf(text + head, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    list_put(l, text);
}

static int dropped(const char *s) {
    static const char *const prefixes[] = {"PADDLE_",        "OPENBLAS_", "SSH_",
                                           "TRAINING_ROLE=", "POD_IP=",   "CPU_NUM="};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (pd_starts_with(s, prefixes[i]))
            return 1;
    return !strchr(s, '=');
}

/* The variables of HD_START, and the bytes that their values may have; NULL: printable text. A
 * process that has the job's key can send HD_START, so no other name is taken (LD_PRELOAD, PATH).
 */
static const struct {
    const char *name, *bytes;
} of_head[] = {
    {"POD_IP", "0123456789abcdefABCDEF.:"},
    {"PADDLE_CURRENT_ENDPOINT", "0123456789abcdefABCDEF.:[]"},
    {"PADDLE_PSERVERS_IP_PORT_LIST", "0123456789abcdefABCDEF.:[],"},
    {"PADDLE_TRAINER_ENDPOINTS", "0123456789abcdefABCDEF.:[],"},
    {"PADDLE_RESTART_COUNT", "0123456789"},
    {"PADDLE_LOST_NODES", NULL},
};

static int is_printable(const char *s) {
    while (*s && (unsigned char)*s >= 32 && *s != 127)
        s++;
    return !*s;
}

int env_check(const json_t *of_sender, struct pd_err *err) {
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)(uintptr_t)of_sender, name, v) {
        const char *value = json_string_value(v);
        size_t i = 0;
        while (i < sizeof of_head / sizeof of_head[0] && strcmp(of_head[i].name, name))
            i++;
        if (i == sizeof of_head / sizeof of_head[0])
            return pd_fail(err, PD_EPROTO, "HD_START may not set the variable %.60s", name);
        if (!value ||
            (of_head[i].bytes ? value[strspn(value, of_head[i].bytes)] != 0 : !is_printable(value)))
            return pd_fail(err, PD_EPROTO, "HD_START: the value of %s is refused", name);
    }
    return 0;
}

static void put_all(struct list *l, const json_t *o) {
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)(uintptr_t)o, name, v)
        if (json_is_string(v))
            put(l, name, "%s", json_string_value(v));
}

/* num_passes, num-passes -> PADDLE_INIT_NUM_PASSES */
static void put_option(struct list *l, const char *option, const char *value) {
    char name[128];
    if (pd_fmt(name, sizeof name, "PADDLE_INIT_%s", option))
        return;
    for (char *s = name; *s; s++)
        *s = *s == '-' || *s == '.' ? '_' : (char)toupper((unsigned char)*s);
    put(l, name, "%s", value);
}

static void put_number(struct list *l, const char *option, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    put_option(l, option, text);
}

static void put_listen_fds(struct list *l, unsigned n) {
    struct pd_buf b = {0};
    for (unsigned i = 0; i < n; i++)
        pd_put_fmt(&b, "%s%u", i ? "," : "", PROC_FIRST_FD + i);
    pd_put_u8(&b, 0);
    if (n && !b.failed)
        put(l, "PADDLE_LISTEN_FDS", "%s", (char *)b.data);
    l->failed |= b.failed != 0;
    pd_buf_release(&b);
}

char **env_build(const struct node_paths *p, const struct spec *s, const struct env_role *r,
                 char *const *inherited) {
    struct list l = {0};
    const char *name;
    json_t *v;
    for (; *inherited; inherited++)
        if (!dropped(*inherited))
            list_put(&l, pd_strdup(*inherited));
    put(&l, "OPENBLAS_NUM_THREADS", "1");
    put_all(&l, s->env);
    json_object_foreach (s->train, name, v)
        put_option(&l, name, json_string_value(v));
    put_all(&l, r->job_env);
    put(&l, "PADDLE_JOB_ID", "%s", p->job);
    put(&l, "PADDLE_NODE_ID", "%d", s->node);
    put(&l, "TRAINING_ROLE", "%s", r->role == ROLE_PSERVER ? "PSERVER" : "TRAINER");
    put(&l, "PADDLE_TRAINER_ID", "%d", r->rank);
    put(&l, "PADDLE_TRAINERS_NUM", "%d", r->n_trainers);
    put(&l, "PADDLE_FIRST_TRAINERS_NUM", "%d", s->roles.n[ROLE_TRAINER]);
    put(&l, "PADDLE_PORT", "%d", r->port);
    put(&l, "PADDLE_KEY_FILE", "%s/.agent/key", p->dir);
    put(&l, "PADDLE_OUTPUT_DIR", "%s/output", p->dir);
    put(&l, "PADDLE_LOG_DIR", "%s/log", p->dir);
    put(&l, "PADDLE_LOG_MAX_SIZE", "%llu", (unsigned long long)s->job.log_max_size);
    put(&l, "PADDLE_LOG_KEEP", "%lld", (long long)s->job.log_keep);
    put(&l, "PADDLE_EVENT_FD", "%d", PROC_EVENT_FD);
    if (s->bind == BIND_CORES || s->bind == BIND_NUMA)
        put(&l, "PADDLE_BIND", "%s", bind_names[s->bind]);
    put_listen_fds(&l, r->n_listen_fds);
    if (r->has_data_fd)
        put(&l, "PADDLE_DATA_FD", "%d", PROC_FIRST_FD);
    put_number(&l, "TRAINER_ID", r->rank);
    put_number(&l, "NUM_GRADIENT_SERVERS", r->n_trainers);
    if (s->roles.n[ROLE_PSERVER])
        put_option(&l, "PSERVERS", pd_json_text(r->job_env, "PADDLE_PSERVERS_IP_PORT_LIST"));
    put_number(&l, "PORTS_NUM", s->job.ports_num);
    put_number(&l, "PORTS_NUM_FOR_SPARSE", s->job.ports_num_for_sparse);
    if (r->role == ROLE_PSERVER)
        put_number(&l, "PORT", r->port);
    if (!l.failed)
        return l.v;
    env_free(l.v);
    return NULL;
}

void env_free(char **env) {
    for (char **e = env; e && *e; e++)
        free(*e);
    free(env);
}
