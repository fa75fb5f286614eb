/* SPDX-License-Identifier: Apache-2.0 */
/* test_net_arena.c - the rooms of an arena of shared memory, and who may open it. */
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "net/shm/arena.h"

static void rooms_come_back_in_order(void **state) {
    (void)state;
    struct net_arena *ours, *theirs, *seen;
    struct net_memory_name name, other;
    uint64_t at[4];
    uint32_t turn[4];
    assert_int_equal(net_arena_new(&ours, &name), 0);
    assert_int_equal(net_arena_new(&theirs, &other), 0);
    assert_int_equal(net_arena_open(&seen, &name), 0);
    const size_t third = (NET_ARENA_BYTES - 4096) / 3 / 64 * 64;
    uint8_t *p = net_arena_take(ours, theirs, 1, &at[0], &turn[0]);
    assert_non_null(p);
    *p = 7;
    assert_int_equal(*net_arena_bytes(seen, at[0], 1), 7);
    net_arena_give_back(theirs, turn[0]);
    for (int i = 0; i < 3; i++)
        assert_non_null(net_arena_take(ours, theirs, third, &at[i], &turn[i]));
    assert_int_equal(at[0], 4096); /* all rooms were free */
    assert_int_equal(at[1], 4096 + third);
    assert_null(net_arena_take(ours, theirs, third, &at[3], &turn[3]));
    net_arena_give_back(theirs, turn[1]); /* after a room that is in use */
    assert_null(net_arena_take(ours, theirs, third, &at[3], &turn[3]));
    net_arena_give_back(theirs, turn[0]);
    assert_non_null(net_arena_take(ours, theirs, 2 * third, &at[3],
                                   &turn[3])); /* the first two rooms, at the beginning */
    assert_int_equal(at[3], 4096);
    assert_null(net_arena_take(ours, theirs, 64, &at[0], &turn[0]));
    net_arena_give_back(theirs, turn[3]);
    net_arena_give_back(theirs, turn[2]);
    assert_null(net_arena_take(ours, theirs, NET_ARENA_BYTES, &at[0], &turn[0]));
    assert_null(net_arena_take(ours, theirs, SIZE_MAX, &at[0], &turn[0]));
    for (int i = 0; i < 256; i++)
        assert_non_null(net_arena_take(ours, theirs, 64, &at[0], &turn[0]));
    assert_null(net_arena_take(ours, theirs, 64, &at[0], &turn[1])); /* the list of rooms is full */
    assert_null(net_arena_bytes(seen, 0, 64));
    assert_null(net_arena_bytes(seen, 4096 + 8, 64));
    assert_null(net_arena_bytes(seen, NET_ARENA_BYTES, 64));
    assert_null(net_arena_bytes(seen, 4096, NET_ARENA_BYTES));
    assert_null(net_arena_bytes(seen, UINT64_MAX - 63, 64));
    net_arena_free(ours);
    net_arena_free(theirs);
    net_arena_free(seen);
}

/* Many rooms of random sizes, given back in random order: no room overlaps a room in use, and their
 * contents stay. */
static void rooms_never_overlap(void **state) {
    (void)state;
    enum { N = 64, ROUNDS = 20000 };
    struct net_arena *ours, *theirs;
    struct net_memory_name name, other;
    struct {
        uint8_t *p;
        size_t n;
        uint32_t turn;
        uint8_t mark;
    } in[N] = {{0}};
    uint64_t random = 88172645463325252u, at;
    int taken = 0;
    assert_int_equal(net_arena_new(&ours, &name), 0);
    assert_int_equal(net_arena_new(&theirs, &other), 0);
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const int k = (int)(random >> 40) % N;
        if (in[k].p) {
            assert_int_equal(in[k].p[0], in[k].mark);
            assert_int_equal(in[k].p[in[k].n - 1], in[k].mark);
            net_arena_give_back(theirs, in[k].turn);
            in[k].p = NULL;
            continue;
        }
        in[k].n = 1 + (size_t)(random >> 20) % (1 << 19);
        if (!(in[k].p = net_arena_take(ours, theirs, in[k].n, &at, &in[k].turn)))
            continue;
        in[k].mark = (uint8_t)i;
        in[k].p[0] = in[k].p[in[k].n - 1] = (uint8_t)i;
        for (int o = 0; o < N; o++)
            if (o != k && in[o].p)
                assert_true(in[o].p + in[o].n <= in[k].p || in[k].p + in[k].n <= in[o].p);
        taken++;
    }
    assert_true(taken > ROUNDS / 4);
    net_arena_free(ours);
    net_arena_free(theirs);
}

/* Where the kernel is short of memory, writing to a room without pages would kill the process by
 * SIGBUS. */
static void rooms_have_memory_before_they_are_written_to(void **state) {
    (void)state;
    struct net_arena *ours, *theirs;
    struct net_memory_name name, other;
    struct stat st;
    uint64_t at;
    uint32_t turn;
    assert_int_equal(net_arena_new(&ours, &name), 0);
    assert_int_equal(net_arena_new(&theirs, &other), 0);
    for (size_t n = 1000; net_arena_take(ours, theirs, n, &at, &turn); n = n * 3 / 2) {
        assert_int_equal(fstat((int)name.fd, &st), 0);
        assert_true((uint64_t)st.st_blocks * 512 >= at + n);
    }
    net_arena_free(ours);
    assert_int_equal(net_arena_new(&ours, &name), 0);
    pd_fault_arm("net.arena:1");
    assert_null(net_arena_take(ours, theirs, 1 << 20, &at, &turn));
    pd_fault_arm(NULL);
    assert_non_null(net_arena_take(ours, theirs, 1 << 20, &at, &turn));
    net_arena_free(ours);
    net_arena_free(theirs);
}

static void only_the_right_memory_is_opened(void **state) {
    (void)state;
    struct net_arena *a, *b = NULL;
    struct net_memory_name name, n;
    assert_int_equal(net_arena_new(&a, &name), 0);
    n = name;
    n.secret[3] ^= 1;
    assert_int_equal(net_arena_open(&b, &n), PD_ENOENT);
    n = name;
    n.bytes /= 2;
    assert_int_equal(net_arena_open(&b, &n), PD_ENOENT);
    n = name;
    n.fd = 1000000;
    assert_int_equal(net_arena_open(&b, &n), PD_ENOENT);
    n = name;
    const int unsealed = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(unsealed, NET_ARENA_BYTES),
                     0); /* not sealed: it could shrink while it is mapped */
    n.fd = (uint32_t)unsealed;
    assert_int_equal(net_arena_open(&b, &n), PD_ENOENT);
    close(unsealed);
    n = name;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    n.fd = (uint32_t)fds[0];
    assert_int_equal(net_arena_open(&b, &n), PD_ENOENT);
    close(fds[0]);
    close(fds[1]);
    net_arena_free(a); /* its descriptor is closed, so the memory can't be found any more */
    assert_int_equal(net_arena_open(&b, &name), PD_ENOENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rooms_come_back_in_order),
        cmocka_unit_test(rooms_never_overlap),
        cmocka_unit_test(rooms_have_memory_before_they_are_written_to),
        cmocka_unit_test(only_the_right_memory_is_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
