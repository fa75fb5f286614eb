/* SPDX-License-Identifier: Apache-2.0 */
/* pack_deploy.h - deploys a random tree from its objects, as one process does, for tests of
 * assembling and of the store. */
#pragma once

#include <sys/wait.h>

#include "pack/store/assemble.h"
#include "tests/support/c/random_tree.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { PACK_SLOW = 1 };
#else
enum { PACK_SLOW = 0 };
#endif

/* A folder in memory if possible, because tens of thousands of small files are slow on some disks.
 */
static char top[PATH_MAX];

static inline uint64_t seed_of(const char *name) {
    const char *s = getenv("PADDLE_TEST_SEED");
    uint64_t seed = s ? strtoull(s, NULL, 10) : 20261122;
    print_message("%s: PADDLE_TEST_SEED=%llu\n", name, (unsigned long long)seed);
    return seed;
}

static inline int make_top(void **state) {
    (void)state;
    snprintf(top, sizeof top, "%s/paddle-assemble-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    return mkdtemp(top) ? 0 : -1;
}

static inline int remove_top(void **state) {
    (void)state;
    pd_fault_arm(NULL);
    return pd_rm_tree(top, NULL);
}

struct made {
    uint64_t bytes, objects; /* bytes and objects that had to come */
    struct assemble_totals t;
};

/* For tests of interruptions: what came stays as a rest, and deploy stops with PD_ECANCELED after
 * so many objects (0: never). */
static struct {
    int keeps_rest;
    uint64_t stop_after;
} deploy_rest;

/* Deploys t as `target`, as one process does. Answers requests for objects in batches, in random
 * order. */
static inline int deploy(struct rt *t, const char *root, const char *target, uint64_t window,
                         struct made *made, struct pd_err *err) {
    struct store *st = NULL;
    struct assemble *a = NULL;
    const struct assemble_opts o = {
        .root = root, .target = target, .window = window, .keeps_rest = deploy_rest.keeps_rest};
    struct object_id ids[64];
    struct made m = {0};
    int rc = store_open(&st, root, err);
    if (!rc)
        rc = assemble_new(&a, st, &o, t->root, t->root_n, err);
    for (int idle = 0; !rc && !assemble_complete(a);) {
        rc = assemble_step(a, 1000, err);
        if (rc < 0)
            break;
        int again = rc;
        rc = 0;
        if (rt_next(t) % 16 == 0)
            assemble_ask_again(a);
        size_t n = assemble_need(a, ids, 1 + rt_next(t) % 64);
        idle = n || again ? 0 : idle + 1;
        if (idle > 3 && !assemble_complete(a))
            rc = pd_fail(err, PD_EFAIL, "it waits and asks for nothing");
        for (size_t i = n; i-- > 0 && !rc;) { /* backwards, because any order is allowed */
            const struct rt_object *ob = rt_find(t, &ids[i]);
            rc = ob ? assemble_put(a, &ids[i], ob->raw, ob->n, err)
                    : pd_fail(err, PD_EFAIL, "it asks for what is in no package");
            m.bytes += ob ? ob->n : 0;
            m.objects++;
            if (!rc && m.objects == deploy_rest.stop_after)
                rc = pd_fail(err, PD_ECANCELED, "stopped");
            if (!rc && m.objects % 7 == 0) { /* a relay can read the object at once */
                static uint8_t buf[OBJECT_MAX];
                uint32_t len;
                if (!assemble_read(a, &ids[i], buf, &len) || len != ob->n ||
                    memcmp(buf, ob->raw, len))
                    rc = pd_fail(err, PD_EFAIL, "an object that came cannot be read");
            }
        }
    }
    if (!rc)
        rc = assemble_finish(a, err);
    for (size_t i = 0; !rc && i < t->n_o; i += 1 + t->n_o / 50) { /* ... and also later */
        static uint8_t buf[OBJECT_MAX];
        uint32_t len;
        if (!assemble_read(a, &t->o[i].id, buf, &len) || len != t->o[i].n ||
            memcmp(buf, t->o[i].raw, len))
            rc = pd_fail(err, PD_EFAIL, "an object of the finished package cannot be read");
    }
    if (a)
        assemble_totals(a, &m.t);
    assemble_free(a);
    store_close(st);
    if (made)
        *made = m;
    return rc;
}

static inline void must_be(const struct rt *t, const char *dir) {
    const char *why = rt_differs(t, dir);
    if (why)
        fail_msg("%s: %s", dir, why);
}

static inline size_t left_over(const char *root) {
    DIR *d = opendir(root);
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strstr(e->d_name, ".part-") != NULL;
    if (d)
        closedir(d);
    return n;
}

/* A child deploys `t` with a fault armed; returns its wait status. */
static inline int in_a_child(struct rt *t, const char *root, const char *target,
                             const char *fault) {
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        struct pd_err err = {0};
        pd_fault_arm(fault);
        int rc = deploy(t, root, target, 300000, NULL, &err);
        _exit(rc ? 1 : 0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        ;
    return status;
}
