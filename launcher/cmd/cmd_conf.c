/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_conf.c - paddlectl conf: the value of every option with its origin, and the resulting
 * settings of each node. */
#include "conf/settings.h"
#include "launcher/link/bootstrap.h"
#include "launcher/job/job.h"
#include "launcher/hosts/host_source.h"
#include "launcher/link/client_env.h"
#include "launcher/cmd/cmd.h"
#include "launcher/cmd/cmd_data.h"

/* The hosts and their roles. */
struct nodes {
    struct hosts hosts;
    int *pservers, *trainers;
    size_t n_pservers, n_trainers;
};

static int is_launchers(const struct pd_option *t) { return (t->who & PD_LAUNCHER) != 0; }

static void nodes_release(struct nodes *n) {
    hosts_release(&n->hosts);
    free(n->pservers);
    free(n->trainers);
}

/* Replace %n in each host's root_dir by the node id. */
static int expand_roots(struct hosts *hosts, const struct pd_options *o, struct pd_err *err) {
    for (size_t i = 0; i < hosts->n; i++) {
        struct host *h = &hosts->v[i];
        char root[4096];
        if (root_for_node(h->root_dir, (int)i, root, sizeof root, err)) {
            pd_err_prefix(err, "%s",
                          h->from[PD_HOST_ROOT_DIR] ? h->from[PD_HOST_ROOT_DIR]
                                                    : option_source(o, "root_dir"));
            return err->code;
        }
        char *copy = pd_strdup(root);
        if (!copy)
            return pd_oom(err, "the configuration");
        free(h->root_dir);
        h->root_dir = copy;
    }
    return 0;
}

static int nodes_load(struct nodes *n, const struct pd_options *o, struct pd_err *err) {
    memset(n, 0, sizeof *n);
    /* a conf.ini without hosts is valid here, and one whose hosts are not known yet */
    int rc = *o->hosts && !host_source_is_launch(o) ? host_source_load(&n->hosts, o, err) : 0;
    if (!rc && n->hosts.n)
        rc = hosts_parse_roles(&n->pservers, &n->n_pservers, o->pservers, n->hosts.n, "pservers",
                               option_source(o, "pservers"), err);
    if (!rc && n->hosts.n)
        rc = hosts_parse_roles(&n->trainers, &n->n_trainers, o->trainers, n->hosts.n, "trainers",
                               option_source(o, "trainers"), err);
    if (!rc)
        rc = expand_roots(&n->hosts, o, err);
    if (rc)
        nodes_release(n);
    return rc;
}

static int rank_of(const int *ids, size_t n, size_t node) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] == (int)node)
            return (int)i;
    return -1;
}

/* --- text: a conf.ini, with the origin of each line as comment --- */

static const char *command_line(const char *where) {
    return pd_starts_with(where, "--") ? "command line: " : "";
}

static void line(const char *name, const char *value, int n, const char *where) {
    int width = (int)strlen(name) + n;
    printf("%s = %.*s%*s ; %s%s\n", name, n, value, width < 40 ? 40 - width : 0, "",
           command_line(where), where);
}

static void env_lines(const char *prefix, const struct pd_env_var *env, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char name[100];
        snprintf(name, sizeof name, "%s%s", prefix, env[i].name);
        line(name, env[i].value, (int)strlen(env[i].value), env[i].where);
    }
}

static void show_sections(const struct pd_options *o) {
    for (size_t i = 0; i < o->n_groups; i++) {
        const struct pd_group *g = &o->groups[i];
        if (!i)
            printf("\n[groups]\n");
        line(g->name, g->hosts, (int)strlen(g->hosts), g->where);
    }
    for (size_t i = 0; i < o->n_host_sections; i++) {
        const struct pd_host_section *h = &o->host_sections[i];
        printf("\n[host %s] ; %s%s\n", h->pattern, command_line(h->where), h->where);
        for (int k = 0; k < PD_HOST_N_KEYS; k++)
            if (h->value[k].text)
                line(pd_host_keys[k].name, h->value[k].text, (int)strlen(h->value[k].text),
                     h->value[k].where);
        env_lines("env.", h->env, h->n_env);
    }
}

/* The keys of train.ini that --set gives, as comments: conf.ini has no such sections. */
static void show_settings(const struct pd_options *o, const char *note) {
    const char *section = NULL;
    if (*note)
        printf("\n# resume: %s\n", note);
    for (size_t i = 0; i < o->n_settings; i++) {
        const struct pd_setting *s = &o->settings[i];
        char name[600], where[320];
        if (s->file != PD_SET_TRAIN_INI)
            continue;
        if (!section)
            printf("\n# Set in train.ini:\n");
        if (!section || strcmp(section, s->section))
            printf("# [%s]\n", s->section);
        section = s->section;
        snprintf(name, sizeof name, "# %.*s", (int)(s->value - s->key) - 1, s->key);
        snprintf(where, sizeof where, "%s%.*s", s->again ? PD_SETTINGS_AGAIN : "--set ",
                 (int)(s->value - s->text) - 1, s->text);
        line(name, s->value, (int)strlen(s->value), where);
    }
}

