/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_config.c - see ssh_config.h. */
#include "launcher/ssh/ssh_config.h"

#include "launcher/ssh/ssh_config_file.h"
#include "launcher/ssh/ssh_internal.h"

enum {
    QUERIES_AT_A_TIME = 8,
    QUERY_LIMIT_MS = 15000,
    STOP_LIMIT_MS = 1000,
    ANSWER_MAX = 256 << 10
};

/* One run of `ssh -G`, and its answer. */
struct ssh_query {
    struct ssh_config *config;
    char *key, *alias, *user;
    int port; /* `user` and `port` are those of conf.ini; NULL and 0 in the common query */
    enum ssh_query_state state;
    struct ssh_settings conf; /* QUERY_DONE */
    struct pd_err why;        /* QUERY_FAILED */
    struct wait_list waiters;
    struct transport *run; /* NULL: ssh does not run */
    uv_timer_t limit;
    int active; /* `limit` is open */
    int stopped, late, canceled;
    int direct, again; /* its own jump host: asked again, without ProxyJump */
    struct pd_buf answer;
    struct ssh_query *next;
};

struct ssh_config {
    struct ssh_pool *pool;
    char *file;
    int named;
    int first_line; /* the first line that concerns us; -1: none, so ssh need not be asked */
    int by_name;    /* values have % tokens: no two names have the same configuration for sure */
    int no_ssh, n_running;
    struct ssh_lines lines;
    uint8_t *warned; /* by line */
    struct ssh_query *queries;
};

#define S(field) offsetof(struct ssh_settings, field)

/* The settings that are followed. */
static const struct keyword {
    const char *name;
    size_t field; /* SIZE_MAX: not one string */
} followed[] = {
    {"hostname", S(hostname)},
    {"user", S(user)},
    {"port", S(port)},
    {"proxyjump", S(proxy_jump)},
    {"proxycommand", S(proxy_command)},
    {"hostkeyalias", S(key_alias)},
    {"identityagent", S(agent)},
    {"identitiesonly", S(identities_only)},
    {"bindaddress", S(bind_address)},
    {"addressfamily", S(family)},
    {"userknownhostsfile", S(known_hosts)},
    {"globalknownhostsfile", S(global_known_hosts)},
    {"stricthostkeychecking", S(strict)},
    {"batchmode", S(batch)},
    {"pubkeyauthentication", S(publickey)},
    {"passwordauthentication", S(password)},
    {"kbdinteractiveauthentication", S(kbdint)},
    {"challengeresponseauthentication", S(kbdint)},
    {"identityfile", SIZE_MAX},
    {"canonicalizehostname", SIZE_MAX},
};

/* The settings that change how ssh logs in, and that are not followed. */
static const char *const not_followed[] = {
    "certificatefile",
    "pkcs11provider",
    "securitykeyprovider",
    "ciphers",
    "macs",
    "kexalgorithms",
    "hostkeyalgorithms",
    "pubkeyacceptedalgorithms",
    "preferredauthentications",
    "bindinterface",
    "knownhostscommand",
    "verifyhostkeydns",
    "hostbasedauthentication",
    "revokedhostkeys",
};

static const struct keyword *keyword_of(const char *name) {
    for (size_t i = 0; i < sizeof followed / sizeof followed[0]; i++)
        if (!strcasecmp(name, followed[i].name))
            return &followed[i];
    return NULL;
}

static int is_not_followed(const char *keyword) {
    for (size_t i = 0; i < sizeof not_followed / sizeof not_followed[0]; i++)
        if (!strcmp(keyword, not_followed[i]))
            return 1;
    return 0;
}

/* --- reading the files --- */

static void look_at_lines(struct ssh_config *c) {
    c->by_name = c->lines.has_unread;
    c->first_line = -1;
    for (size_t i = 0; i < c->lines.n; i++) {
        const struct ssh_line *x = &c->lines.v[i];
        const struct keyword *k = keyword_of(x->keyword);
        if (c->first_line < 0 && (k || is_not_followed(x->keyword)))
            c->first_line = (int)i;
        if ((k && strchr(x->args, '%')) ||
            (!strcmp(x->keyword, "canonicalizehostname") && strcasecmp(x->args, "no")))
            c->by_name = 1;
    }
}

