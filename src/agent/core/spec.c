/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c - see spec.h. */
#include "agent/core/spec.h"

#include "agent/core/msg.h"
#include "agent/core/node_paths.h"

static int add_node(struct spec *s, enum role r, const char *key, json_int_t node,
                    struct pd_err *err) {
    if (node < 0 || node >= s->n_nodes)
        return pd_fail(err, PD_EPROTO, "spec.%s names a node that is not one of 0..%d", key,
                       s->n_nodes - 1);
    if (roles_rank(&s->roles, r, (int)node) >= 0)
        return pd_fail(err, PD_EPROTO, "spec.%s names node %d twice", key, (int)node);
    roles_add(&s->roles, r, (int)node);
    return 0;
}

/* Reads one number of a list like "0-999,7"; -1: no number, or too large. */
static json_int_t take_number(const char **s) {
    json_int_t v = -1;
    for (; **s >= '0' && **s <= '9'; ++*s)
        if ((v = (v < 0 ? 0 : v) * 10 + (**s - '0')) > SPEC_MAX_NODES)
            return -1;
    return v;
}

static int read_ranges(struct spec *s, const char *text, const char *key, enum role r,
                       struct pd_err *err) {
    while (*text) {
        json_int_t lo = take_number(&text), hi = *text == '-' ? (text++, take_number(&text)) : lo;
        if (lo < 0 || hi < lo || (*text && (*text != ',' || !*++text)))
            return pd_fail(err, PD_EPROTO, "spec.%s is no list of nodes", key);
        for (; lo <= hi; lo++)
            if (add_node(s, r, key, lo, err))
                return err->code;
    }
    return 0;
}

static int read_nodes(struct spec *s, const json_t *o, const char *key, enum role r,
                      struct pd_err *err) {
    const json_t *v, *a = json_object_get(o, key);
    size_t i;
    if (!json_is_array(a) && !json_is_string(a))
        return pd_fail(err, PD_EPROTO, "spec.%s is not a list of nodes", key);
    s->roles.n_nodes = s->n_nodes;
    if (roles_init(&s->roles, r))
        return pd_oom(err, "the nodes of a role");
    if (json_is_string(a))
        return read_ranges(s, json_string_value(a), key, r, err);
    json_array_foreach (a, i, v)
        if (add_node(s, r, key, json_is_integer(v) ? json_integer_value(v) : -1, err))
            return err->code;
    return 0;
}

/* Reads an object of strings. Its keys are names of variables or options: letters, digits, '_', '-'
 * and '.'. */
static int read_strings(json_t **out, const json_t *o, const char *key, struct pd_err *err) {
    const char *name;
    json_t *v, *t = json_object_get(o, key);
    *out = t;
    if (!t)
        return 0;
    if (!json_is_object(t))
        return pd_fail(err, PD_EPROTO, "spec.%s is not an object", key);
    json_object_foreach (t, name, v) {
        if (!*name ||
            name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")])
            return pd_fail(err, PD_EPROTO, "spec.%s: '%.60s' is not a name", key, name);
        if (!json_is_string(v))
            return pd_fail(err, PD_EPROTO, "spec.%s.%.60s is not a string", key, name);
    }
    return 0;
}

/* Reads an array of n node ids. It may be missing. */
static int read_ids(struct spec *s, const json_t *o, const char *key, int n, const json_t **out,
                    struct pd_err *err) {
    const json_t *v, *a = json_object_get(o, key);
    size_t i;
    *out = a;
    if (a && (int)json_array_size(a) != n)
        return pd_fail(err, PD_EPROTO, "spec.%s has not %d nodes", key, n);
    json_array_foreach (a, i, v)
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= s->n_nodes)
            return pd_fail(err, PD_EPROTO, "spec.%s names a node that is not one of 0..%d", key,
                           s->n_nodes - 1);
    return 0;
}

static int read_copies(struct spec *s, const json_t *o, struct pd_err *err) {
    int rc = read_ids(s, o, "data_copy_nodes", s->roles.n[ROLE_TRAINER], &s->copy_nodes, err);
    return rc ? rc : read_ids(s, o, "data_machines", s->n_nodes, &s->machines, err);
}

int spec_copy_node(const struct spec *s, int trainer) {
    if (s->job.data_copies < 2)
        return -1;
    return s->copy_nodes ? (int)json_integer_value(json_array_get(s->copy_nodes, (size_t)trainer))
                         : (s->roles.nodes[ROLE_TRAINER][trainer] + 1) % s->n_nodes;
}

