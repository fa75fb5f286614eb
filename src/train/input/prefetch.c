/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch.c - see prefetch.h. */
#include "train/input/prefetch.h"

#include <pthread.h>

struct train_prefetch {
    uint32_t n;
    int (*fill)(void *arg, uint32_t i);
    void *arg;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t made, taken; /* items; taken: taken and given back */
    int running, busy, ended, quit;
};

static void *run(void *arg) {
    struct train_prefetch *a = arg;
    pthread_mutex_lock(&a->mutex);
    while (!a->quit) {
        if (!a->running || a->ended || a->made - a->taken == a->n) {
            pthread_cond_wait(&a->changed, &a->mutex);
            continue;
        }
        uint32_t i = (uint32_t)(a->made % a->n);
        a->busy = 1;
        pthread_mutex_unlock(&a->mutex);
        int more = a->fill(a->arg, i);
        pthread_mutex_lock(&a->mutex);
        a->busy = 0;
        a->made++;
        a->ended = !more;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->mutex);
    return NULL;
}

int train_prefetch_new(struct train_prefetch **out, uint32_t n, int (*fill)(void *arg, uint32_t i),
                       void *arg, struct pd_err *err) {
    struct train_prefetch *a = pd_calloc(1, sizeof *a);
    sigset_t all, before;
    if (!a)
        return pd_oom(err, "batches");
    a->n = n;
    a->fill = fill;
    a->arg = arg;
    pthread_mutex_init(&a->mutex, NULL);
    pthread_cond_init(&a->changed, NULL);
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&a->thread, NULL, run, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        pthread_cond_destroy(&a->changed);
        pthread_mutex_destroy(&a->mutex);
        free(a);
        return pd_fail_errno(err, PD_EFAIL, rc, "cannot start a thread that reads ahead");
    }
    *out = a;
    return 0;
}

void train_prefetch_free(struct train_prefetch *a) {
    if (!a)
        return;
    pthread_mutex_lock(&a->mutex);
    a->quit = 1;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->mutex);
    pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->mutex);
    free(a);
}

uint32_t train_prefetch_take(struct train_prefetch *a) {
    pthread_mutex_lock(&a->mutex);
    if (!a->running) {
        a->running = 1;
        pthread_cond_broadcast(&a->changed);
    }
    while (a->made == a->taken)
        pthread_cond_wait(&a->changed, &a->mutex);
    uint32_t i = (uint32_t)(a->taken % a->n);
    pthread_mutex_unlock(&a->mutex);
    return i;
}

void train_prefetch_give(struct train_prefetch *a) {
    pthread_mutex_lock(&a->mutex);
    a->taken++;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->mutex);
}

void train_prefetch_stop(struct train_prefetch *a) {
    pthread_mutex_lock(&a->mutex);
    a->running = 0;
    while (a->busy)
        pthread_cond_wait(&a->changed, &a->mutex);
    a->made = a->taken = 0;
    a->ended = 0;
    pthread_mutex_unlock(&a->mutex);
}
