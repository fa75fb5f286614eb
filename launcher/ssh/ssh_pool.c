/* ssh_pool.c - what the sessions of a run share: known hosts, key files, ~/.ssh/config, and turns. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/str.h"
#include "launcher/ssh/ssh_impl.h"

char *ssh_pool_expand(const struct ssh_pool *pool, const char *path) {
    if (!pd_starts(path, "~/"))
        return pd_strdup(path);
    size_t n = strlen(pool->home) + strlen(path);
    char *out = pd_malloc(n);
    if (out)
        pd_fmt(out, n, "%s%s", pool->home, path + 1);
    return out;
}

static char *home_dir(void) {
    const char *home = getenv("HOME");
    struct passwd *pw = home && *home ? NULL : getpwuid(getuid());
    return pd_strdup(home && *home ? home : pw ? pw->pw_dir : "/");
}

static int load_known(struct ssh_pool *pool, int named, struct pd_err *err) {
    const char *files[] = {pool->known_hosts_file, "/etc/ssh/ssh_known_hosts"};
    struct stat st;
    if (named && !pool->accept_new && stat(pool->known_hosts_file, &st))
        return pd_fail_errno(err, PD_ECONF, errno, "known_hosts: cannot read %s", pool->known_hosts_file);
    /* A file that the user names is the only one; the system's list goes with the default. */
    return known_hosts_load(&pool->known, files, named ? 1 : 2, err);
}

static int check_named_config(const struct ssh_pool *pool, struct pd_err *err) {
    if (access(pool->config_file, R_OK))
        return pd_fail_errno(err, PD_ECONF, errno, "[ssh] config: cannot read %s", pool->config_file);
    return 0;
}

static int is_usual(const struct ssh_pool *pool, const char *path, const char *below_home) {
    size_t n = strlen(pool->home);
    return !strncmp(path, pool->home, n) && !strcmp(path + n, below_home);
}

int ssh_pool_new(struct ssh_pool **out, uv_loop_t *loop, const struct ssh_opts *o, struct pd_err *err) {
    struct ssh_pool *pool = pd_calloc(1, sizeof *pool);
    int rc = 0;
    if (!pool)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    const char *identity = o->identity_file ? o->identity_file : "", *known = o->known_hosts ? o->known_hosts : "";
    const char *config = o->config ? o->config : "";
    pool->loop = loop;
    pool->accept_new = o->accept_new;
    pool->fanout = o->fanout > 0 ? o->fanout : 64;
    pool->connect_timeout_ms = o->connect_timeout_ms;
    if (!(pool->home = home_dir()) || !(pool->identity_file = ssh_pool_expand(pool, identity)) ||
        !(pool->known_hosts_file = ssh_pool_expand(pool, *known ? known : "~/.ssh/known_hosts")) ||
        !(pool->config_file = ssh_pool_expand(pool, *config ? config : "~/.ssh/config")) ||
        !(pool->read_buf = pd_malloc(SSH_READ_BYTES))) {
        rc = pd_fail(err, PD_ENOMEM, "out of memory");
        goto out;
    }
    /* The usual places, named or not, need not be there. */
    int named_config = *config && !is_usual(pool, pool->config_file, "/.ssh/config");
    int named_known = *known && !is_usual(pool, pool->known_hosts_file, "/.ssh/known_hosts");
    if ((named_config && (rc = check_named_config(pool, err))) || (rc = load_known(pool, named_known, err)))
        goto out;
    if (*pool->identity_file) {
        const struct ssh_key_file *k = ssh_pool_key(pool, pool->identity_file);
        if (access(pool->identity_file, R_OK))
            rc = pd_fail_errno(err, PD_ECONF, errno, "identity_file: cannot read %s", pool->identity_file);
        else if (!k)
            rc = pd_fail(err, PD_ENOMEM, "out of memory");
    }
out:
    if (rc) {
        ssh_pool_free(pool);
        return rc;
    }
    *out = pool;
    return 0;
}

void ssh_pool_free(struct ssh_pool *pool) {
    if (!pool)
        return;
    while (pool->keys) {
        struct ssh_key_file *k = pool->keys;
        pool->keys = k->next;
        ssh_key_free(k->key);
        free(k->path);
        free(k);
    }
    while (pool->slots) {
        struct ssh_slot *s = pool->slots;
        pool->slots = s->next;
        free(s->name);
        free(s);
    }
    known_hosts_free(pool->known);
    free(pool->identity_file);
    free(pool->known_hosts_file);
    free(pool->config_file);
    free(pool->home);
    free(pool->read_buf);
    free(pool);
}

const struct ssh_key_file *ssh_pool_key(struct ssh_pool *pool, const char *path) {
    for (struct ssh_key_file *k = pool->keys; k; k = k->next)
        if (!strcmp(k->path, path))
            return k;
    struct ssh_key_file *k = pd_calloc(1, sizeof *k);
    if (!k || !(k->path = pd_strdup(path))) {
        free(k);
        return NULL;
    }
    if (access(path, R_OK))
        pd_fmt(k->why, sizeof k->why, "%s", strerror(errno));
    else if (ssh_pki_import_privkey_file(path, NULL, NULL, NULL, &k->key) != SSH_OK)
        pd_fmt(k->why, sizeof k->why, "it is encrypted or not a private key");
    k->next = pool->keys;
    pool->keys = k;
    return k;
}

