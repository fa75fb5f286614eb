/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - creates a handle: finds this trainer's place in its job from settings and environment.
 */
#include "capi/capi_internal.h"
#include "ps/plan/update_rule.h"

extern char **environ;

int capi_word_next(const char **text, struct capi_word *w, struct pd_err *err) {
    *text += strspn(*text, " \t\r\n");
    if (!**text)
        return 0;
    size_t n = strcspn(*text, " \t\r\n"), eq = strcspn(*text, "= \t\r\n");
    if (eq >= n)
        return pd_fail(err, PD_ECONF, "'%.*s' is not NAME=VALUE", (int)(n < 80 ? n : 80), *text);
    if (eq >= sizeof w->name || n - eq - 1 >= sizeof w->value)
        return pd_fail(err, PD_ECONF, "'%.80s...' is too long", *text);
    memcpy(w->name, *text, eq);
    w->name[eq] = 0;
    memcpy(w->value, *text + eq + 1, n - eq - 1);
    w->value[n - eq - 1] = 0;
    *text += n;
    return 1;
}

static int read_settings(const char *text, struct pd_options *o, struct ps_optim_conf *optim,
                         int *has_optim, int optimizer_words, struct pd_err *err) {
    struct capi_word w;
    int rc;
    while ((rc = capi_word_next(&text, &w, err)) > 0) {
        if (!strcmp(w.name,
                    "optimizer")) { /* the name first: the defaults of its settings depend on it */
            if (!optimizer_words && (rc = ps_optim_conf_init(optim, w.value, err)))
                return rc;
            *has_optim = 1;
        } else if (pd_starts_with(w.name, "optimizer.")) {
            if (optimizer_words && (rc = ps_optim_conf_set(optim, w.name + 10, w.value, err)))
                return rc;
        } else if (!optimizer_words) {
            int row = pd_options_find(w.name, PD_TRAINER);
            size_t n;
            const struct pd_option *t = pd_option_table(&n);
            if (row < 0)
                return pd_fail(err, PD_ECONF, "unknown setting '%s'", w.name);
            rc = pd_options_set(o, PD_TRAINER, t[row].section, t[row].name, w.value, PD_FROM_ARGV,
                                w.name, NULL, err);
            if (rc)
                return rc;
        }
    }
    return rc;
}

/* An option without a value is set from the variable that every process of a launched job has. */
static int set_from_job(struct pd_options *o, const char *name, const char *variable,
                        struct pd_err *err) {
    const char *value = getenv(variable);
    int row = pd_options_find(name, PD_TRAINER);
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    if (!value || row < 0 || o->origin[row].level >= PD_FROM_ENV)
        return 0;
    return pd_options_set(o, PD_TRAINER, t[row].section, t[row].name, value, PD_FROM_ENV, variable,
                          NULL, err);
}

static int find_place(struct paddle_ps *ps, const char *settings, struct ps_optim_conf *optim,
                      struct pd_err *err) {
    struct pd_options *o = &ps->options;
    const char *texts[] = {getenv("PADDLE_PS_SETTINGS"), settings};
    int has_optim = 0, rc = pd_options_read_environ(o, PD_TRAINER, environ, err);
    for (int optimizer_words = 0; optimizer_words < 2 && !rc; optimizer_words++) {
        for (int k = 0; k < 2 && !rc; k++)
            if (texts[k])
                rc = read_settings(texts[k], o, optim, &has_optim, optimizer_words, err);
        if (!rc && !has_optim)
            rc = pd_fail(err, PD_ECONF, "no optimizer is set (for example optimizer=adagrad)");
    }
    if (!rc)
        rc = ps_optim_conf_check(optim, err);
    static const char *const variables[][2] = {{"trainer_id", "PADDLE_TRAINER_ID"},
                                               {"num_gradient_servers", "PADDLE_TRAINERS_NUM"},
                                               {"pservers", "PADDLE_PSERVERS_IP_PORT_LIST"},
                                               {"key_file", "PADDLE_KEY_FILE"}};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0] && !rc; i++)
        rc = set_from_job(o, variables[i][0], variables[i][1], err);
    if (!rc && !o->local && !*o->pserver_list)
        rc = pd_fail(err, PD_ECONF,
                     "no pservers: neither pservers=ip:port,... nor PADDLE_PSERVERS_IP_PORT_LIST; "
                     "local=1 needs none");
    if (!rc && !o->local)
        rc = pd_options_complete_pservers(o, err);
    pd_secret_pages(ps->key, sizeof ps->key);
    if (!rc && *o->key_file)
        rc = wire_key_read(o->key_file, ps->key, err);
    return rc;
}

