/* test_launch_transport.c - the queue of unsent bytes that all transports share. */
#include <setjmp.h>

#include <cmocka.h>

#include "launcher/transport/transport.h"

static uint8_t at(size_t i) { return (uint8_t)(i * 31 + i / 256); }

static void push(struct transport *t, size_t from, size_t n) {
    uint8_t *p = malloc(n);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = at(from + i);
    assert_int_equal(transport_push(t, p, n), 0);
    free(p);
}

static void pop(struct transport *t, size_t from, size_t n) {
    for (size_t i = 0; i < n; i++)
        assert_int_equal(t->queue.data[t->queue_off + i], at(from + i));
    transport_pop(t, n);
}

/* A worker of 600 KB is sent to each of thousands of hosts. Its buffer must not be kept for each
 * host. */
static void a_long_queue_gives_its_memory_back(void **state) {
    struct transport t;
    (void)state;
    transport_init(&t, NULL, NULL);
    for (int round = 0; round < 3; round++) {
        push(&t, 0, 600000);
        pop(&t, 0, 200000);
        push(&t, 600000, 1000);
        pop(&t, 200000, 401000);
        assert_int_equal(transport_queued(&t), 0);
        assert_true(t.queue.cap <= TRANSPORT_KEEP);
        push(&t, 7, 100); /* short queues keep their buffer */
        pop(&t, 7, 100);
        assert_int_equal(transport_queued(&t), 0);
    }
    transport_release(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_long_queue_gives_its_memory_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