struct ssh_slot *ssh_pool_slot(struct ssh_pool *pool, const char *host, int port) {
    char name[300];
    if (pd_fmt(name, sizeof name, "%s:%d", host, port))
        return NULL;
    for (struct ssh_slot *s = pool->slots; s; s = s->next)
        if (!strcmp(s->name, name))
            return s;
    struct ssh_slot *s = pd_calloc(1, sizeof *s);
    if (!s || !(s->name = pd_strdup(name))) {
        free(s);
        return NULL;
    }
    s->next = pool->slots;
    pool->slots = s;
    return s;
}

/* What ~/.ssh/config says of this host: HostName, User, Port, IdentityFile. What conf.ini says wins. */
int ssh_pool_configure(struct session *s, const struct host *host, struct pd_err *err) {
    struct ssh_pool *pool = s->pool;
    const char *name = host->addr;
    char *hostname = NULL, *user = NULL, *identity = NULL, *before = NULL, *proxy = NULL;
    unsigned port = 0;
    int off = 0, rc = 0;
    ssh_session scratch = NULL;
    if (access(pool->config_file, R_OK))
        goto out;
    if (!(scratch = ssh_new()) || ssh_options_set(scratch, SSH_OPTIONS_PROCESS_CONFIG, &off) ||
        ssh_options_set(scratch, SSH_OPTIONS_HOST, name)) {
        rc = pd_fail(err, PD_ENOMEM, "out of memory");
        goto out;
    }
    ssh_options_get(scratch, SSH_OPTIONS_IDENTITY, &before);
    if (ssh_options_parse_config(scratch, pool->config_file)) {
        rc = pd_fail(err, PD_ECONF, "%s: %s", pool->config_file, ssh_get_error(scratch));
        goto out;
    }
    if (!ssh_options_get(scratch, SSH_OPTIONS_PROXYCOMMAND, &proxy) && proxy && *proxy && strcmp(proxy, "none")) {
        rc = pd_fail(err, PD_ECONF, "%s asks for a proxy for %s; proxies are not supported", pool->config_file, name);
        goto out;
    }
    ssh_options_get(scratch, SSH_OPTIONS_HOST, &hostname);
    ssh_options_get(scratch, SSH_OPTIONS_USER, &user);
    ssh_options_get_port(scratch, &port);
    if (!ssh_options_get(scratch, SSH_OPTIONS_IDENTITY, &identity) && identity && (!before || strcmp(identity, before)) &&
        !(s->config_identity = ssh_pool_expand(pool, identity)))
        rc = pd_fail(err, PD_ENOMEM, "out of memory");
out:
    if (!rc) {
        struct passwd *pw = getpwuid(getuid());
        const char *me = pw ? pw->pw_name : getenv("USER");
        s->host = pd_strdup(host->address ? host->address : hostname ? hostname : name);
        s->user = pd_strdup(host->user ? host->user : user ? user : me ? me : "root");
        s->port = host->port ? host->port : port ? (int)port : 22;
        if (host->identity_file) { /* of [host ...]: it wins over all others */
            free(s->config_identity);
            s->config_identity = ssh_pool_expand(pool, host->identity_file);
            s->own_identity = 1;
        }
        if (!s->host || !s->user || (s->own_identity && !s->config_identity))
            rc = pd_fail(err, PD_ENOMEM, "out of memory");
    }
    ssh_string_free_char(hostname);
    ssh_string_free_char(user);
    ssh_string_free_char(identity);
    ssh_string_free_char(before);
    ssh_string_free_char(proxy);
    ssh_free(scratch);
    return rc;
}

/* First come, first served, except that a session whose address is full does not hold up the others. */
static void give_turns(struct ssh_pool *pool) {
    struct session *prev = NULL, *s = pool->waiting_head, *next;
    for (; s && pool->active < pool->fanout; s = next) {
        next = s->next_waiting;
        if (s->slot->active >= SSH_UNAUTHENTICATED) {
            prev = s;
            continue;
        }
        if (prev)
            prev->next_waiting = next;
        else
            pool->waiting_head = next;
        if (pool->waiting_tail == s)
            pool->waiting_tail = prev;
        s->next_waiting = NULL;
        s->has_slot = 1;
        s->slot->active++;
        pool->active++;
        session_start(s);
    }
}

void ssh_pool_wait(struct ssh_pool *pool, struct session *s) {
    s->next_waiting = NULL;
    if (pool->waiting_tail)
        pool->waiting_tail->next_waiting = s;
    else
        pool->waiting_head = s;
    pool->waiting_tail = s;
    give_turns(pool);
}

void ssh_pool_leave(struct session *s) {
    struct ssh_pool *pool = s->pool;
    if (s->has_slot) {
        s->has_slot = 0;
        s->slot->active--;
        pool->active--;
        give_turns(pool);
        return;
    }
    for (struct session *prev = NULL, *w = pool->waiting_head; w; prev = w, w = w->next_waiting) {
        if (w != s)
            continue;
        if (prev)
            prev->next_waiting = w->next_waiting;
        else
            pool->waiting_head = w->next_waiting;
        if (pool->waiting_tail == w)
            pool->waiting_tail = prev;
        break;
    }
    s->next_waiting = NULL;
}