static int connect_client(struct paddle_ps *ps, const struct ps_optim_conf *optim,
                          struct pd_err *err) {
    const struct pd_options *o = &ps->options;
    uint32_t id = (uint32_t)o->trainer_id, n = (uint32_t)o->num_gradient_servers,
             n_streams = o->n_streams ? (uint32_t)o->n_streams : n;
    char job[PS_JOB_MAX];
    if (id >= n || n_streams < n)
        return pd_fail(err, PD_ECONF, "trainer_id %u of %u trainers with %u streams", id, n,
                       n_streams);
    if (ps_job_of_environ(job, err))
        return err->code;
    struct ps_client_opts opts = {
        .local = (int)o->local,
        .pservers = o->pserver_list,
        .trainer_id = id,
        .n_trainers = n,
        .n_streams = n_streams,
        .stream_lo = (uint32_t)((uint64_t)id * n_streams / n),
        .stream_hi = (uint32_t)((uint64_t)(id + 1) * n_streams / n),
        .seed = (uint64_t)o->seed,
        .optimizer = {.conf = optim},
        .update = ps_update_rule_at((size_t)o->update)->name,
        .staleness = (uint32_t)o->staleness,
        .geo_sgd_need_push_nums = (uint32_t)o->geo_sgd_need_push_nums,
        .async_lagged_grad_discard_ratio = o->async_lagged_grad_discard_ratio,
        .stop_on_nan = o->stop_on_nan != 0,
        .reject_nan = o->reject_nan != 0,
        .job = job,
        .key = ps->key,
        .plain = o->encrypt == PD_ENCRYPT_OFF,
        .connect_timeout_ms = (uint64_t)(o->server_timeout * 1000),
        .reconnect_ms = (uint64_t)(o->reconnect_timeout * 1000),
        .heartbeat_ms = (uint64_t)(o->heartbeat_timeout * 1000),
        .output_dir = getenv("PADDLE_OUTPUT_DIR"),
        .log = &ps->log,
    };
    return ps_client_new(&ps->client, &opts, err);
}

/* Without this, SIGPIPE would end the program when a server goes away. A program that has set its
 * own action for SIGPIPE keeps it. */
static void spare_sigpipe(void) {
    struct sigaction now;
    if (!sigaction(SIGPIPE, NULL, &now) && now.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

CAPI paddle_ps *paddle_ps_join(const char *settings, char *why, size_t n_why) {
    struct pd_err err = {0};
    struct ps_optim_conf optim = {0};
    struct paddle_ps *ps = pd_calloc(1, sizeof *ps);
    int rc = ps ? 0 : pd_oom(&err, "a trainer");
    if (!rc) {
        pd_log_init(&ps->log, 2, -1, PD_WARN);
        rc = pd_options_init(&ps->options, &err);
    }
    if (!rc)
        rc = find_place(ps, settings, &optim, &err);
    if (!rc) {
        spare_sigpipe();
        rc = connect_client(ps, &optim, &err);
    }
    if (rc) {
        if (n_why)
            snprintf(why, n_why, "%s", err.msg);
        paddle_ps_free(ps);
        return NULL;
    }
    return ps;
}

CAPI void paddle_ps_free(paddle_ps *ps) {
    if (!ps)
        return;
    ps_client_free(ps->client);
    capi_rows_release(ps);
    pd_options_release(&ps->options);
    free(ps->dense);
    free(ps->table);
    explicit_bzero(ps->key, sizeof ps->key);
    free(ps);
}

int capi_done(paddle_ps *ps, int rc) {
    if (rc < 0) {
        const struct pd_err *e = ps->client ? ps_client_err(ps->client) : NULL;
        if (e && e->code)
            pd_err_copy(&ps->err, e);
        pd_fail(&ps->err, rc, "%s", pd_code_text(rc));
        return ps->err.code;
    }
    return rc;
}

int capi_fail(paddle_ps *ps, int code, const char *fmt, ...) {
    char text[900];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pd_fail(&ps->err, code, "%s", text);
    return ps->err.code;
}

CAPI const char *paddle_ps_error(const paddle_ps *ps) { return ps->err.msg; }
CAPI int paddle_ps_version(void) { return PADDLE_PS_VERSION; }
CAPI int paddle_ps_trainer_id(const paddle_ps *ps) { return (int)ps->options.trainer_id; }
CAPI int paddle_ps_n_trainers(const paddle_ps *ps) { return (int)ps->options.num_gradient_servers; }
CAPI uint64_t paddle_ps_step(const paddle_ps *ps) { return ps_step(ps->client); }