static void show_text(const struct pd_options *o, const char *note) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    const char *section = "";
    for (size_t i = 0; i < n; i++) {
        struct pd_buf v = {0};
        if (!is_launchers(&t[i]))
            continue;
        if (strcmp(section, t[i].section)) {
            if (!strcmp(section, "cluster"))
                show_sections(o);
            printf("%s[%s]\n", *section ? "\n" : "", t[i].section);
        }
        section = t[i].section;
        pd_options_text(o, i, &v);
        line(t[i].name, v.data ? (char *)v.data : "", (int)v.len, o->origin[i].where);
        pd_buf_release(&v);
    }
    if (o->n_env)
        printf("\n[env]\n");
    env_lines("", o->env, o->n_env);
    show_settings(o, note);
}

static void show_nodes(const struct nodes *n) {
    for (size_t i = 0; i < n->hosts.n; i++) {
        const struct host *h = &n->hosts.v[i];
        int p = rank_of(n->pservers, n->n_pservers, i), t = rank_of(n->trainers, n->n_trainers, i);
        printf("%zu\t%s\t", i, h->label);
        const char *to = h->local ? "-" : h->address ? h->address : h->addr;
        printf(strchr(to, ':') ? "%s%s[%s]" : "%s%s%s", h->user ? h->user : "", h->user ? "@" : "",
               to);
        if (h->port)
            printf(":%d", h->port);
        putchar('\t');
        printf("%s\t", h->root_dir);
        if (p >= 0)
            printf("pserver.%d", p);
        if (t >= 0)
            printf("%strainer.%d", p >= 0 ? "," : "", t);
        puts(p < 0 && t < 0 ? "-" : "");
    }
}

/* --- JSON --- */

static void add_json(json_t *all, const char *section, const char *name, size_t n_name,
                     const char *value, size_t n, const char *where) {
    char from[340];
    snprintf(from, sizeof from, "%s%s", command_line(where), where);
    json_array_append_new(all, json_pack("{s:s, s:s%, s:s%, s:s}", "section", section, "name", name,
                                         n_name, "value", value, n, "from", from));
}

static json_t *options_json(const struct pd_options *o) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++) {
        struct pd_buf v = {0};
        if (!is_launchers(&t[i]))
            continue;
        pd_options_text(o, i, &v);
        add_json(all, t[i].section, t[i].name, strlen(t[i].name), v.data ? (char *)v.data : "",
                 v.len, o->origin[i].where);
        pd_buf_release(&v);
    }
    for (size_t i = 0; i < o->n_env; i++)
        add_json(all, "env", o->env[i].name, strlen(o->env[i].name), o->env[i].value,
                 strlen(o->env[i].value), o->env[i].where);
    for (size_t i = 0; i < o->n_settings; i++) {
        const struct pd_setting *s = &o->settings[i];
        if (s->file == PD_SET_TRAIN_INI)
            add_json(all, s->section, s->key, (size_t)(s->value - s->key) - 1, s->value,
                     strlen(s->value), s->again ? "resumed job: --set" : "--set");
    }
    return all;
}

static json_t *groups_json(const struct pd_options *o) {
    json_t *all = json_array();
    for (size_t i = 0; i < o->n_groups; i++)
        json_array_append_new(all, json_pack("{s:s, s:s, s:s}", "name", o->groups[i].name, "hosts",
                                             o->groups[i].hosts, "from", o->groups[i].where));
    return all;
}

static json_t *rank_json(int rank) { return rank < 0 ? json_null() : json_integer(rank); }

static json_t *nodes_json(const struct nodes *n, const struct pd_options *o) {
    json_t *all = json_array();
    for (size_t i = 0; i < n->hosts.n; i++) {
        const struct host *h = &n->hosts.v[i];
        json_t *env = json_object(), *from = json_object();
        for (size_t k = 0; k < o->n_env; k++)
            json_object_set_new(env, o->env[k].name, json_string(o->env[k].value));
        for (size_t k = 0; k < h->n_env; k++) {
            char name[100];
            snprintf(name, sizeof name, "env.%s", h->env[k]->name);
            json_object_set_new(env, h->env[k]->name, json_string(h->env[k]->value));
            json_object_set_new(from, name, json_string(h->env[k]->where));
        }
        for (int k = 0; k < PD_HOST_N_KEYS; k++)
            if (h->from[k])
                json_object_set_new(from, pd_host_keys[k].name, json_string(h->from[k]));
        json_array_append_new(
            all,
            json_pack("{s:i, s:s, s:s, s:b, s:s?, s:s?, s:s?, s:o, s:s?, s:s, s:o, s:o, s:o, s:o}",
                      "node", (int)i, "name", h->label, "spec", h->spec, "local", h->local, "host",
                      h->addr, "address", h->address, "user", h->user, "port",
                      h->port ? json_integer(h->port) : json_null(), "identity_file",
                      h->identity_file, "root_dir", h->root_dir, "pserver",
                      rank_json(rank_of(n->pservers, n->n_pservers, i)), "trainer",
                      rank_json(rank_of(n->trainers, n->n_trainers, i)), "env", env, "from", from));
    }
    return all;
}

