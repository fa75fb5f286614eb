/* SPDX-License-Identifier: Apache-2.0 */
/* scan_env.h - a separate folder with files for each test that scans a tree. */
#pragma once

#include "math/hash.h"
#include "pack/scan/scan.h"

/* A test's folder; the tree is its subfolder `src`. */
struct env {
    char dir[64], src[128];
};

static inline int setup(void **state) {
    struct env *e = calloc(1, sizeof *e);
    pd_fmt(e->dir, sizeof e->dir, "/tmp/scan-test-XXXXXX");
    assert_non_null(mkdtemp(e->dir));
    snprintf(e->src, sizeof e->src, "%s/src", e->dir);
    assert_int_equal(mkdir(e->src, 0755), 0);
    *state = e;
    return 0;
}

static inline int teardown(void **state) {
    struct env *e = *state;
    pd_fault_arm(NULL);
    pd_rm_tree(e->dir, NULL);
    free(e);
    return 0;
}

static inline int run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline int run(const char *fmt, ...) {
    char cmd[1000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(cmd, sizeof cmd, fmt, ap);
    va_end(ap);
    return system(cmd);
}

static inline void put_bytes(const struct env *e, const char *name, uint64_t seed, size_t n) {
    char p[400];
    snprintf(p, sizeof p, "%s/%s", e->src, name);
    uint8_t *b = malloc(n + 8);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = pd_mix64(seed * 1000003 + i + 1);
        memcpy(b + i, &v, 8);
    }
    struct pd_err err = {0};
    if (pd_write_file_atomic(p, b, n, 0644, &err))
        fail_msg("%s", err.msg);
    free(b);
}

static inline struct scan *scanned(const char *path) {
    struct scan *s = NULL;
    struct pd_err err = {0};
    if (scan_new(&s, path, SCAN_IGNORED, &err) || scan_run(s, &err))
        fail_msg("%s: %s", path, err.msg);
    return s;
}
