/* SPDX-License-Identifier: Apache-2.0 */
/* client_env.c - see client_env.h. */
#include "launcher/link/client_env.h"

#include "launcher/hosts/host_source.h"
#include "launcher/link/launch_env.h"

enum { LOGIN_TIMEOUT_MS = 60000, UPLOAD_TIMEOUT_MS = 300000 };

const char *option_source(const struct pd_options *opts, const char *name) {
    int row = pd_options_find(name, PD_LAUNCHER);
    return row < 0 ? "?" : opts->origin[row].where;
}

/* Folders of the system, without the slashes at both ends. A home folder is allowed: what paddlectl
 * makes has names of its own (JOB..., workspaces, .paddlectl). */
static int check_root(const char *root, struct pd_err *err) {
    static const char *const system[] = {"",      "bin",  "boot", "dev",  "etc", "home", "lib",
                                         "lib64", "proc", "run",  "sbin", "sys", "usr",  "var"};
    const char *at = root + strspn(root, "/");
    size_t n = strlen(at);
    while (n && at[n - 1] == '/')
        n--;
    for (size_t i = 0; *root == '/' && i < sizeof system / sizeof system[0]; i++)
        if (n == strlen(system[i]) && !memcmp(at, system[i], n))
            return pd_fail(err, PD_ECONF,
                           "root_dir is %s, a folder of the system: give one of your own, as in "
                           "root_dir = ~/paddle",
                           root);
    return 0;
}

int client_env_roles(struct client_env *c, size_t n_nodes, struct pd_err *err) {
    const struct pd_options *o = c->opts;
    int rc = hosts_parse_roles(&c->pservers, &c->n_pservers, o->pservers, n_nodes, "pservers",
                               option_source(o, "pservers"), err);
    return rc ? rc
              : hosts_parse_roles(&c->trainers, &c->n_trainers, o->trainers, n_nodes, "trainers",
                                  option_source(o, "trainers"), err);
}

/* `list`: the hosts in place of the option, or NULL. */
static int check_hosts(struct client_env *c, const char *list, struct pd_err *err) {
    const struct pd_options *o = c->opts;
    char root[PATH_MAX];
    int rc = list ? hosts_load_list(&c->hosts, o, list, err) : host_source_load(&c->hosts, o, err);
    rc = rc ? rc : client_env_roles(c, c->hosts.n, err);
    for (size_t i = 0; i < c->hosts.n && !rc; i++) {
        const struct host *h = &c->hosts.v[i];
        rc = root_for_node(h->root_dir, (int)i, root, sizeof root, err);
        if (rc || (rc = check_root(root, err)))
            pd_err_prefix(err, "%s",
                          h->from[PD_HOST_ROOT_DIR] ? h->from[PD_HOST_ROOT_DIR]
                                                    : option_source(o, "root_dir"));
    }
    return rc;
}

static void warn(const char *text, void *arg) {
    (void)arg;
    fprintf(stderr, "paddlectl: warning: %s\n", text);
}

void client_env_warn_plain(const struct pd_options *o) {
    if (o->encrypt == PD_ENCRYPT_OFF)
        warn("encrypt = off: anybody on the network can read and change what the machines send to "
             "each other",
             NULL);
}

/* Refuses a user or port that the command does not take: the user expects an effect. */
static int check_connect_host(const struct client_env *c, const struct host *h,
                              struct pd_err *err) {
    const struct {
        const char *name;
        char letter;
        int given;
    } keys[] = {{"user", 'u', h->user != NULL}, {"port", 'p', h->port != 0}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].given && !connector_uses(c->env.connector, keys[i].letter))
            return pd_fail(
                err, PD_ECONF, "%s: %s has a %s, but connect has no %%%c: it would have no effect",
                option_source(c->opts, "connect"), h->label, keys[i].name, keys[i].letter);
    return 0;
}

static int open_connector(struct client_env *c, struct pd_err *err) {
    const struct pd_options *o = c->opts;
    int rc = connector_new(&c->env.connector, &c->loop, o->connect,
                           (uint64_t)(o->connect_timeout * 1000), (int)o->fanout, err);
    if (rc)
        pd_err_prefix(err, "%s", option_source(o, "connect"));
    for (size_t i = 0; i < c->hosts.n && !rc; i++)
        if (!c->hosts.v[i].local)
            rc = check_connect_host(c, &c->hosts.v[i], err);
    return rc;
}