/* Has any file a setting that concerns us? */
static int concerns_us(const struct ssh_config *c) {
    return c->first_line >= 0 || c->lines.has_unread;
}

int ssh_config_new(struct ssh_config **out, struct ssh_pool *pool, const char *file, int named,
                   struct pd_err *err) {
    char folder[4096];
    struct ssh_config *c = pd_calloc(1, sizeof *c);
    if (!c)
        return pd_oom(err, "the settings of ssh");
    *out = c; /* the pool frees it, also after a failure */
    c->pool = pool;
    c->named = named;
    if (!(c->file = pd_strdup(file)))
        return pd_oom(err, "the settings of ssh");
    pd_fmt(folder, sizeof folder, "%s/.ssh", pool->home);
    int rc = ssh_lines_init(&c->lines, pool->home, err);
    if (!rc)
        rc = ssh_lines_read(&c->lines, file, folder, err);
    if (!rc && !named)
        rc = ssh_lines_read(&c->lines, "/etc/ssh/ssh_config", "/etc/ssh", err);
    if (!rc && !(c->warned = pd_calloc(c->lines.n + 1, 1)))
        rc = pd_oom(err, "the settings of ssh");
    look_at_lines(c);
    return rc;
}

static void conf_release(struct ssh_settings *conf) {
    for (size_t i = 0; i < sizeof followed / sizeof followed[0]; i++) {
        if (followed[i].field == SIZE_MAX)
            continue;
        char **field = (char **)((char *)conf + followed[i].field);
        free(*field);
        *field = NULL;
    }
    for (int i = 0; i < conf->n_identities; i++)
        free(conf->identities[i]);
    free(conf->identities);
}

static void query_free(struct ssh_query *q) {
    conf_release(&q->conf);
    pd_buf_release(&q->answer);
    free(q->key);
    free(q->alias);
    free(q->user);
    free(q);
}

void ssh_config_free(struct ssh_config *c) {
    if (!c)
        return;
    while (c->queries) {
        struct ssh_query *q = c->queries;
        c->queries = q->next;
        query_free(q);
    }
    ssh_lines_release(&c->lines);
    free(c->warned);
    free(c->file);
    free(c);
}

/* --- values --- */

static int add_identity(struct ssh_settings *conf, const char *value) {
    char **v = pd_realloc(conf->identities, (size_t)(conf->n_identities + 1) * sizeof *v);
    if (!v)
        return PD_ENOMEM;
    conf->identities = v;
    if (!(v[conf->n_identities] = pd_strdup(value)))
        return PD_ENOMEM;
    conf->n_identities++;
    return 0;
}

/* The first value of a keyword counts; IdentityFile adds up. */
static int set_value(struct ssh_settings *conf, const char *keyword, const char *value) {
    const struct keyword *k = keyword_of(keyword);
    if (!k)
        return 0;
    if (!strcasecmp(keyword, "identityfile"))
        return add_identity(conf, value);
    if (k->field == SIZE_MAX)
        return 0;
    char **field = (char **)((char *)conf + k->field);
    return *field || (*field = pd_strdup(value)) ? 0 : PD_ENOMEM;
}

/* Without a HostName setting `ssh -G` prints the name itself, in lower case. */
static void drop_own_name(struct ssh_query *q) {
    if (q->conf.hostname && !strcasecmp(q->conf.hostname, q->alias)) {
        free(q->conf.hostname);
        q->conf.hostname = NULL;
    }
}

static void query_end(struct ssh_query *q) {
    q->state = q->why.code ? QUERY_FAILED : QUERY_DONE;
    drop_own_name(q);
    wait_wake_all(&q->waiters);
}

/* Does the answer of ssh repeat this line? Changes nothing in `answer`. */
static int answer_repeats(const char *answer, const struct ssh_line *x) {
    char line[1024];
    return !pd_fmt(line, sizeof line, "\n%s %s\n", x->keyword, x->args) && strcasestr(answer, line);
}

