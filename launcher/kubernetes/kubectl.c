/* SPDX-License-Identifier: Apache-2.0 */
/* kubectl.c - see kubectl.h. */
#include "launcher/kubernetes/kubectl.h"

#include "launcher/transport/transport.h"

enum { CALL_MS = 60000, OUT_MAX = 256 << 20, WORDS_MAX = 20 };

static void on_signal(uv_signal_t *s, int signum) {
    struct kubectl *k = s->data;
    (void)signum;
    if (k->deaf)
        return;
    k->interrupted = 1;
    if (k->call)
        transport_close(k->call);
    uv_stop(&k->loop);
}

static const int signums[KUBECTL_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

int kubectl_open(struct kubectl *k, const struct pd_options *opts, struct pd_err *err) {
    *k = (struct kubectl){.opts = opts};
    if (uv_loop_init(&k->loop))
        return pd_fail(err, PD_EFAIL, "cannot make an event loop");
    uv_timer_init(&k->loop, &k->timer);
    k->timer.data = k;
    for (size_t i = 0; i < KUBECTL_SIGNALS; i++) {
        uv_signal_init(&k->loop, &k->signals[i]);
        k->signals[i].data = k;
    }
    return 0;
}

void kubectl_catch_signals(struct kubectl *k) {
    for (size_t i = 0; i < KUBECTL_SIGNALS; i++)
        if (signums[i] != SIGHUP || !pd_signal_is_ignored(SIGHUP))
            uv_signal_start(&k->signals[i], on_signal, signums[i]);
}

/* A signal that came before is noted, one that comes meanwhile ends paddlectl: none is lost. */
int kubectl_leave_signals(struct kubectl *k, struct pd_err *err) {
    sigset_t set, old;
    sigemptyset(&set);
    for (size_t i = 0; i < KUBECTL_SIGNALS; i++)
        sigaddset(&set, signums[i]);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    uv_run(&k->loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < KUBECTL_SIGNALS; i++)
        uv_signal_stop(&k->signals[i]);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return k->interrupted ? pd_fail(err, PD_ECANCELED, "interrupted") : 0;
}

void kubectl_close(struct kubectl *k) {
    for (size_t i = 0; i < KUBECTL_SIGNALS; i++)
        uv_close((uv_handle_t *)&k->signals[i], NULL);
    uv_close((uv_handle_t *)&k->timer, NULL);
    uv_run(&k->loop, UV_RUN_DEFAULT);
    uv_loop_close(&k->loop);
    pd_buf_release(&k->out);
}

void kubectl_deaf(struct kubectl *k) {
    k->deaf = 1;
    k->interrupted = 0;
    kubectl_catch_signals(k);
}

/* --- a call --- */

static void on_open(void *arg) { (void)arg; }

static void on_bytes(const uint8_t *p, size_t n, void *arg) {
    struct kubectl *k = arg;
    pd_put(&k->out, p, n);
    if (k->out.failed || k->out.len > OUT_MAX)
        transport_close(k->call);
}

static void on_stderr(const uint8_t *p, size_t n, void *arg) {
    (void)p; /* the transport keeps the end */
    (void)n;
    (void)arg;
}

static void on_close(const struct pd_err *why, void *arg) {
    struct kubectl *k = arg;
    const char *tail = transport_stderr(k->call);
    size_t n = strlen(tail);
    k->status = why->code == PD_ECLOSED ? transport_status(k->call) : -1;
    pd_fmt(k->said, sizeof k->said, "%s",
           why->code && why->code != PD_ECLOSED ? why->msg : tail + (n > 600 ? n - 600 : 0));
    k->call = NULL;
    k->ended = 1;
    uv_timer_stop(&k->timer);
}

static const struct transport_events events = {
    .on_open = on_open, .on_bytes = on_bytes, .on_close = on_close, .on_stderr = on_stderr};

static void on_time(uv_timer_t *t) {
    struct kubectl *k = t->data;
    k->late = 1;
    if (k->call)
        transport_close(k->call);
}

static int judge(const struct kubectl *k, const char *verb, struct pd_err *err) {
    char said[sizeof k->said];
    pd_fmt(said, sizeof said, "%s", k->said);
    const char *text = pd_trim(said);
    if (k->interrupted)
        return pd_fail(err, PD_ECANCELED, "interrupted");
    if (k->late)
        return pd_fail(err, PD_ETIMEOUT, "kubectl %s did not end within %d s%s%s", verb,
                       CALL_MS / 1000, *text ? ": " : "", text);
    if (k->out.failed)
        return pd_oom(err, "the output of kubectl");
    if (k->status)
        return pd_fail(err, PD_EHOST, "kubectl %s failed: %s", verb,
                       *text ? text : "without a message");
    return 0;
}

/* argv of kubectl: its verb and context and namespace are first, so `--` may be among the words. */
static void make_argv(const struct kubectl *k, const char *const *words, const char **argv) {
    size_t n = 0;
    argv[n++] = "kubectl";
    if (*k->opts->kube_context) {
        argv[n++] = "--context";
        argv[n++] = k->opts->kube_context;
    }
    if (*k->opts->kube_namespace) {
        argv[n++] = "-n";
        argv[n++] = k->opts->kube_namespace;
    }
    while (*words)
        argv[n++] = *words++;
    argv[n] = NULL;
    assert(n < WORDS_MAX);
}

int kubectl_call(struct kubectl *k, const char *const *words, const char *input,
                 struct pd_err *err) {
    const char *argv[WORDS_MAX];
    if (k->interrupted)
        return pd_fail(err, PD_ECANCELED, "interrupted");
    make_argv(k, words, argv);
    pd_buf_clear(&k->out);
    k->ended = k->late = 0;
    int rc = transport_local(&k->call, &k->loop, (char *const *)(uintptr_t)argv, &events, k, err);
    if (rc)
        return rc;
    transport_local_end_group(k->call);
    uv_timer_start(&k->timer, on_time, CALL_MS, 0);
    if (input && transport_write(k->call, input, strlen(input))) {
        pd_oom(err, "the input of kubectl");
        transport_close(k->call);
    }
    transport_eof(k->call);
    while (!k->ended)
        uv_run(&k->loop, UV_RUN_ONCE);
    pd_put_u8(&k->out, 0);
    k->out.len -= !k->out.failed;
    return err->code ? err->code : judge(k, words[0], err);
}

static void on_pause(uv_timer_t *t) { uv_stop(t->loop); }

int kubectl_pause(struct kubectl *k, uint64_t ms, struct pd_err *err) {
    if (!k->interrupted) {
        uv_timer_start(&k->timer, on_pause, ms, 0);
        uv_run(&k->loop, UV_RUN_DEFAULT);
        uv_timer_stop(&k->timer);
    }
    return k->interrupted ? pd_fail(err, PD_ECANCELED, "interrupted") : 0;
}

void kubectl_put_command(struct pd_buf *out, const struct pd_options *opts) {
    pd_put_fmt(out, "kubectl");
    if (*opts->kube_context)
        pd_put_fmt(out, " --context %s", opts->kube_context);
    if (*opts->kube_namespace)
        pd_put_fmt(out, " -n %s", opts->kube_namespace);
}