static int open_pool(struct client_env *c, struct pd_err *err) {
    const struct pd_options *o = c->opts;
    struct ssh_opts s = {
        .identity_file = o->identity_file,
        .known_hosts = o->known_hosts,
        .config = o->ssh_config,
        .proxy_jump = o->proxy_jump,
        .from_identity_file = option_source(o, "identity_file"),
        .from_known_hosts = option_source(o, "known_hosts"),
        .from_config = option_source(o, "ssh.config"),
        .accept_new = o->host_key_policy == PD_HOSTKEY_ACCEPT_NEW,
        .connect_timeout_ms = (uint64_t)(o->connect_timeout * 1000),
        .fanout = (int)o->fanout,
        .warn = warn,
    };
    s.policy_named =
        o->origin[pd_options_find("host_key_policy", PD_LAUNCHER)].level != PD_FROM_DEFAULT;
    int remote = 0;
    for (size_t i = 0; i < c->hosts.n; i++) {
        const struct host *h = &c->hosts.v[i];
        remote |= !h->local;
        if (!h->local && h->identity_file && access(h->identity_file, R_OK))
            return pd_fail_errno(err, PD_ECONF, errno, "%s: cannot read the private key %s",
                                 h->from[PD_HOST_IDENTITY_FILE], h->identity_file);
    }
    if (!remote)
        return 0;
    if (*o->connect)
        return open_connector(c, err);
    return ssh_pool_new(&c->env.ssh, &c->loop, &s, err);
}

/* The parts that init prepares beside the hosts. */
enum { WITH_AGENT = 1, WITH_NODES = 2, A_JOB_BEGINS = 4 };

static int start_launch(struct client_env *c, int all_hosts, struct pd_err *err) {
    char *list = NULL;
    int rc = client_env_launch(c, &list, err);
    if (!rc && all_hosts)
        rc = check_hosts(c, list, err);
    free(list);
    return rc;
}

static int take_addresses(struct client_env *c, struct pd_err *err) {
    for (size_t i = 0; i < c->hosts.n; i++) {
        struct host *h = &c->hosts.v[i];
        const char *address = engine_address(&c->engine, i);
        if (!address)
            continue;
        free(h->address);
        if (!(h->address = pd_strdup(address)))
            return pd_oom(err, "the hosts");
    }
    return 0;
}

int client_env_start(struct client_env *c, struct pd_err *err) {
    int rc = engine_start(&c->engine, err);
    return rc ? rc : take_addresses(c, err);
}

static int init(struct client_env *c, const struct pd_options *opts, int with, struct pd_err *err) {
    memset(c, 0, sizeof *c);
    c->opts = opts;
    const int launches = *opts->launch && with & WITH_NODES,
              all_hosts = launches && host_source_is_launch(opts);
    int rc = engine_prepare(&c->engine, opts, with & A_JOB_BEGINS, err);
    if (!rc && !all_hosts)
        rc = check_hosts(c, c->engine.hosts, err);
    if (!rc && !all_hosts)
        rc = take_addresses(c, err);
    if (!rc && *opts->launch)
        rc = client_env_check_launch(c, err);
    if (!rc && (launches || with & WITH_AGENT))
        rc = agent_image_load(&c->agent, err);
    if (!rc && uv_loop_init(&c->loop))
        rc = pd_fail(err, PD_EFAIL, "cannot make an event loop");
    if (!rc) {
        c->has_loop = 1;
        rc = launches ? start_launch(c, all_hosts, err) : *opts->launch ? 0 : open_pool(c, err);
    }
    if (!rc && with & WITH_AGENT &&
        !(c->env.seeding =
              seeding_new(&c->loop, &c->agent, (int)c->hosts.n, opts->relay == PD_RELAY_AUTO)))
        rc = pd_oom(err, "the agents to send");
    c->env = (struct link_env){.loop = &c->loop,
                               .ssh = c->env.ssh,
                               .connector = c->env.connector,
                               .launch = c->env.launch,
                               .agent = &c->agent,
                               .starts = &c->starts,
                               .seeding = c->env.seeding,
                               .root_dir = opts->root_dir,
                               .login_timeout_ms = LOGIN_TIMEOUT_MS,
                               .upload_timeout_ms = UPLOAD_TIMEOUT_MS};
    if (rc)
        client_env_release(c);
    return rc;
}

int client_env_init(struct client_env *c, const struct pd_options *opts, struct pd_err *err) {
    return init(c, opts, WITH_AGENT | WITH_NODES, err);
}
int client_env_init_job(struct client_env *c, const struct pd_options *opts, struct pd_err *err) {
    return init(c, opts, WITH_AGENT | WITH_NODES | A_JOB_BEGINS, err);
}
int client_env_init_plain(struct client_env *c, const struct pd_options *opts, struct pd_err *err) {
    return init(c, opts, WITH_NODES, err);
}
int client_env_init_dry(struct client_env *c, const struct pd_options *opts, struct pd_err *err) {
    return init(c, opts, WITH_AGENT | A_JOB_BEGINS, err);
}

void client_env_release(struct client_env *c) {
    launch_free(c->env.launch);
    ssh_pool_free(c->env.ssh);
    connector_free(c->env.connector);
    seeding_free(c->env.seeding);
    if (c->has_loop)
        uv_loop_close(&c->loop);
    agent_image_release(&c->agent);
    hosts_release(&c->hosts);
    free(c->pservers);
    free(c->trainers);
    engine_release(&c->engine);
    memset(c, 0, sizeof *c);
}

int client_env_is_local(const struct client_env *c) {
    for (size_t i = 0; i < c->hosts.n; i++)
        if (!c->hosts.v[i].local)
            return 0;
    return 1;
}