int spec_machine(const struct spec *s, int node) {
    return s->machines ? (int)json_integer_value(json_array_get(s->machines, (size_t)node)) : node;
}

/* Our pserver needs a trainer. A user's own pserver program may be a job without trainers. Our
 * trainer needs a pserver, too, but reports that itself. */
static int check_roles(const struct spec *s, struct pd_err *err) {
    if (!s->roles.n[ROLE_PSERVER] && !s->roles.n[ROLE_TRAINER])
        return pd_fail(err, PD_ECONF, "the job has neither a pserver nor a trainer");
    if (!s->roles.n[ROLE_TRAINER] && !*s->command[ROLE_PSERVER])
        return pd_fail(err, PD_ECONF, "our pservers would wait for ever: the job has no trainer");
    return 0;
}

static int read_hash(const char *hash, const char *key, char out[65], struct pd_err *err) {
    if (*hash && (strlen(hash) != 64 || hash[strspn(hash, "0123456789abcdef")]))
        return pd_fail(err, PD_EPROTO, "%s: '%.70s' is not a hash", key, hash);
    pd_fmt(out, 65, "%s", hash);
    return 0;
}

int spec_parse(struct spec *s, json_t *body, const char *job, struct pd_err *err) {
    *s = (struct spec){0};
    struct ag_job_setup m;
    int rc = wire_get(&wire_ag_job_setup, &m, body, err);
    if (rc)
        return rc;
    if (!m.spec)
        return pd_fail(err, PD_EPROTO, "AG_JOB_SETUP has no spec");
    if (strcmp(m.job, job))
        return pd_fail(err, PD_EPROTO, "this agent's job is %s, not %.64s", job, m.job);
    const json_t *o = m.spec;
    s->whole = json_incref(body);
    s->n_nodes = (int)m.n_nodes;
    s->node = (int)m.node;
    s->data_apart = (int)m.data_apart;
    s->workspace = m.workspace;
    s->resume_job = m.resume_job;
    s->resume_name = m.resume_name;
    rc = wire_get(&wire_job_spec, &s->job, o, err);
    if (rc) {
        spec_release(s);
        return rc;
    }
    s->began_attached = (int)s->job.attached;
    if (s->job.heartbeat_ms && s->job.heartbeat_ms < 2000) /* heartbeat_timeout's minimum */
        s->job.heartbeat_ms = 2000;
    if (strcmp(s->job.on_failure, "restart"))
        s->job.max_restarts = 0;
    s->command[ROLE_PSERVER] = s->job.pserver_command;
    s->command[ROLE_TRAINER] = s->job.trainer_command;
    const int how = *s->job.bind ? bind_of(s->job.bind) : BIND_NONE;
    s->bind = how < 0 ? BIND_NONE : (enum bind_how)how;
    if (s->node >= s->n_nodes)
        rc = pd_fail(err, PD_EPROTO, "node %d of %d nodes is no node", s->node, s->n_nodes);
    else if (how < 0)
        rc = pd_fail(err, PD_ECONF, "bind is none, auto, cores or numa, not '%s'", s->job.bind);
    else if ((*s->resume_job && !node_paths_name_ok(s->resume_job)) ||
             (*s->resume_name && !node_paths_name_ok(s->resume_name)))
        rc = pd_fail(err, PD_EPROTO, "resume_job and resume_name are names");
    else if (*s->workspace && *s->workspace != '/')
        rc = pd_fail(err, PD_ECONF, "job_workspace must be absolute, not '%.200s'", s->workspace);
    if (!rc)
        rc = read_hash(m.worker, "worker", s->worker, err);
    if (!rc)
        rc = read_hash(m.worker_hash, "worker_hash", s->worker_hash, err);
    if (!rc && *s->worker && !*s->worker_hash)
        rc = pd_fail(err, PD_EPROTO, "AG_JOB_SETUP has a worker, but no worker_hash");
    if (!rc)
        rc = read_hash(m.data, "data", s->data, err);
    if (!rc)
        rc = read_nodes(s, o, "pserver_nodes", ROLE_PSERVER, err);
    if (!rc)
        rc = read_nodes(s, o, "trainer_nodes", ROLE_TRAINER, err);
    if (!rc)
        rc = check_roles(s, err);
    if (!rc)
        rc = read_copies(s, o, err);
    if (!rc)
        rc = read_strings(&s->env, o, "env", err);
    if (!rc)
        rc = read_strings(&s->train, o, "train", err);
    if (rc)
        spec_release(s);
    return rc;
}

void spec_release(struct spec *s) {
    roles_release(&s->roles);
    json_decref(s->whole);
    *s = (struct spec){0};
}