/* --- the command --- */

/* Replace this process by `paddle_worker model`, which prints the network of train.ini: paddlectl
 * has no code of layers. Returns only on failure. */
static int show_model(const struct pd_options *o, const char *file, struct pd_err *err) {
    char path[4096], config[4096];
    const char *const first[] = {path, "model", NULL};
    int rc = node_program_path("paddle_worker", path, sizeof path, err);
    if (!rc && file && pd_fmt(config, sizeof config, "%s", file))
        rc = pd_fail(err, PD_ECONF, "path too long: %s", file);
    if (!rc && !file &&
        pd_fmt(config, sizeof config, "%s%s%s", *o->config == '/' ? "" : o->job_dispatch_package,
               *o->config == '/' || !*o->job_dispatch_package ? "" : "/", o->config))
        rc = pd_fail(err, PD_ECONF, "the path of the workspace is too long");
    if (rc)
        return rc;
    char **argv = pd_settings_argv(o, first, config);
    if (!argv)
        return pd_oom(err, "the configuration");
    fflush(NULL);
    execv(path, argv);
    free(argv);
    return pd_fail_errno(err, PD_EFAIL, errno, "cannot run %s", path);
}

int cmd_conf(int argc, char **argv) {
    int json = 0, only_nodes = 0, model = 0, streams = 0;
    uint64_t n_streams;
    const struct pd_extra_option extra[] = {
        {"nodes", &only_nodes, NULL,
         "print one line per node: id, name, [user@]address[:port], root_dir, roles; separated by "
         "tabs"},
        {"model", &model, NULL,
         "print the network of FILE, or else of the workspace's train.ini, as a table: shapes, "
         "parameters, FLOPs; needs no conf.ini"},
        {"streams", &streams, NULL,
         "print the number of streams of data: n_streams, or the number of trainers; as many files "
         "of data are needed"},
        CMD_JSON(&json),
        {0},
    };
    const struct cmd_line line_ = {
        .usage = "paddlectl conf [options]\n"
                 "paddlectl conf --model [FILE]\n"
                 "Shows the value of every option and its origin: conf.ini (with the line), the "
                 "workspace's train.ini, the command line, or the default. Groups and sections of "
                 "hosts follow in the same way. The output is a valid conf.ini.",
        .about = "With --json the output also lists the nodes with their resulting settings: user, "
                 "port, address, root_dir, identity_file, environment, and the ranks of parameter "
                 "server and trainer. A value is null if conf.ini does not set it: then the user "
                 "is yours and the port is 22, unless ~/.ssh/config sets others.",
        .examples =
            "paddlectl conf --num_passes=5\tthe origin of each value, and the effect of an option\n"
            "paddlectl conf --nodes\twhat the list of hosts expands to\n"
            "paddlectl conf --model\tchecks train.ini, and shows the size of its network\n",
        .sections = "cluster slurm kubernetes ssh job train",
        .who = PD_LAUNCHER,
        .extra = extra,
        .needs_conf = 1,
        .max_rest = 1,
        .without_conf = &model,
    };
    struct pd_options o;
    struct nodes n = {0};
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    char note[JOB_RESUME_NOTE];
    int n_rest, rc = cmd_parse(&line_, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    rc = 0;
    if (n_rest && !model)
        pd_fail(&err, PD_EUSAGE, "unexpected word '%s': only --model takes a train.ini", rest[0]);
    if (err.code || (!n_rest && cmd_read_train(&o, &err))) {
        rc = cmd_fail(&err);
    } else if (streams) {
        rc = cmd_n_streams(&o, &n_streams, &err) ? cmd_fail(&err) : 0;
        if (!rc)
            printf("%llu\n", (unsigned long long)n_streams);
    } else if (model) {
        show_model(&o, n_rest ? rest[0] : NULL, &err);
        rc = cmd_fail(&err);
    } else if (job_resume_settings(&o, note, &err)) {
        rc = cmd_fail(&err);
    } else {
        if (!json && !only_nodes)
            show_text(&o, note); /* before the hosts are expanded: the text helps to find a mistake
                              in the list of hosts */
        if (nodes_load(&n, &o, &err))
            rc = cmd_fail(&err);
        else if (json)
            rc = cmd_print_json(json_pack("{s:o, s:o, s:o}", "options", options_json(&o), "groups",
                                          groups_json(&o), "nodes", nodes_json(&n, &o)));
        else if (only_nodes)
            show_nodes(&n);
        nodes_release(&n);
    }
    pd_options_release(&o);
    return rc;
}
