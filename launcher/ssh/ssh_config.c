/* ssh_config.c - see ssh_config.h. */
#include "launcher/ssh/ssh_config.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "launcher/ssh/ssh_config_file.h"
#include "launcher/ssh/ssh_internal.h"

enum { ASK_AT_A_TIME = 8, ASK_LIMIT_MS = 15000, ANSWER_MAX = 256 << 10 };

/* One class of hosts, and the question about it. */
struct ssh_class {
    struct ssh_config *config;
    char *key, *alias, *user;
    int port;
    enum ssh_class_state state;
    int asked; /* ssh runs, or has run */
    struct ssh_conf conf;
    struct pd_err why;
    struct wait_list waiters;
    uv_process_t process;
    uv_pipe_t out, err;
    uv_timer_t limit;
    int n_handles, exited, late, canceled;
    int64_t status;
    struct pd_buf answer, complaint;
    struct ssh_class *next;
};

struct ssh_config {
    struct ssh_pool *pool;
    char *file;
    int named, matters, own_classes, no_ssh, warned_unknown, n_asking;
    struct ssh_lines lines;
    uint8_t *warned; /* a line of what is not followed, already told */
    struct ssh_class *classes;
};

#define S(field) offsetof(struct ssh_conf, field)

/* What concerns us. The last column: ssh expands a % in it by the host's name before it answers. */
static const struct keyword {
    const char *name;
    size_t field; /* SIZE_MAX: not one string */
    int by_name;
} followed[] = {
    {"hostname", S(hostname), 1},
    {"user", S(user), 1},
    {"port", S(port), 0},
    {"proxyjump", S(proxy_jump), 0},
    {"proxycommand", S(proxy_command), 0},
    {"hostkeyalias", S(key_alias), 0},
    {"identityagent", S(agent), 1},
    {"identitiesonly", S(identities_only), 0},
    {"bindaddress", S(bind_address), 1},
    {"addressfamily", S(family), 0},
    {"userknownhostsfile", S(known_hosts), 1},
    {"globalknownhostsfile", S(global_known_hosts), 1},
    {"stricthostkeychecking", S(strict), 0},
    {"batchmode", S(batch), 0},
    {"pubkeyauthentication", S(publickey), 0},
    {"passwordauthentication", S(password), 0},
    {"kbdinteractiveauthentication", S(kbdint), 0},
    {"challengeresponseauthentication", S(kbdint), 0},
    {"identityfile", SIZE_MAX, 0},
    {"canonicalizehostname", SIZE_MAX, 0},
};

/* What would change how we log in, and is not followed. */
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

static const char *system_folder(void) { return "/etc/ssh"; }

int ssh_config_new(struct ssh_config **out, struct ssh_pool *pool, const char *file, int named,
                   struct pd_err *err) {
    char folder[4096], system[4096];
    struct ssh_config *c = pd_calloc(1, sizeof *c);
    if (!c)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    *out = c; /* the pool frees it, also after a failure */
    c->pool = pool;
    c->named = named;
    if (!(c->file = pd_strdup(file)))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    if (named && access(file, R_OK))
        return pd_fail_errno(err, PD_ECONF, errno, "[ssh] config: cannot read %s", file);
    pd_fmt(folder, sizeof folder, "%s/.ssh", pool->home);
    int rc = ssh_lines_init(&c->lines, pool->home, err);
    if (!rc)
        rc = ssh_lines_read(&c->lines, file, folder, err);
    if (!rc && !named && !pd_fmt(system, sizeof system, "%s/ssh_config", system_folder()))
        rc = ssh_lines_read(&c->lines, system, system_folder(), err);
    for (size_t i = 0; !rc && i < c->lines.n; i++) {
        const struct ssh_line *x = &c->lines.v[i];
        const struct keyword *k = keyword_of(x->keyword);
        c->matters |= k || is_not_followed(x->keyword);
        if ((k && k->by_name && strchr(x->args, '%')) ||
            (!strcmp(x->keyword, "canonicalizehostname") && strcasecmp(x->args, "no")))
            c->own_classes = 1;
    }
    if (!rc && !(c->warned = pd_calloc(c->lines.n + 1, 1)))
        rc = pd_fail(err, PD_ENOMEM, "out of memory");
    return rc;
}

