/* SPDX-License-Identifier: Apache-2.0 */
/* job_setup.c - the description of a job (id, key, packages, spec), and the requests that set up a
 * node. */
#include <sodium.h>

#include "conf/settings.h"
#include "launcher/job/job_internal.h"
#include "wire/job_spec.h"

/* With this grace a job ends at most attach_lease + 2 s after its client. */
enum { ASK_MS = 30000, SETUP_MS = 60000, NODE_GRACE_MS = 1000 };

/* --- the job as a whole --- */

/* JOB<YYYYmmddHHMMSS>-<4 hex>: ids sort by time, and two jobs of the same second differ. */
static void make_id(char *out, size_t cap) {
    time_t now = time(NULL);
    struct tm tm;
    char stamp[20];
    uint8_t r[2];
    randombytes_buf(r, sizeof r);
    localtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%d%H%M%S", &tm);
    pd_fmt(out, cap, "JOB%s-%02x%02x", stamp, r[0], r[1]);
}

/* Node ids in rank order as "0-999,7". Ranges keep the message to every node short: the total would
 * otherwise be quadratic in the number of nodes. */
static json_t *ids(const int *v, size_t n) {
    struct pd_buf b = {0};
    for (size_t i = 0, k; i < n; i = k + 1) {
        for (k = i; k + 1 < n && v[k + 1] == v[k] + 1; k++)
            ;
        pd_put_fmt(&b, k > i ? "%s%d-%d" : "%s%d", i ? "," : "", v[i], v[k]);
    }
    json_t *text = b.failed ? NULL : json_stringn(b.len ? (char *)b.data : "", b.len);
    pd_buf_release(&b);
    return text;
}

/* Check that the job has the roles it needs. paddle_worker needs both roles; a program of the user
 * may need only one. */
static int check_roles(const struct job *j, struct pd_err *err) {
    const struct pd_options *o = j->opts;
    if (!j->c.n_pservers && !j->c.n_trainers)
        return pd_fail(err, PD_ECONF, "%s: the job has neither a pserver nor a trainer",
                       option_source(o, "trainers"));
    if (o->min_nodes > (int64_t)j->c.hosts.n)
        return pd_fail(
            err, PD_ECONF,
            "%s: min_nodes is %lld, the list has %zu host%s: give at most --min-nodes=%zu",
            option_source(o, "min_nodes"), (long long)o->min_nodes, j->c.hosts.n,
            j->c.hosts.n == 1 ? "" : "s", j->c.hosts.n);
    if (!j->c.n_pservers && !*o->trainer_command)
        return pd_fail(err, PD_ECONF,
                       "%s: the built-in trainer needs at least one pserver; set trainer_command "
                       "to run a program of your own",
                       option_source(o, "pservers"));
    if (!j->c.n_trainers && !*o->pserver_command)
        return pd_fail(err, PD_ECONF,
                       "%s: the built-in pserver needs at least one trainer; set pserver_command "
                       "to run a program of your own",
                       option_source(o, "trainers"));
    return 0;
}

static json_t *env_object(const struct pd_options *o) {
    json_t *e = json_object();
    for (size_t i = 0; i < o->n_env; i++)
        json_object_set_new(e, o->env[i].name, json_string(o->env[i].value));
    return e;
}

static json_t *option(const struct pd_options *o, size_t i) {
    struct pd_buf text = {0};
    pd_options_text(o, i, &text);
    json_t *j = text.failed ? NULL : json_stringn(text.len ? (char *)text.data : "", text.len);
    pd_buf_release(&text);
    return j;
}

/* The options of [train] from conf.ini and the command line. They override train.ini, which the
 * workers read themselves. */
static json_t *train_object(const struct job *j) {
    const struct pd_options *o = j->opts;
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    json_t *train = json_object();
    struct pd_buf set = {0};
    pd_settings_text(o, &set); /* the other keys of train.ini: PADDLE_INIT_SET */
    if ((set.len || set.failed) &&
        json_object_set_new(train, "set",
                            set.failed ? NULL : json_stringn((char *)set.data, set.len))) {
        json_decref(train);
        train = NULL;
    }
    pd_buf_release(&set);
    for (size_t i = 0; i < n; i++) {
        int its = !strcmp(t[i].section, "train") || !strcmp(t[i].name, "data_layout") ||
                  !strcmp(t[i].name, "encrypt");
        if (its && o->origin[i].level > PD_FROM_TRAIN_INI)
            json_object_set_new(train, t[i].name, option(o, i));
    }
    if (*j->checkpoint.name) /* beside the output folder, which has another place on each node */
        json_object_set_new(train, "resume",
                            json_sprintf("output/../resume/%s", j->checkpoint.name));
    return train;
}