static void warn_not_followed(const struct ssh_query *q) {
    struct ssh_config *c = q->config;
    for (size_t i = 0; i < c->lines.n; i++) {
        const struct ssh_line *x = &c->lines.v[i];
        if (c->warned[i] || !is_not_followed(x->keyword))
            continue;
        enum ssh_cover cover = ssh_line_covers(&c->lines, x, q->alias);
        if (cover == COVER_NO ||
            (cover == COVER_MATCH && !answer_repeats((const char *)q->answer.data, x)))
            continue;
        c->warned[i] = 1;
        ssh_pool_warn(c->pool, "%s:%d: %s is not followed", c->lines.files[x->file], x->number,
                      x->keyword);
    }
}

static void parse_answer(struct ssh_query *q) {
    char *save = NULL;
    pd_put_u8(&q->answer, 0);
    if (q->answer.failed) {
        pd_oom(&q->why, "the settings of ssh");
        return;
    }
    warn_not_followed(q);
    for (char *line = strtok_r((char *)q->answer.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *value = strchr(line, ' ');
        if (!value)
            continue;
        *value++ = 0;
        if (set_value(&q->conf, line, value))
            pd_oom(&q->why, "the settings of ssh");
    }
}

/* --- asking ssh --- */

static void start_queries(struct ssh_config *c);

static void on_query_closed(uv_handle_t *h) {
    struct ssh_query *q = h->data;
    struct ssh_config *c = q->config;
    c->n_running--;
    if (q->canceled || q->again) { /* another session may ask again */
        pd_buf_clear(&q->answer);
        q->stopped = q->late = q->canceled = q->again = 0;
    } else {
        query_end(q);
    }
    q->active = 0;
    start_queries(c);
    ssh_pool_background(c->pool, -1);
}

/* Without an ssh program the files are not read at all: only ssh knows what they mean. */
static void ssh_is_missing(struct ssh_config *c) {
    int file = c->first_line < 0 ? 0 : c->lines.v[c->first_line].file;
    if (!c->no_ssh)
        ssh_pool_warn(
            c->pool, "%s is not read: there is no ssh program (the OpenSSH client) to interpret it",
            c->lines.files[file]);
    c->no_ssh = 1;
}

static void take_result(struct ssh_query *q, const struct pd_err *why) {
    int status = transport_signal(q->run) ? -1 : transport_status(q->run);
    if (q->late)
        pd_fail(&q->why, PD_ETIMEOUT, "ssh -G %s did not answer within %d s", q->alias,
                QUERY_LIMIT_MS / 1000);
    else if (!status && why->code == PD_ECLOSED) /* the whole answer has come */
        parse_answer(q);
    else if (status > 0 && !q->direct && strstr(transport_stderr(q->run), "jumphost loop via "))
        q->direct = q->again = 1;
    else if (status > 0)
        pd_fail(&q->why, PD_ECONF, "ssh -G %s: %.600s", q->alias, transport_stderr(q->run));
    else if (pd_ends_with(why->msg, uv_strerror(UV_ENOENT))) /* of the failed start */
        ssh_is_missing(q->config);
    else
        pd_fail(&q->why, why->code, "ssh -G %s: %.600s", q->alias, why->msg);
}

static void on_end(const struct pd_err *why, void *arg) {
    struct ssh_query *q = arg;
    if (!q->canceled)
        take_result(q, why);
    q->run = NULL;
    uv_close((uv_handle_t *)&q->limit, on_query_closed);
}

static void on_open(void *arg) { (void)arg; }

static void on_bytes(const uint8_t *p, size_t n, void *arg) {
    struct ssh_query *q = arg;
    if (q->answer.len + n > ANSWER_MAX)
        q->answer.failed = PD_ENOMEM;
    else
        pd_put(&q->answer, p, n);
}

static const struct transport_events events = {
    .on_open = on_open, .on_bytes = on_bytes, .on_close = on_end};

static void on_limit(uv_timer_t *t);

/* Kills ssh and the commands of `Match exec`. A command that is left may hold the pipes open, so a
 * second limit closes them. */
static void stop_query(struct ssh_query *q) {
    int pid = q->run ? transport_local_pid(q->run) : 0;
    if (!pid || q->stopped)
        return;
    q->stopped = 1;
    if (transport_status(q->run) < 0)
        kill(-pid, SIGKILL);
    uv_timer_start(&q->limit, on_limit, STOP_LIMIT_MS, 0);
}

static void on_limit(uv_timer_t *t) {
    struct ssh_query *q = t->data;
    if (q->stopped) {
        transport_close(q->run);
        return;
    }
    q->late = 1;
    stop_query(q);
}

static int spawn_ssh(struct ssh_query *q) {
    struct ssh_config *c = q->config;
    char port[16];
    const char *argv[14] = {"ssh", "-G"};
    int n = 2;
    pd_fmt(port, sizeof port, "%d", q->port);
    if (c->named) {
        argv[n++] = "-F";
        argv[n++] = c->file;
    }
    if (q->user) {
        argv[n++] = "-l";
        argv[n++] = q->user;
    }
    if (q->port) {
        argv[n++] = "-p";
        argv[n++] = port;
    }
    if (q->direct) {
        argv[n++] = "-o";
        argv[n++] = "ProxyJump=none";
    }
    argv[n++] = "--";
    argv[n++] = q->alias;
    int rc = transport_local(&q->run, c->pool->loop, (char **)(uintptr_t)argv, &events, q, &q->why);
    if (!rc)
        transport_eof(q->run);
    return rc;
}

static void start_query(struct ssh_query *q) {
    struct ssh_config *c = q->config;
    uv_timer_init(c->pool->loop, &q->limit);
    q->limit.data = q;
    q->active = 1;
    c->n_running++;
    ssh_pool_background(c->pool, 1);
    if (spawn_ssh(q))
        uv_close((uv_handle_t *)&q->limit, on_query_closed);
    else
        uv_timer_start(&q->limit, on_limit, QUERY_LIMIT_MS, 0);
}

static void start_queries(struct ssh_config *c) {
    for (struct ssh_query *q = c->queries; q && c->n_running < QUERIES_AT_A_TIME; q = q->next) {
        if (q->active || q->state != QUERY_WAITS || !q->waiters.head)
            continue;
        if (c->no_ssh)
            query_end(q);
        else
            start_query(q);
    }
}

void ssh_config_cancel(struct ssh_config *c) {
    for (struct ssh_query *q = c ? c->queries : NULL; q; q = q->next) {
        q->canceled = q->run && q->state == QUERY_WAITS;
        stop_query(q);
    }
}

/* --- queries --- */

static struct ssh_query *query_new(struct ssh_config *c, const char *key, const char *alias,
                                   const char *user, int port) {
    struct ssh_query *q = pd_calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->config = c;
    q->port = port;
    q->state = concerns_us(c) ? QUERY_WAITS : QUERY_DONE;
    pd_buf_init(&q->answer);
    if (!(q->key = pd_strdup(key)) || !(q->alias = pd_strdup(alias)) ||
        (user && !(q->user = pd_strdup(user)))) {
        query_free(q);
        return NULL;
    }
    q->next = c->queries;
    c->queries = q;
    return q;
}

int ssh_config_query(struct ssh_query **out, struct ssh_config *c, const char *alias,
                     const char *user, int port, struct pd_err *err) {
    struct pd_buf key = {0};
    if (concerns_us(c) && (c->by_name || !ssh_lines_are_common(&c->lines, alias)))
        pd_put_fmt(&key, "%s %d %s", user ? user : "", port, alias);
    else /* conf.ini wins, so without `Match user` and tokens user and port change no answer */
        user = NULL, port = 0;
    pd_put_u8(&key, 0);
    struct ssh_query *q = key.failed ? NULL : c->queries;
    while (q && strcmp(q->key, (char *)key.data))
        q = q->next;
    if (!q && !key.failed)
        q = query_new(c, (char *)key.data, alias, user, port);
    pd_buf_release(&key);
    *out = q;
    return q ? 0 : pd_oom(err, "the settings of ssh");
}

enum ssh_query_state ssh_query_state(struct ssh_query *q, struct session *s) {
    if (q->state == QUERY_WAITS) {
        wait_add(&q->waiters, s);
        start_queries(q->config);
    }
    return q->state;
}

const struct ssh_settings *ssh_query_settings(const struct ssh_query *q) { return &q->conf; }
const struct pd_err *ssh_query_error(const struct ssh_query *q) { return &q->why; }
