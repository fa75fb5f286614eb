/* SPDX-License-Identifier: Apache-2.0 */
/* hash_pipeline.c - see hash_pipeline.h. A ring of batches; the thread is started when it is first
 * needed. */
#include "pack/object/hash_pipeline.h"

#include <pthread.h>

enum { BATCHES = 3 };

struct hash_pipeline {
    struct hash_batch batch[BATCHES];
    uint64_t put, hashed, taken; /* batches, since the beginning */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    int has_thread, quit;
};

static struct hash_batch *nth(struct hash_pipeline *l, uint64_t i) {
    return &l->batch[i % BATCHES];
}

static void hash(struct hash_batch *b) { object_ids_of(b->id, b->cut, b->n); }

static void *run(void *arg) {
    struct hash_pipeline *l = arg;
    pthread_mutex_lock(&l->mutex);
    while (!l->quit) {
        if (l->hashed == l->put) {
            pthread_cond_wait(&l->changed, &l->mutex);
            continue;
        }
        struct hash_batch *b = nth(l, l->hashed);
        pthread_mutex_unlock(&l->mutex);
        hash(b);
        pthread_mutex_lock(&l->mutex);
        l->hashed++;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

struct hash_pipeline *hash_pipeline_new(void) {
    struct hash_pipeline *l = pd_calloc(1, sizeof *l);
    if (!l)
        return NULL;
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->changed, NULL);
    for (int i = 0; i < BATCHES; i++)
        if (!(l->batch[i].buf = pd_malloc(HASH_BUFFER))) {
            hash_pipeline_free(l);
            return NULL;
        }
    return l;
}

void hash_pipeline_free(struct hash_pipeline *l) {
    if (!l)
        return;
    if (l->has_thread) {
        pthread_mutex_lock(&l->mutex);
        l->quit = 1;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->mutex);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    for (int i = 0; i < BATCHES; i++)
        free(l->batch[i].buf);
    free(l);
}

struct hash_batch *hash_pipeline_empty(struct hash_pipeline *l) {
    return l->put - l->taken == BATCHES ? NULL : nth(l, l->put);
}

/* 0: no thread could be started; the caller hashes. */
static int start_thread(struct hash_pipeline *l) {
    sigset_t all, before;
    if (l->has_thread)
        return 1;
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    l->has_thread = !pthread_create(&l->thread, NULL, run, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return l->has_thread;
}

/* The batch is hashed here only if no earlier batch is in the pipeline: the order must be kept. */
void hash_pipeline_put(struct hash_pipeline *l, int here) {
    if ((here && l->put == l->taken) || !start_thread(l)) {
        hash(nth(l, l->put));
        pthread_mutex_lock(&l->mutex);
        l->put++;
        l->hashed++;
    } else {
        pthread_mutex_lock(&l->mutex);
        l->put++;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->mutex);
}

const struct hash_batch *hash_pipeline_take(struct hash_pipeline *l) {
    if (l->taken == l->put)
        return NULL;
    pthread_mutex_lock(&l->mutex);
    while (l->hashed == l->taken)
        pthread_cond_wait(&l->changed, &l->mutex);
    pthread_mutex_unlock(&l->mutex);
    return nth(l, l->taken++);
}