/* Add the option's value to the spec as its field in wire_job_spec: seconds become milliseconds.
 * -1: no memory, or text that is not UTF-8. */
static int add_option(json_t *spec, const struct wire_field *f, const struct pd_options *o) {
    size_t n, i = (size_t)pd_options_find(f->option, PD_LAUNCHER);
    const struct pd_option *t = &pd_option_table(&n)[i];
    const void *value = (const char *)o + t->field;
    json_t *v = f->type == WIRE_TEXT ? option(o, i)
                : t->type == PD_F64  ? json_integer((json_int_t)(*(const double *)value * 1000))
                                     : json_integer(*(const int64_t *)value);
    return json_object_set_new(spec, f->key, v);
}

static json_t *numbers(const int *v, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(v[i]));
    return list;
}

int job_make_spec(struct job *j, struct pd_err *err) {
    const struct pd_options *o = j->opts;
    json_decref(j->spec);
    j->spec = json_pack("{s:s, s:b, s:i, s:o, s:o, s:o, s:o, s:b, s:b, s:i}", "job", j->id,
                        "attached", !j->flags.detach, "grace_ms", NODE_GRACE_MS, "pserver_nodes",
                        ids(j->c.pservers, j->c.n_pservers), "trainer_nodes",
                        ids(j->c.trainers, j->c.n_trainers), "env", env_object(o), "train",
                        train_object(j), "encrypt", o->encrypt != PD_ENCRYPT_OFF, "local",
                        client_env_is_local(&j->c) && !*o->nic, "data_copies", job_data_copies(j));
    if (j->copy_nodes) {
        json_object_set_new(j->spec, "data_copy_nodes", numbers(j->copy_nodes, j->c.n_trainers));
        json_object_set_new(j->spec, "data_machines", numbers(j->machines, (size_t)j->n_nodes));
    }
    for (size_t i = 0; j->spec && i < wire_job_spec.n; i++)
        if (wire_job_spec.fields[i].option && add_option(j->spec, &wire_job_spec.fields[i], o)) {
            json_decref(j->spec);
            j->spec = NULL;
        }
    return j->spec ? 0 : pd_fail(err, PD_ECONF, "a value of the configuration is not UTF-8 text");
}

/* Checks the options that need no folder for outputs, and of the nodes only their number. */
static int check_options(struct job *j, struct pd_err *err) {
    const struct pd_options *o = j->opts;
    if (strlen(o->job_name) > JOB_SPEC_MAX_NAME)
        return pd_fail(err, PD_ECONF, "%s is longer than %d bytes", option_source(o, "name"),
                       JOB_SPEC_MAX_NAME);
    j->needs_worker =
        (j->c.n_pservers && !*o->pserver_command) || (j->c.n_trainers && !*o->trainer_command);
    j->sends_workspace = !*o->job_workspace && *o->job_dispatch_package;
    if (!*o->job_workspace && !*o->job_dispatch_package &&
        j->needs_worker) /* a user's own command needs no workspace */
        return pd_fail(err, PD_ECONF,
                       "there is no workspace: give job_dispatch_package (a folder or tar archive "
                       "on this machine) or job_workspace (a folder on the nodes)");
    if (o->data_copies > 1 && (j->c.hosts.n < 2 || o->data_layout != PD_DATA_DISPATCHED))
        return pd_fail(
            err, PD_ECONF, "%s: data_copies = 2 needs %s", option_source(o, "data_copies"),
            j->c.hosts.n < 2 ? "a second node to keep the copies: add a host"
                             : "data files that paddlectl sends: data_layout = dispatched");
    return check_roles(j, err);
}

/* Without `nodes` their number is not known: all numbers in pservers and trainers are right, and
 * train.ini is checked as for one trainer and two pservers. */
static int check_unstarted(struct job *j, struct pd_err *err) {
    enum { MANY = 1 << 16 };
    const struct pd_options *o = j->opts;
    struct client_env *c = &j->c;
    c->hosts.n = o->nodes ? (size_t)o->nodes : MANY;
    int rc = client_env_roles(c, c->hosts.n, err);
    if (!o->nodes && c->n_pservers > 2)
        c->n_pservers = 2;
    if (!o->nodes && c->n_trainers > 1)
        c->n_trainers = 1;
    rc = rc ? rc : check_options(j, err);
    return rc || !j->sends_workspace ? rc : job_check(j, err);
}

