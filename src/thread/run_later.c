/* SPDX-License-Identifier: Apache-2.0 */
/* run_later.c - see run_later.h. */
#include "thread/run_later.h"

#include <pthread.h>

struct work {
    void (*f)(void *);
    void *arg;
};

static void *run(void *p) {
    const struct work w = *(struct work *)p;
    free(p);
    w.f(w.arg);
    return NULL;
}

/* 0: a thread will run f(arg). */
static int start_thread(void (*f)(void *), void *arg) {
    struct work *w =
        malloc(sizeof *w); /* not pd_malloc: without memory f runs at once, which is no failure */
    pthread_t thread;
    sigset_t all, mask;
    if (!w)
        return -1;
    *w = (struct work){f, arg};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    const int rc = pthread_create(&thread, NULL, run, w);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (rc)
        free(w);
    else
        pthread_detach(thread);
    return rc;
}

void pd_run_later(void (*f)(void *), void *arg) {
    if (start_thread(f, arg))
        f(arg);
}