static void conf_release(struct ssh_conf *conf) {
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

void ssh_config_free(struct ssh_config *c) {
    if (!c)
        return;
    while (c->classes) {
        struct ssh_class *k = c->classes;
        c->classes = k->next;
        conf_release(&k->conf);
        pd_buf_release(&k->answer);
        pd_buf_release(&k->complaint);
        free(k->key);
        free(k->alias);
        free(k->user);
        free(k);
    }
    ssh_lines_release(&c->lines);
    free(c->warned);
    free(c->file);
    free(c);
}

/* --- values --- */

static int add_identity(struct ssh_conf *conf, const char *value) {
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
static int set_value(struct ssh_conf *conf, const char *keyword, const char *value) {
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

/* `ssh -G` puts the name in lower case and says it as HostName when there is none. */
static void drop_own_name(struct ssh_class *k) {
    if (k->conf.hostname && !strcasecmp(k->conf.hostname, k->alias)) {
        free(k->conf.hostname);
        k->conf.hostname = NULL;
    }
}

static void class_over(struct ssh_class *k) {
    k->state = k->why.code ? CLASS_FAILED : CLASS_KNOWN;
    drop_own_name(k);
    wait_wake_all(&k->waiters);
}

static void take_answer(struct ssh_class *k) {
    char *save = NULL;
    pd_put_u8(&k->answer, 0);
    if (k->answer.failed) {
        pd_fail(&k->why, PD_ENOMEM, "out of memory");
        return;
    }
    for (char *line = strtok_r((char *)k->answer.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *value = strchr(line, ' ');
        if (!value)
            continue;
        *value++ = 0;
        if (set_value(&k->conf, line, value))
            pd_fail(&k->why, PD_ENOMEM, "out of memory");
    }
}

/* --- without ssh: evaluate --- */

static void expand_name(char *out, size_t cap, const char *pattern, const char *alias) {
    size_t n = 0;
    for (const char *s = pattern; *s && n + 1 < cap; s++) {
        if (s[0] == '%' && (s[1] == 'h' || s[1] == 'n')) {
            n += (size_t)snprintf(out + n, cap - n, "%s", alias);
            if (n >= cap)
                n = cap - 1;
            s++;
        } else {
            s += s[0] == '%' && s[1] == '%';
            out[n++] = *s;
        }
    }
    out[n] = 0;
}

static void evaluate(struct ssh_class *k) {
    struct ssh_config *c = k->config;
    struct passwd *pw = getpwuid(getuid());
    for (size_t i = 0; i < c->lines.n && !k->why.code; i++) {
        const struct ssh_line *x = &c->lines.v[i];
        char word[1024], name[1024];
        const char *args = x->args, *user = k->user        ? k->user
                                            : k->conf.user ? k->conf.user
                                            : pw           ? pw->pw_name
                                                           : NULL;
        const struct keyword *w = keyword_of(x->keyword);
        if (!w)
            continue;
        enum ssh_cover covers = ssh_block_covers(
            &c->lines, x->block, k->alias, k->conf.hostname ? k->conf.hostname : k->alias, user);
        if (covers == COVER_UNKNOWN && !c->warned_unknown) {
            c->warned_unknown = 1;
            ssh_pool_warn(c->pool,
                          "%s:%d: there is no ssh program to ask whether this Match counts; it is "
                          "passed over",
                          c->lines.files[x->file], x->no);
        }
        if (covers != COVER_YES || !ssh_word(&args, word, sizeof word))
            continue;
        int whole = !strcmp(w->name, "proxycommand") || strstr(w->name, "knownhostsfile");
        if (!strcmp(w->name, "hostname"))
            expand_name(name, sizeof name, word, k->alias);
        if (set_value(&k->conf, w->name,
                      whole                          ? x->args
                      : !strcmp(w->name, "hostname") ? name
                                                     : word))
            pd_fail(&k->why, PD_ENOMEM, "out of memory");
    }
    class_over(k);
}

/* --- asking ssh --- */

static void ask_some(struct ssh_config *c);

static void on_class_closed(uv_handle_t *h) {
    struct ssh_class *k = h->data;
    if (--k->n_handles)
        return;
    struct ssh_config *c = k->config;
    c->n_asking--;
    if (k->canceled) { /* it can be asked again */
        k->asked = k->exited = k->late = k->canceled = 0;
        k->status = 0;
        pd_err_clear(&k->why);
        pd_buf_clear(&k->answer);
        pd_buf_clear(&k->complaint);
    } else if (k->state == CLASS_ASKED) {
        class_over(k);
    }
    ask_some(c);
    ssh_pool_background(c->pool, -1);
}

static void judge_answer(struct ssh_class *k) {
    pd_put_u8(&k->complaint, 0);
    if (k->late)
        pd_fail(&k->why, PD_ETIMEOUT, "ssh -G %s did not answer within %d s", k->alias,
                ASK_LIMIT_MS / 1000);
    else if (k->status)
        pd_fail(&k->why, PD_ECONF, "ssh -G %s: %.600s", k->alias,
                k->complaint.failed ? "failed" : pd_trim((char *)k->complaint.data));
    else
        take_answer(k);
}

static void maybe_answered(struct ssh_class *k) {
    if (!k->exited || uv_is_active((uv_handle_t *)&k->out) || uv_is_active((uv_handle_t *)&k->err))
        return;
    if (uv_is_closing((uv_handle_t *)&k->limit))
        return;
    if (!k->canceled)
        judge_answer(k);
    uv_close((uv_handle_t *)&k->process, on_class_closed);
    uv_close((uv_handle_t *)&k->out, on_class_closed);
    uv_close((uv_handle_t *)&k->err, on_class_closed);
    uv_close((uv_handle_t *)&k->limit, on_class_closed);
}

static void on_exit_cb(uv_process_t *p, int64_t status, int signal) {
    struct ssh_class *k = p->data;
    k->exited = 1;
    k->status = signal ? -1 : status;
    maybe_answered(k);
}

static void on_alloc(uv_handle_t *h, size_t want, uv_buf_t *buf) {
    (void)h;
    (void)want;
    buf->base = pd_malloc(16384);
    buf->len = buf->base ? 16384 : 0;
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf) {
    struct ssh_class *k = s->data;
    struct pd_buf *to = s == (uv_stream_t *)&k->out ? &k->answer : &k->complaint;
    if (n > 0 && to->len < ANSWER_MAX)
        pd_put(to, buf->base, (size_t)n);
    free(buf->base);
    if (n < 0) {
        if (n != UV_EOF) /* half an answer is none */
            to->failed = PD_ENOMEM;
        uv_read_stop(s);
        maybe_answered(k);
    }
}

static void stop_asking(struct ssh_class *k) {
    if (!k->n_handles || uv_is_closing((uv_handle_t *)&k->limit))
        return;
    if (!k->exited)
        uv_process_kill(&k->process, SIGKILL);
    uv_read_stop((uv_stream_t *)&k->out); /* (a Match exec may hold them open) */
    uv_read_stop((uv_stream_t *)&k->err);
    maybe_answered(k);
}

static void on_limit(uv_timer_t *t) {
    struct ssh_class *k = t->data;
    k->late = 1;
    stop_asking(k);
}

static int spawn(struct ssh_class *k) {
    struct ssh_config *c = k->config;
    char port[16];
    const char *argv[12];
    int n = 0;
    pd_fmt(port, sizeof port, "%d", k->port);
    argv[n++] = "ssh";
    argv[n++] = "-G";
    if (c->named) {
        argv[n++] = "-F";
        argv[n++] = c->file;
    }
    if (k->user) {
        argv[n++] = "-l";
        argv[n++] = k->user;
    }
    if (k->port) {
        argv[n++] = "-p";
        argv[n++] = port;
    }
    argv[n++] = "--";
    argv[n++] = k->alias;
    argv[n] = NULL;
    uv_stdio_container_t io[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&k->out},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&k->err},
    };
    uv_process_options_t o = {.file = "ssh",
                              .args = (char **)(uintptr_t)argv,
                              .exit_cb = on_exit_cb,
                              .stdio = io,
                              .stdio_count = 3};
    return uv_spawn(c->pool->loop, &k->process, &o);
}

static void ask(struct ssh_class *k) {
    struct ssh_config *c = k->config;
    k->asked = 1;
    uv_loop_t *loop = c->pool->loop;
    uv_pipe_init(loop, &k->out, 0);
    uv_pipe_init(loop, &k->err, 0);
    uv_timer_init(loop, &k->limit);
    k->process.data = k->out.data = k->err.data = k->limit.data = k;
    k->n_handles = 4;
    c->n_asking++;
    ssh_pool_background(c->pool, 1);
    int rc = spawn(k);
    if (rc) { /* there is no ssh: from now on we read the lines ourselves */
        c->no_ssh = 1;
        k->exited = 1;
        evaluate(k);
        uv_close((uv_handle_t *)&k->process, on_class_closed);
        uv_close((uv_handle_t *)&k->out, on_class_closed);
        uv_close((uv_handle_t *)&k->err, on_class_closed);
        uv_close((uv_handle_t *)&k->limit, on_class_closed);
        return;
    }
    uv_read_start((uv_stream_t *)&k->out, on_alloc, on_read);
    uv_read_start((uv_stream_t *)&k->err, on_alloc, on_read);
    uv_timer_start(&k->limit, on_limit, ASK_LIMIT_MS, 0);
}

static void ask_some(struct ssh_config *c) {
    for (struct ssh_class *k = c->classes; k && c->n_asking < ASK_AT_A_TIME; k = k->next) {
        if (k->asked || k->state != CLASS_ASKED || !k->waiters.head)
            continue;
        if (c->no_ssh)
            evaluate(k);
        else
            ask(k);
    }
}

void ssh_config_cancel(struct ssh_config *c) {
    for (struct ssh_class *k = c ? c->classes : NULL; k; k = k->next) {
        k->canceled = k->n_handles > 0;
        stop_asking(k);
    }
}

/* --- classes --- */

static void warn_not_followed(struct ssh_config *c, const char *alias, const char *user) {
    for (size_t i = 0; i < c->lines.n; i++) {
        const struct ssh_line *x = &c->lines.v[i];
        if (c->warned[i] || !is_not_followed(x->keyword) ||
            ssh_block_covers(&c->lines, x->block, alias, alias, user) != COVER_YES)
            continue;
        c->warned[i] = 1;
        ssh_pool_warn(c->pool, "%s:%d: %s is not followed", c->lines.files[x->file], x->no,
                      x->keyword);
    }
}

int ssh_config_class(struct ssh_class **out, struct ssh_config *c, const char *alias,
                     const char *user, int port, struct pd_err *err) {
    struct pd_buf key;
    pd_buf_init(&key);
    pd_put_fmt(&key, "%s %d ", user ? user : "", port);
    if (c->matters && (ssh_lines_signature(&c->lines, alias, &key) || c->own_classes))
        pd_put_fmt(&key, " %s", alias);
    pd_put_u8(&key, 0);
    struct ssh_class *k = key.failed ? NULL : c->classes;
    while (k && strcmp(k->key, (char *)key.data))
        k = k->next;
    if (!k && !key.failed && (k = pd_calloc(1, sizeof *k))) {
        k->config = c;
        k->port = port;
        k->key = (char *)key.data;
        key.data = NULL;
        pd_buf_init(&k->answer);
        pd_buf_init(&k->complaint);
        k->next = c->classes;
        c->classes = k;
        if (!(k->alias = pd_strdup(alias)) || (user && !(k->user = pd_strdup(user))))
            k->state = CLASS_FAILED, pd_fail(&k->why, PD_ENOMEM, "out of memory");
        else if (c->matters)
            warn_not_followed(c, alias, user);
        else
            k->state = CLASS_KNOWN;
    }
    if (!k)
        pd_fail(err, PD_ENOMEM, "out of memory");
    pd_buf_release(&key);
    *out = k;
    return k ? 0 : PD_ENOMEM;
}

enum ssh_class_state ssh_class_state(struct ssh_class *k, struct session *s) {
    if (k->state == CLASS_ASKED) {
        wait_add(&k->waiters, s);
        ask_some(k->config);
    }
    return k->state;
}

const struct ssh_conf *ssh_class_conf(const struct ssh_class *k) { return &k->conf; }
const struct pd_err *ssh_class_error(const struct ssh_class *k) { return &k->why; }
