/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_secret.c - passphrases and passwords: a thread asks for each once, one question at a time.
 *
 * The thread owns its struct ssh_question until its uv_async arrives. A signal while the echo of
 * the terminal is off cancels the question, so that the thread restores the terminal. If the
 * process has no handler for the signal, it is raised again afterwards. Secrets are in locked
 * memory that is wiped, and never in a log or an argv.
 */
#include <sodium.h>

#include "launcher/ssh/ssh_internal.h"
#include "launcher/ssh/ssh_prompt.h"

enum { N_SIGNALS = 4 };
static const int signums[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* The question that is on the terminal. */
struct ssh_question {
    struct ssh_secret *x;
    uv_thread_t thread;
    uv_async_t done;
    uv_signal_t signals[N_SIGNALS];
    int is_default[N_SIGNALS], raised; /* raised: the signal to raise again, or 0 */
    int n_handles, over;
    int cancel[2];             /* a pipe */
    struct ssh_prompt *prompt; /* sodium_malloc'ed */
    char *text;
    int rc;
    ssh_key key; /* of x->unlocks */
};

struct ssh_secrets {
    struct ssh_pool *pool;
    struct ssh_secret *all, *head, *tail; /* head: the queue of questions */
    struct ssh_question *current;         /* the question on the terminal; NULL: none */
};

int ssh_secrets_new(struct ssh_pool *pool) {
    if (!(pool->secrets = pd_calloc(1, sizeof *pool->secrets)))
        return PD_ENOMEM;
    pool->secrets->pool = pool;
    return 0;
}

void ssh_secret_forget(struct ssh_secret *x) {
    sodium_free(x->text);
    x->text = NULL;
    x->state = SECRET_NONE;
}

void ssh_secrets_free(struct ssh_secrets *all) {
    while (all && all->all) {
        struct ssh_secret *x = all->all;
        all->all = x->next;
        ssh_secret_forget(x);
        free(x->name);
        free(x->prompt);
        free(x);
    }
    free(all);
}

struct ssh_secret *ssh_secret_get(struct ssh_pool *pool, const char *name) {
    for (struct ssh_secret *x = pool->secrets->all; x; x = x->next)
        if (!strcmp(x->name, name))
            return x;
    struct ssh_secret *x = pd_calloc(1, sizeof *x);
    if (!x || !(x->name = pd_strdup(name))) {
        free(x);
        return NULL;
    }
    x->pool = pool;
    x->next = pool->secrets->all;
    pool->secrets->all = x;
    return x;
}

/* --- the thread --- */

/* A passphrase is tried at once on the key file, without a server. */
static void ask_passphrase(struct ssh_question *a) {
    char again[500];
    for (int i = 0; i < SSH_ASK_MAX; i++) {
        if ((a->rc = ssh_prompt_ask(a->prompt)))
            return;
        if (!a->prompt->answer[0]) {
            pd_fmt(a->prompt->why, sizeof a->prompt->why, "locked, and no passphrase was given");
            a->rc = -1;
            return;
        }
        if (ssh_pki_import_privkey_file(a->x->unlocks->path, a->prompt->answer, NULL, NULL,
                                        &a->key) == SSH_OK)
            return;
        a->key = NULL;
        pd_fmt(again, sizeof again, "That was wrong. %s", a->text);
        a->prompt->text = again;
    }
    pd_fmt(a->prompt->why, sizeof a->prompt->why, "wrong passphrase, %d times", SSH_ASK_MAX);
    a->rc = -1;
}

static void on_thread(void *arg) {
    struct ssh_question *a = arg;
    if (a->x->unlocks)
        ask_passphrase(a);
    else
        a->rc = ssh_prompt_ask(a->prompt);
    uv_async_send(&a->done);
}

/* --- the loop --- */

static void next_question(struct ssh_secrets *all);

static void question_free(struct ssh_question *a) {
    if (!a)
        return;
    for (int i = 0; i < 2; i++)
        pd_close(a->cancel[i]);
    sodium_free(a->prompt);
    free(a->text);
    free(a);
}

static void on_question_closed(uv_handle_t *h) {
    struct ssh_question *a = h->data;
    if (--a->n_handles)
        return;
    struct ssh_secrets *all = a->x->pool->secrets;
    struct ssh_pool *pool = all->pool;
    int raised = a->raised;
    all->current = NULL;
    question_free(a);
    if (raised)
        kill(getpid(), raised);
    next_question(all);
    ssh_pool_background(pool, -1);
}

static void close_handles(struct ssh_question *a) {
    uv_close((uv_handle_t *)&a->done, on_question_closed);
    for (int i = 0; i < N_SIGNALS; i++)
        uv_close((uv_handle_t *)&a->signals[i], on_question_closed);
}

static void secret_refuse(struct ssh_secret *x, const char *why) {
    x->state = SECRET_REFUSED;
    pd_fmt(x->why, sizeof x->why, "%s", why);
}

static void take_answer(struct ssh_question *a) {
    struct ssh_secret *x = a->x;
    size_t n = strlen(a->prompt->answer);
    if (a->prompt->canceled) {
        x->state = SECRET_NONE;
        if (x->waiters.head) /* a signal: the sessions that wait fail */
            secret_refuse(x, a->prompt->why);
    } else if (a->rc) {
        secret_refuse(x, a->prompt->why);
    } else if (x->unlocks) {
        x->unlocks->key = a->key;
        x->state = SECRET_HAVE;
    } else if ((x->text = sodium_malloc(n + 1))) {
        memcpy(x->text, a->prompt->answer, n + 1);
        x->state = SECRET_HAVE;
        x->generation++;
    } else {
        secret_refuse(x, "out of memory");
    }
}

static void on_answered(uv_async_t *h) {
    struct ssh_question *a = h->data;
    if (a->over)
        return;
    a->over = 1;
    uv_thread_join(&a->thread);
    take_answer(a);
    wait_wake_all(&a->x->waiters);
    close_handles(a);
}

static void cancel_question(struct ssh_question *a) {
    pd_close(a->cancel[1]);
    a->cancel[1] = -1;
}

static void on_signal(uv_signal_t *h, int signum) {
    struct ssh_question *a = h->data;
    for (int i = 0; i < N_SIGNALS; i++)
        if (signums[i] == signum && a->is_default[i])
            a->raised = signum;
    cancel_question(a);
}

static int watch_signals(struct ssh_question *a, uv_loop_t *loop) {
    for (int i = 0; i < N_SIGNALS; i++) {
        struct sigaction old;
        a->is_default[i] = !sigaction(signums[i], NULL, &old) && old.sa_handler == SIG_DFL;
        int ignored = old.sa_handler == SIG_IGN;
        uv_signal_init(loop, &a->signals[i]);
        a->signals[i].data = a;
        if (!ignored)
            uv_signal_start(&a->signals[i], on_signal, signums[i]);
    }
    return uv_async_init(loop, &a->done, on_answered);
}

static struct ssh_question *question_new(struct ssh_secret *x) {
    struct ssh_question *a = pd_calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->x = x;
    a->cancel[0] = a->cancel[1] = -1;
    a->prompt = sodium_malloc(sizeof *a->prompt);
    a->text = pd_strdup(x->prompt);
    if (!a->prompt || !a->text || uv_pipe(a->cancel, 0, 0)) {
        question_free(a);
        return NULL;
    }
    memset(a->prompt, 0, sizeof *a->prompt);
    a->prompt->text = a->text;
    a->prompt->echo = x->echo;
    a->prompt->cancel_fd = a->cancel[0];
    return a;
}

static void next_question(struct ssh_secrets *all) {
    while (all->head && !all->current) {
        struct ssh_secret *x = all->head;
        if (!(all->head = x->next_queued))
            all->tail = NULL;
        struct ssh_question *a = question_new(x);
        if (!a) {
            secret_refuse(x, "out of memory");
            wait_wake_all(&x->waiters);
            continue;
        }
        a->done.data = a;
        if (watch_signals(a, all->pool->loop)) {
            secret_refuse(x, "cannot ask: out of file descriptors");
            wait_wake_all(&x->waiters);
            a->n_handles = N_SIGNALS;
            all->current = a;
            ssh_pool_background(all->pool, 1);
            for (int i = 0; i < N_SIGNALS; i++)
                uv_close((uv_handle_t *)&a->signals[i], on_question_closed);
            return;
        }
        a->n_handles = N_SIGNALS + 1;
        all->current = a;
        ssh_pool_background(all->pool, 1);
        if (uv_thread_create(&a->thread, on_thread, a)) {
            a->over = 1;
            secret_refuse(x, "cannot start a thread to ask");
            wait_wake_all(&x->waiters);
            close_handles(a);
        }
    }
}

void ssh_secret_ask(struct ssh_secret *x, struct session *s, const char *prompt) {
    struct ssh_secrets *all = x->pool->secrets;
    wait_add(&x->waiters, s);
    if (x->state == SECRET_QUEUED)
        return;
    char *text = pd_strdup(prompt);
    ssh_secret_forget(x);
    if (!text) {
        secret_refuse(x, "out of memory");
        wait_wake_all(&x->waiters);
        return;
    }
    free(x->prompt);
    x->prompt = text;
    x->n_asked++;
    x->state = SECRET_QUEUED;
    x->next_queued = NULL;
    if (all->tail)
        all->tail->next_queued = x;
    else
        all->head = x;
    all->tail = x;
    next_question(all);
}

void ssh_secrets_cancel(struct ssh_secrets *all) {
    for (; all->head; all->head = all->head->next_queued)
        all->head->state = SECRET_NONE;
    all->tail = NULL;
    if (all->current)
        cancel_question(all->current);
}
