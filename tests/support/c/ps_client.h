/* SPDX-License-Identifier: Apache-2.0 */
/* ps_client.h - a client of the servers of ps_cluster.h with one parameter, for tests of failures.
 */
#pragma once

#include "tests/support/c/ps_cluster.h"

static inline void assert_contains(const char *text, const char *want) {
    if (!strstr(text, want))
        fail_msg("'%s' does not contain '%s'", text, want);
}

static inline struct ps_client *new_client(const char *servers, uint32_t id, uint32_t n,
                                           const uint8_t *key, uint64_t timeout_ms) {
    struct ps_client *c = NULL;
    struct pd_err err = {0};
    struct ps_client_opts o = {.pservers = servers,
                               .trainer_id = id,
                               .n_trainers = n,
                               .optimizer = {"sgd", 0.1, 0},
                               .job = "J",
                               .key = key,
                               .plain = cluster_plain,
                               .connect_timeout_ms = timeout_ms};
    if (ps_client_new(&c, &o, &err))
        fail_msg("%s", err.msg);
    return c;
}

static inline int declare_w(struct ps_client *c, uint64_t n, float l2) {
    struct ps_dense_spec s = {
        .name = "hidden.w", .n_dims = 2, .shape = {2, n}, .lr_factor = 1, .l2 = l2};
    return ps_declare_dense(c, &s);
}
