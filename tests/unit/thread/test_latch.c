/* SPDX-License-Identifier: Apache-2.0 */
/* test_latch.c - threads that meet often: no thread passes before all have come, whether they spin
 * or sleep. */
#include <setjmp.h>

#include <cmocka.h>
#include <pthread.h>

#include "thread/latch.h"

enum { THREADS = 4, MEETINGS = 500 };

static struct pd_latch gate;
static uint64_t done[THREADS]; /* plain variables: writes before a meeting are visible after it */
static int wrong[THREADS];

struct member {
    pthread_t thread;
    uint32_t index;
};

static void *member(void *arg) {
    const struct member *m = arg;
    struct pd_latch_spin awake = {LATCH_SPIN_NS}, asleep = {0};
    for (uint64_t k = 1; k <= MEETINGS; k++) {
        if (k % 100 == 0 && m->index == k / 100 % THREADS)
            usleep(2000); /* the others stop spinning */
        done[m->index] = k;
        pd_latch_add(&gate, 1);
        pd_latch_wait(&gate, (2 * k - 1) * THREADS, k % 2 ? &awake : &asleep);
        for (uint32_t i = 0; i < THREADS; i++)
            wrong[m->index] += done[i] != k;
        pd_latch_add(&gate, 1); /* all have checked */
        pd_latch_wait(&gate, 2 * k * THREADS, &awake);
        if (k % 10 == 0)
            asleep.ns = 0;
    }
    return NULL;
}

static void nobody_goes_on_before_all_have_come(void **state) {
    (void)state;
    struct member m[THREADS];
    pd_latch_init(&gate);
    for (uint32_t i = 0; i < THREADS; i++) {
        m[i].index = i;
        assert_int_equal(pthread_create(&m[i].thread, NULL, member, &m[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(m[i].thread, NULL), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(wrong[i], 0);
    pd_latch_destroy(&gate);
}

/* Opens the latch some time after the other thread has gone to sleep. */
static void *open_it(void *arg) {
    struct pd_latch *g = arg;
    for (int asleep = 0; !asleep;) {
        usleep(1000);
        pthread_mutex_lock(&g->lock);
        asleep = g->wanted != UINT64_MAX;
        pthread_mutex_unlock(&g->lock);
    }
    usleep(1000);
    pd_latch_add(g, 5);
    return NULL;
}

/* Waits that are much too long for spinning: soon the thread sleeps at once. */
static void long_waits_stop_the_spinning(void **state) {
    (void)state;
    struct pd_latch_spin p = {LATCH_SPIN_NS};
    pd_latch_init(&gate);
    for (uint64_t k = 1; k <= 4; k++) {
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, open_it, &gate), 0);
        pd_latch_wait(&gate, 5 * k, &p);
        assert_int_equal(pthread_join(t, NULL), 0);
        assert_int_equal(p.ns, LATCH_SPIN_NS >> k);
    }
    pd_latch_wait(&gate, 20, &p); /* already reached */
    assert_int_equal(p.ns, LATCH_SPIN_NS >> 4);
    pd_latch_destroy(&gate);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_goes_on_before_all_have_come),
        cmocka_unit_test(long_waits_stop_the_spinning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
