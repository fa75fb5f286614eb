/* ssh_secret.c - passphrases and passwords: asked once for all sessions, one question at a time, by
 * a thread.
 *
 * The thread has a struct ask of its own; the loop looks into it when the thread has said that it
 * is done. A signal while the terminal's echo is off withdraws the question, so that the thread
 * puts the terminal right; where nobody else handles that signal it is raised again then. Secrets
 * are in memory that is locked and wiped; they are in no log and no argv.
 */
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "launcher/ssh/ssh_internal.h"
#include "launcher/ssh/ssh_prompt.h"

enum { N_SIGNALS = 4 };
static const int signums[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* A question that a person has before him. */
struct ask {
    struct ssh_secret *x;
    uv_thread_t thread;
    uv_async_t done;
    uv_signal_t signals[N_SIGNALS];
    int is_default[N_SIGNALS], raised; /* raised: a signal to be raised again */
    int n_handles, over;
    int cancel[2];             /* a pipe */
    struct ssh_prompt *prompt; /* sodium_malloc'ed */
    char *text;
    int rc;
    ssh_key key; /* of x->unlocks */
};

struct ssh_secrets {
    struct ssh_pool *pool;
    struct ssh_secret *all, *head, *tail; /* head: of the questions still to be asked */
    struct ask *asks;                     /* the one that is asked */
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

/* A passphrase is tried at once: nobody is asked again over ssh for what can be told here. */
static void ask_passphrase(struct ask *a) {
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
    struct ask *a = arg;
    if (a->x->unlocks)
        ask_passphrase(a);
    else
        a->rc = ssh_prompt_ask(a->prompt);
    uv_async_send(&a->done);
}

/* --- the loop --- */

static void ask_next(struct ssh_secrets *all);

static void ask_free(struct ask *a) {
    if (!a)
        return;
    for (int i = 0; i < 2; i++)
        if (a->cancel[i] >= 0)
            close(a->cancel[i]);
    sodium_free(a->prompt);
    free(a->text);
    free(a);
}

static void on_ask_closed(uv_handle_t *h) {
    struct ask *a = h->data;
    if (--a->n_handles)
        return;
    struct ssh_secrets *all = a->x->pool->secrets;
    struct ssh_pool *pool = all->pool;
    int raised = a->raised;
    all->asks = NULL;
    ask_free(a);
    if (raised)
        kill(getpid(), raised);
    ask_next(all);
    ssh_pool_background(pool, -1);
}

static void close_handles(struct ask *a) {
    uv_close((uv_handle_t *)&a->done, on_ask_closed);
    for (int i = 0; i < N_SIGNALS; i++)
        uv_close((uv_handle_t *)&a->signals[i], on_ask_closed);
}

static void refuse(struct ssh_secret *x, const char *why) {
    x->state = SECRET_REFUSED;
    pd_fmt(x->why, sizeof x->why, "%s", why);
}

static void take_answer(struct ask *a) {
    struct ssh_secret *x = a->x;
    size_t n = strlen(a->prompt->answer);
    if (a->prompt->canceled) {
        x->state = SECRET_NONE;
        if (x->waiters
                .head) /* a signal: those who wait are told, and their owner hears of it, too */
            refuse(x, a->prompt->why);
    } else if (a->rc) {
        refuse(x, a->prompt->why);
    } else if (x->unlocks) {
        x->unlocks->key = a->key;
        x->state = SECRET_HAVE;
    } else if ((x->text = sodium_malloc(n + 1))) {
        memcpy(x->text, a->prompt->answer, n + 1);
        x->state = SECRET_HAVE;
        x->generation++;
    } else {
        refuse(x, "out of memory");
    }
}

static void on_done(uv_async_t *h) {
    struct ask *a = h->data;
    if (a->over)
        return;
    a->over = 1;
    uv_thread_join(&a->thread);
    take_answer(a);
    wait_wake_all(&a->x->waiters);
    close_handles(a);
}

static void withdraw(struct ask *a) {
    if (a->cancel[1] >= 0)
        close(a->cancel[1]);
    a->cancel[1] = -1;
}

static void on_signal(uv_signal_t *h, int signum) {
    struct ask *a = h->data;
    for (int i = 0; i < N_SIGNALS; i++)
        if (signums[i] == signum && a->is_default[i])
            a->raised = signum;
    withdraw(a);
}

static int watch_signals(struct ask *a, uv_loop_t *loop) {
    for (int i = 0; i < N_SIGNALS; i++) {
        struct sigaction old;
        a->is_default[i] = !sigaction(signums[i], NULL, &old) && old.sa_handler == SIG_DFL;
        int ignored = old.sa_handler == SIG_IGN;
        uv_signal_init(loop, &a->signals[i]);
        a->signals[i].data = a;
        if (!ignored)
            uv_signal_start(&a->signals[i], on_signal, signums[i]);
    }
    return uv_async_init(loop, &a->done, on_done);
}

static struct ask *ask_new(struct ssh_secret *x) {
    struct ask *a = pd_calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->x = x;
    a->cancel[0] = a->cancel[1] = -1;
    a->prompt = sodium_malloc(sizeof *a->prompt);
    a->text = pd_strdup(x->prompt);
    if (!a->prompt || !a->text || uv_pipe(a->cancel, 0, 0)) {
        ask_free(a);
        return NULL;
    }
    memset(a->prompt, 0, sizeof *a->prompt);
    a->prompt->text = a->text;
    a->prompt->echo = x->echo;
    a->prompt->cancel_fd = a->cancel[0];
    return a;
}

static void ask_next(struct ssh_secrets *all) {
    while (all->head && !all->asks) {
        struct ssh_secret *x = all->head;
        if (!(all->head = x->next_queued))
            all->tail = NULL;
        struct ask *a = ask_new(x);
        if (!a) {
            refuse(x, "out of memory");
            wait_wake_all(&x->waiters);
            continue;
        }
        a->done.data = a;
        if (watch_signals(a, all->pool->loop)) { /* the loop has no more descriptors: nothing else
                                                    will work, either */
            refuse(x, "cannot ask: out of file descriptors");
            wait_wake_all(&x->waiters);
            a->n_handles = N_SIGNALS;
            all->asks = a;
            ssh_pool_background(all->pool, 1);
            for (int i = 0; i < N_SIGNALS; i++)
                uv_close((uv_handle_t *)&a->signals[i], on_ask_closed);
            return;
        }
        a->n_handles = N_SIGNALS + 1;
        all->asks = a;
        ssh_pool_background(all->pool, 1);
        if (uv_thread_create(&a->thread, on_thread, a)) {
            a->over = 1;
            refuse(x, "cannot start a thread to ask");
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
        refuse(x, "out of memory");
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
    ask_next(all);
}

void ssh_secrets_cancel(struct ssh_secrets *all) {
    for (; all->head; all->head = all->head->next_queued)
        all->head->state = SECRET_NONE;
    all->tail = NULL;
    if (all->asks)
        withdraw(all->asks);
}