int job_check_unstarted(const struct pd_options *o, struct pd_err *err) {
    if (*o->resume && strcmp(o->resume, "latest"))
        return 0; /* the earlier job's --set is not known */
    struct job *j = pd_calloc(1, sizeof *j);
    if (!j)
        return pd_oom(err, "the job");
    j->opts = j->c.opts = o;
    int rc = check_unstarted(j, err);
    j->c.hosts.n = 0; /* there is no list */
    client_env_release(&j->c);
    pd_buf_release(&j->train_ini);
    free(j);
    return rc;
}

int job_describe(struct job *j, struct pd_err *err) {
    const struct pd_options *o = j->opts;
    int rc = check_options(j, err);
    if (rc)
        return rc;
    make_id(j->id, sizeof j->id);
    pd_secret_pages(j->key, sizeof j->key);
    randombytes_buf(j->key, sizeof j->key);
    if (outputs_init(&j->out, o->outputs, NULL, j->id, option_source(o, "outputs"), err))
        return err->code;
    if (!j->flags.dry_run && outputs_try(&j->out, option_source(o, "outputs"), err))
        return err->code;
    rc = job_check(j, err);
    if (!rc && !j->flags.dry_run)
        rc = job_dispatch_open(j, err);
    j->c.env.job = j->id;
    j->c.env.start = 1;
    j->c.env.lease_ms = (unsigned)(j->opts->attach_lease * 1000);
    return rc;
}

/* --- one node --- */

static void request(struct job_node *n, unsigned type, json_t *body, const void *sec1, size_t n1,
                    uint64_t ms, const char *what, link_answer answer) {
    if (link_request(n->link, type, body, sec1, n1, ms, what, answer, n))
        node_fail_memory(n);
}

static int has_place(const int *places, size_t n, int place) {
    for (size_t i = 0; i < n; i++)
        if (places[i] == place)
            return 1;
    return 0;
}

/* A node that runs paddle_worker gets it. If hosts may be left out, or replace a lost node, every
 * node may have to run it later. */
int node_needs_worker(const struct job_node *n) {
    const struct job *j = n->job;
    if (!j->needs_worker || j->opts->min_nodes || j->opts->on_failure == PD_FAILURE_RESTART)
        return j->needs_worker;
    return (!*j->opts->pserver_command && has_place(j->c.pservers, j->c.n_pservers, n->place)) ||
           (!*j->opts->trainer_command && has_place(j->c.trainers, j->c.n_trainers, n->place));
}

/* The path of job_workspace on this node. %n is replaced; a relative path is below root_dir. ~
 * works only if root_dir also begins with ~, since then the agent's answer contains the home
 * folder. */
static int workspace_path(struct job_node *n, char *out, size_t cap, struct pd_err *err) {
    const struct pd_options *o = n->job->opts;
    const char *root = link_facts(n->link)->root;
    char path[PATH_MAX], template[PATH_MAX];
    int rc = root_for_node(o->job_workspace, n->place, path, sizeof path, err);
    if (!rc)
        rc = root_for_node(n->host->root_dir, n->place, template, sizeof template, err);
    if (rc)
        return rc;
    if (path[0] == '/')
        rc = pd_fmt(out, cap, "%s", path);
    else if (path[0] != '~')
        rc = pd_fmt(out, cap, "%s/%s", root, path);
    else if (template[0] == '~' && pd_ends_with(root, template + 1))
        rc = pd_fmt(out, cap, "%.*s%s", (int)(strlen(root) - strlen(template + 1)), root, path + 1);
    else
        return pd_fail(err, PD_ECONF,
                       "%s: give an absolute path, or a path relative to root_dir, not %s",
                       option_source(o, "job_workspace"), o->job_workspace);
    return rc ? pd_fail(err, PD_ECONF, "%s: the path is too long",
                        option_source(o, "job_workspace"))
              : 0;
}

static int on_data_list(struct link *l, const struct wire_frame *f, json_t *body,
                        const struct pd_err *err, void *arg) {
    struct job_node *n = arg;
    (void)l;
    (void)f;
    if (!(AT(n->step) & (AT(NODE_SETUP) | AT(NODE_RUNNING))))
        return 1;
    if (err)
        node_fail(n, err);
    else
        send_data_list(n, (size_t)json_integer_value(json_object_get(body, "next")), n->then);
    return 1;
}

