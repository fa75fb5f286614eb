/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_pool.c - what all sessions share: options, known hosts, key files, and turns. */
#include <pwd.h>

#include "launcher/ssh/ssh_internal.h"

char *ssh_pool_expand(const struct ssh_pool *pool, const char *path) {
    if (!pd_starts_with(path, "~/"))
        return pd_strdup(path);
    size_t n = strlen(pool->home) + strlen(path);
    char *out = pd_malloc(n);
    if (out)
        pd_fmt(out, n, "%s%s", pool->home, path + 1);
    return out;
}

void ssh_pool_warn(const struct ssh_pool *pool, const char *fmt, ...) {
    char text[1000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (pool->warn)
        pool->warn(text, pool->warn_arg);
}

/* --- waiting --- */

void wait_add(struct wait_list *list, struct session *s) {
    if (s->waits_in == list)
        return;
    s->waits_in = list;
    s->next_waiting = NULL;
    if (list->tail)
        list->tail->next_waiting = s;
    else
        list->head = s;
    list->tail = s;
}

void wait_leave(struct session *s) {
    struct wait_list *list = s->waits_in;
    if (!list)
        return;
    struct session *prev = NULL;
    for (struct session *w = list->head; w != s; w = w->next_waiting)
        prev = w;
    if (prev)
        prev->next_waiting = s->next_waiting;
    else
        list->head = s->next_waiting;
    if (list->tail == s)
        list->tail = prev;
    s->next_waiting = NULL;
    s->waits_in = NULL;
}

void wait_wake_all(struct wait_list *list) {
    while (list->head) {
        struct session *s = list->head;
        wait_leave(s);
        session_wake(s);
    }
}

/* In order of arrival, except that sessions whose address is at its limit are passed over. */
static void give_turns(struct ssh_pool *pool) {
    for (struct session *s = pool->turns.head, *next; s && pool->active < pool->fanout; s = next) {
        next = s->next_waiting;
        if (s->slot->active >= s->slot->limit)
            continue;
        wait_leave(s);
        s->has_slot = 1;
        s->slot->active++;
        pool->active++;
        session_wake(s);
    }
}

void ssh_pool_want_turn(struct session *s) {
    wait_add(&s->pool->turns, s);
    give_turns(s->pool);
}

void ssh_pool_leave(struct session *s) {
    wait_leave(s);
    if (!s->has_slot)
        return;
    s->has_slot = 0;
    s->slot->active--;
    s->pool->active--;
    give_turns(s->pool);
}

/* The sshd takes fewer connections at a time, or has other clients: the limit is halved, and
 * ssh_slot_let_in raises it slowly. */
void ssh_slot_dropped(struct ssh_slot *slot) {
    slot->limit = slot->limit > 1 ? slot->limit / 2 : 1;
    slot->n_in = 0;
}

void ssh_slot_let_in(struct ssh_slot *slot) {
    if (slot->limit < SSH_UNAUTHENTICATED && ++slot->n_in >= 4 * slot->limit) {
        slot->limit++;
        slot->n_in = 0;
    }
}

/* After the last on_close the caller may close the loop, so the last session waits until all
 * background work has ended. */
void ssh_pool_background(struct ssh_pool *pool, int change) {
    pool->n_background += change;
    struct session *s = pool->last;
    if (s && (!pool->n_background || pool->n_sessions)) {
        pool->last = NULL;
        session_finish(s);
    }
}

/* --- shared files --- */

static int note_locked(const char *prompt, char *buf, size_t len, int echo, int verify, void *arg) {
    (void)prompt;
    (void)buf;
    (void)len;
    (void)echo;
    (void)verify;
    *(int *)arg = 1;
    return -1;
}

/* As ssh: only a user's own file can be made private by the user. */
static int others_may_read(const char *path, mode_t *mode) {
    struct stat st;
    if (stat(path, &st) || st.st_uid != getuid())
        return 0;
    *mode = st.st_mode;
    return (st.st_mode & 077) != 0;
}

static void read_key(struct ssh_pool *pool, struct ssh_key_file *k) {
    char pub[4096], name[4200];
    int locked = 0;
    mode_t mode;
    if (access(k->path, R_OK)) {
        pd_fmt(k->why, sizeof k->why, "%s", strerror(errno));
        k->missing = errno == ENOENT;
    } else if (others_may_read(k->path, &mode)) {
        pd_fmt(k->why, sizeof k->why, "not used: mode 0%03o is too open: 'chmod 600'",
               (unsigned)mode & 0777);
    } else if (ssh_pki_import_privkey_file(k->path, NULL, note_locked, &locked, &k->key) !=
               SSH_OK) {
        k->key = NULL;
        pd_fmt(k->why, sizeof k->why,
               locked ? "it is locked by a passphrase" : "it is not a private key");
    }
    if (k->key)
        return;
    /* The public part is in NAME.pub, or in the file itself (OpenSSH's format). It also selects the
     * key of an agent. */
    if (pd_fmt(pub, sizeof pub, "%s.pub", k->path) ||
        ssh_pki_import_pubkey_file(pub, &k->pub) != SSH_OK)
        if (ssh_pki_import_pubkey_file(k->path, &k->pub) != SSH_OK)
            k->pub = NULL;
    if (locked && !pd_fmt(name, sizeof name, "key %s", k->path) &&
        (k->locked = ssh_secret_get(pool, name)))
        k->locked->unlocks = k;
}

struct ssh_key_file *ssh_pool_key(struct ssh_pool *pool, const char *path) {
    for (struct ssh_key_file *k = pool->keys; k; k = k->next)
        if (!strcmp(k->path, path))
            return k;
    struct ssh_key_file *k = pd_calloc(1, sizeof *k);
    if (!k || !(k->path = pd_strdup(path))) {
        free(k);
        return NULL;
    }
    read_key(pool, k);
    k->next = pool->keys;
    pool->keys = k;
    return k;
}

struct ssh_slot *ssh_pool_slot(struct ssh_pool *pool, const char *name) {
    for (struct ssh_slot *s = pool->slots; s; s = s->next)
        if (!strcmp(s->name, name))
            return s;
    struct ssh_slot *s = pd_calloc(1, sizeof *s);
    if (!s || !(s->name = pd_strdup(name))) {
        free(s);
        return NULL;
    }
    s->limit = SSH_UNAUTHENTICATED;
    s->next = pool->slots;
    pool->slots = s;
    return s;
}

enum { LISTS_MAX = 16 };

/* Splits `text` at blanks into `v`, and expands a leading ~. */
static int split_files(const struct ssh_pool *pool, const char *text, char **v, size_t *n) {
    char *copy = pd_strdup(text), *save = NULL;
    if (!copy)
        return PD_ENOMEM;
    for (char *w = strtok_r(copy, " \t", &save); w && *n < LISTS_MAX;
         w = strtok_r(NULL, " \t", &save)) {
        if (!strcasecmp(w, "none"))
            continue;
        if (!(v[*n] = ssh_pool_expand(pool, w))) {
            free(copy);
            return PD_ENOMEM;
        }
        ++*n;
    }
    free(copy);
    return 0;
}

static const struct ssh_known *load_known(struct ssh_pool *pool, char *const *v, size_t n,
                                          struct pd_err *err) {
    struct pd_buf name = {0};
    for (size_t i = 0; i < n; i++)
        pd_put_fmt(&name, "%s\n", v[i]);
    pd_put_u8(&name, 0);
    struct ssh_known *k = name.failed ? NULL : pool->known;
    while (k && strcmp(k->files, (char *)name.data))
        k = k->next;
    if (!k && !name.failed && (k = pd_calloc(1, sizeof *k))) {
        if (!(k->files = pd_strdup((char *)name.data)) || !(k->first = pd_strdup(n ? v[0] : ""))) {
            pd_oom(err, "ssh sessions");
        } else if (!known_hosts_load(&k->keys, (const char *const *)v, n, err)) {
            k->next = pool->known;
            pool->known = k;
        }
        if (!k->keys) {
            free(k->files);
            free(k->first);
            free(k);
            k = NULL;
        }
    } else if (!k) {
        pd_oom(err, "ssh sessions");
    }
    pd_buf_release(&name);
    return k;
}

const struct ssh_known *ssh_pool_known(struct ssh_pool *pool, const char *files, const char *global,
                                       struct pd_err *err) {
    char *v[LISTS_MAX] = {0};
    size_t n = 0;
    const struct ssh_known *k = NULL;
    int rc;
    if (pool->known_named) { /* only the file that conf.ini names */
        rc = (v[n++] = pd_strdup(pool->known_hosts_file)) ? 0 : PD_ENOMEM;
    } else {
        rc = split_files(pool, files ? files : "~/.ssh/known_hosts ~/.ssh/known_hosts2", v, &n);
        if (!rc)
            rc = split_files(pool,
                             global ? global : "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2",
                             v, &n);
    }
    if (rc)
        pd_fail(err, rc, "out of memory");
    else
        k = load_known(pool, v, n, err);
    for (size_t i = 0; i < n; i++)
        free(v[i]);
    return k;
}

/* --- the pool --- */

static char *home_dir(void) {
    const char *home = getenv("HOME");
    struct passwd *pw = home && *home ? NULL : getpwuid(getuid());
    return pd_strdup(home && *home ? home : pw ? pw->pw_dir : "/");
}

static int is_default_file(const struct ssh_pool *pool, const char *path, const char *below_home) {
    size_t n = strlen(pool->home);
    return !strncmp(path, pool->home, n) && !strcmp(path + n, below_home);
}

static int copy_options(struct ssh_pool *pool, const struct ssh_opts *o, char **config) {
    const char *known = o->known_hosts && *o->known_hosts ? o->known_hosts : "~/.ssh/known_hosts";
    pool->accept_new = o->accept_new;
    pool->policy_named = o->policy_named;
    pool->fanout = o->fanout > 0 ? o->fanout : 64;
    pool->connect_timeout_ms = o->connect_timeout_ms;
    pool->warn = o->warn;
    pool->warn_arg = o->warn_arg;
    if (!(pool->home = home_dir()) ||
        !(pool->identity_file = ssh_pool_expand(pool, o->identity_file ? o->identity_file : "")) ||
        !(pool->known_hosts_file = ssh_pool_expand(pool, known)) ||
        !(pool->proxy_jump = pd_strdup(o->proxy_jump ? o->proxy_jump : "")) ||
        !(*config = ssh_pool_expand(pool, o->config && *o->config ? o->config : "~/.ssh/config")) ||
        !(pool->read_buf = pd_malloc(SSH_READ_BYTES)) || ssh_secrets_new(pool))
        return PD_ENOMEM;
    return 0;
}

/* The error is in the value of an option that was set at `from`. */
static int blame(struct pd_err *err, const char *from) {
    if (from)
        pd_err_prefix(err, "%s", from);
    return err->code;
}

static int check_files(struct ssh_pool *pool, const struct ssh_opts *o, const char *config,
                       struct pd_err *err) {
    struct stat st;
    /* The usual files may be missing, even if conf.ini names them. */
    int config_named = !is_default_file(pool, config, "/.ssh/config");
    pool->known_named = !is_default_file(pool, pool->known_hosts_file, "/.ssh/known_hosts");
    if (pool->known_named && !pool->accept_new && stat(pool->known_hosts_file, &st)) {
        pd_fail_errno(err, PD_ECONF, errno, "cannot read the known hosts file %s",
                      pool->known_hosts_file);
        return blame(err, o->from_known_hosts);
    }
    if (config_named && access(config, R_OK)) {
        pd_fail_errno(err, PD_ECONF, errno, "cannot read the ssh configuration %s", config);
        return blame(err, o->from_config);
    }
    int rc = ssh_config_new(&pool->config, pool, config, config_named, err);
    if (rc)
        return rc;
    if (pool->known_named && !ssh_pool_known(pool, NULL, NULL, err))
        return err ? err->code : PD_EFAIL;
    if (*pool->identity_file && access(pool->identity_file, R_OK)) {
        pd_fail_errno(err, PD_ECONF, errno, "cannot read the private key %s", pool->identity_file);
        return blame(err, o->from_identity_file);
    }
    return 0;
}

int ssh_pool_new(struct ssh_pool **out, uv_loop_t *loop, const struct ssh_opts *o,
                 struct pd_err *err) {
    struct pd_err pool_err = {0};
    struct ssh_pool *pool = pd_calloc(1, sizeof *pool);
    char *config = NULL;
    if (!pool)
        return pd_oom(err, "ssh sessions");
    pool->loop = loop;
    int rc = copy_options(pool, o, &config) ? pd_oom(&pool_err, "ssh sessions")
                                            : check_files(pool, o, config, &pool_err);
    free(config);
    if (rc) {
        ssh_pool_free(pool);
        return pd_fail(err, pool_err.code, "%s", pool_err.msg);
    }
    *out = pool;
    return 0;
}

void ssh_pool_free(struct ssh_pool *pool) {
    if (!pool)
        return;
    ssh_jumps_free(pool);
    while (pool->keys) {
        struct ssh_key_file *k = pool->keys;
        pool->keys = k->next;
        ssh_key_free(k->key);
        ssh_key_free(k->pub);
        free(k->path);
        free(k);
    }
    while (pool->slots) {
        struct ssh_slot *s = pool->slots;
        pool->slots = s->next;
        free(s->name);
        free(s);
    }
    while (pool->known) {
        struct ssh_known *k = pool->known;
        pool->known = k->next;
        known_hosts_free(k->keys);
        free(k->files);
        free(k->first);
        free(k);
    }
    ssh_secrets_free(pool->secrets);
    ssh_config_free(pool->config);
    free(pool->identity_file);
    free(pool->known_hosts_file);
    free(pool->proxy_jump);
    free(pool->home);
    free(pool->read_buf);
    free(pool);
}

int ssh_pool_open(struct transport **out, struct ssh_pool *pool, const struct host *host,
                  const char *command, const struct transport_events *ev, void *arg,
                  struct pd_err *err) {
    struct session *s;
    int rc = ssh_session_open(&s, pool, host, command, ev, arg, err);
    if (!rc)
        *out = &s->base;
    return rc;
}