void send_data_list(struct job_node *n, size_t first, void (*then)(struct job_node *n)) {
    size_t of = job_data_n(n->job);
    struct pd_buf rows = {0};
    n->then = then;
    if (first >= of) {
        then(n);
        return;
    }
    job_data_rows(n->job, first, &rows);
    if (rows.failed)
        node_fail_memory(n);
    else
        request(n, WIRE_AG_DATA_LIST,
                wire_put(&wire_ag_data_list,
                         &(struct ag_data_list){.first = (int64_t)first, .of = (int64_t)of}),
                rows.data, rows.len, ASK_MS, "sending the list of data files", on_data_list);
    pd_buf_release(&rows);
}

static void is_ready(struct job_node *n) { node_enter(n, NODE_READY); }

/* Without paddlectl the nodes choose the head among the lowest ids. */
static int may_be_head(const struct job_node *n) {
    const struct job *j = n->job;
    return n->id == 0 ||
           (n->id < WIRE_VOTERS && j->n_nodes >= WIRE_VOTERS_LEAST && job_may_restart(j));
}

static int on_setup(struct link *l, const struct wire_frame *f, json_t *body,
                    const struct pd_err *err, void *arg) {
    struct job_node *n = arg;
    (void)l;
    (void)f;
    if (n->step != NODE_SETUP)
        return 1;
    json_decref(n->addrs);
    n->addrs = NULL;
    struct ag_job_setup_answer a;
    struct pd_err e = {0};
    if (err) {
        e = *err;
    } else if (!wire_get(&wire_ag_job_setup_answer, &a, body, &e)) {
        n->addrs = json_incref(a.addrs);
        n->port = (int)a.port;
        job_is_ours(n); /* as if it had answered a ping */
        job_feed_offer(n);
        if (may_be_head(n))
            send_data_list(n, 0, is_ready);
        else
            is_ready(n);
        return 1;
    }
    node_fail(n, &e);
    return 1;
}

/* The spec for this node: variables of [host ...] override those of [env]. Returns a new reference.
 */
static json_t *spec_for(const struct job_node *n) {
    if (!n->host->n_env)
        return json_incref(n->job->spec);
    json_t *spec = json_copy(n->job->spec), *env = json_copy(json_object_get(spec, "env"));
    for (size_t i = 0; i < n->host->n_env; i++)
        json_object_set_new(env, n->host->env[i]->name, json_string(n->host->env[i]->value));
    json_object_set_new(spec, "env", env);
    return spec;
}

void send_setup(struct job_node *n) {
    struct job *j = n->job;
    char workspace[PATH_MAX] = "", worker[2 * OBJECT_ID + 1], data[2 * OBJECT_ID + 1];
    struct pd_err err = {0};
    if (*j->opts->job_workspace && workspace_path(n, workspace, sizeof workspace, &err)) {
        node_fail(n, &err);
        return;
    }
    json_t *spec = spec_for(n);
    const struct ag_job_setup m = {
        .job = j->id,
        .node = n->id,
        .n_nodes = j->n_nodes,
        .spec = spec,
        .worker = node_needs_worker(n) ? job_package_id(j, j->worker_package, worker) : "",
        .worker_hash = j->worker_hash,
        .data = job_data_id(n, data),
        .data_apart = job_data_n(j) > 0,
        .workspace = workspace,
        .resume_job = j->checkpoint.job,
        .resume_name = j->checkpoint.name,
        .owner = j->c.env.owner};
    request(n, WIRE_AG_JOB_SETUP, wire_put(&wire_ag_job_setup, &m), j->key, sizeof j->key, SETUP_MS,
            "setting up the job", on_setup);
    json_decref(spec);
}

static int on_peers(struct link *l, const struct wire_frame *f, json_t *body,
                    const struct pd_err *err, void *arg) {
    struct job_node *n = arg;
    (void)l;
    (void)f;
    (void)body;
    if (n->step != NODE_PEERS)
        return 1;
    if (err)
        node_fail(n, err);
    else
        node_enter(n, NODE_PEERED);
    return 1;
}

void send_peers(struct job_node *n) {
    struct job *j = n->job;
    /* Only the head gets all addresses: with thousands of nodes the list is long. The other nodes
     * get the address of the head. */
    json_t *nodes = json_array();
    for (int i = 0; i < (n->id ? 1 : j->n_nodes); i++)
        json_array_append_new(
            nodes, wire_put(&wire_job_peer, &(struct job_peer){.name = j->by_id[i]->host->label,
                                                               .addrs = j->by_id[i]->addrs,
                                                               .port = j->by_id[i]->port}));
    request(n, WIRE_AG_JOB_PEERS,
            wire_put(&wire_ag_job_peers, &(struct ag_job_peers){.nodes = nodes}), NULL, 0, ASK_MS,
            "introducing the nodes", on_peers);
    json_decref(nodes);
}
