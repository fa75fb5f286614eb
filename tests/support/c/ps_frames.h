/* SPDX-License-Identifier: Apache-2.0 */
/* ps_frames.h - parameter-server messages built by hand, and a shard whose answers are recorded.
 * For the fuzzer and for tests that use a shard without sockets. */
#pragma once

#include "ps/plan/message.h"
#include "ps/plan/sum_tree.h"
#include "ps/shard/shard.h"
#include "ps/shard/shard.h"
#include "wire/msg.h"

enum { FR_DIM = 4, FR_VALUES = 40, FR_EPOCH = 7 };
static uint32_t fr_width = 1; /* streams that each trainer owns */
static const char *fr_update = "sync";
static enum ps_lost fr_on_lost;
static const struct pd_row_life *fr_life; /* of the declared table */
static const struct ps_folders *fr_folders;
static const char *fr_output; /* path of the folder "output" */

/* Request ids must grow, because a lower id counts as a repeated request. */
static inline uint64_t next_req(void) {
    static uint64_t last;
    return ++last;
}

/* A frame like the decoder's: one block of memory with aligned sections. */
static inline struct wire_frame *frame_of_body(uint16_t type, uint64_t req,
                                               const struct ps_body *b) {
    size_t at = 0, room = 0;
    for (uint32_t i = 0; i < b->n; i++)
        room += b->len[i] + wire_pad(b->len[i]);
    uint8_t *mem = aligned_alloc(64, 192 + room);
    struct wire_frame *f = (struct wire_frame *)(void *)mem;
    *f = (struct wire_frame){.type = type, .req = req, .n_sec = b->n, .data = mem + 192};
    for (uint32_t i = 0; i < b->n; i++) {
        f->sec[i] = f->data + at;
        f->len[i] = b->len[i];
        if (b->len[i])
            memcpy(f->data + at, b->sec[i], b->len[i]);
        at += b->len[i] + wire_pad(b->len[i]);
    }
    return f;
}

/* A frame of any content. */
static inline struct wire_frame *frame(uint16_t type, uint64_t req, const void *s0, size_t n0,
                                       const void *s1, size_t n1, const void *s2, size_t n2) {
    const struct ps_body b = {.n = 3, .sec = {s0, s1, s2}, .len = {n0, n1, n2}};
    return frame_of_body(type, req, &b);
}

/* The frame of a message: FRAME(PS_STEP_END, step_end, .step = 1, ...). */
#define FRAME_AS(type, id, body, ...)                                    \
    ({                                                                   \
        const struct ps_msg_##body fr_m = {__VA_ARGS__};                 \
        struct pd_buf fr_head;                                           \
        pd_buf_init(&fr_head);                                           \
        struct ps_body fr_b = {.head = &fr_head};                        \
        ps_put_##body(&fr_b, &fr_m);                                     \
        struct wire_frame *fr_f = frame_of_body(WIRE_##type, id, &fr_b); \
        pd_buf_release(&fr_head);                                        \
        fr_f;                                                            \
    })
#define FRAME(type, body, ...) FRAME_AS(type, next_req(), body, __VA_ARGS__)

static inline struct wire_frame *frame_of(uint16_t type, uint64_t req, const struct pd_buf *b) {
    return frame(type, req, b->data, b->len, NULL, 0, NULL, 0);
}

/* Declares two dense parameters (of FR_VALUES values and of 3) and one table, all in one thread. */
static inline struct wire_frame *f_declare_full(uint32_t n_trainers, uint32_t id,
                                                const char *optimizer, const char *update,
                                                uint64_t incarnation, uint64_t epoch) {
    struct ps_declaration job;
    struct pd_err err = {0};
    struct ps_declare_sender d = {.kind = PS_KIND_BOTH,
                                  .stream_lo = id * fr_width,
                                  .stream_hi = (id + 1) * fr_width,
                                  .incarnation = incarnation,
                                  .epoch = epoch};
    struct pd_buf b;
    struct ps_dense_spec w = {
        .name = "w", .n_dims = 1, .shape = {FR_VALUES}, .init_std = 1, .lr_factor = 1, .l2 = 0.01f};
    struct ps_dense_spec v = {.name = "v", .n_dims = 1, .shape = {3}, .lr_factor = 1};
    struct ps_table_spec t = {
        .name = "t", .dim = FR_DIM, .n_rows = 20, .init_std = 1, .lr_factor = 1, .life = fr_life};
    ps_declaration_init(&job);
    job.n_trainers = n_trainers;
    job.n_streams = n_trainers * fr_width;
    job.n_servers = job.n_dense_threads = job.n_sparse_threads = 1;
    job.seed = 9;
    ps_optim_conf_init(&job.optim, optimizer, &err);
    job.optim.learning_rate = 0.1;
    job.on_nan = PS_NAN_STOP;
    pd_fmt(job.update, sizeof job.update, "%s", update);
    job.staleness = 2;
    job.discard_ratio = 1.5;
    ps_declaration_add_dense(&job, &w, &err);
    ps_declaration_add_dense(&job, &v, &err);
    ps_declaration_add_table(&job, &t, &err);
    pd_buf_init(&b);
    ps_declaration_put(&b, &d, &job);
    ps_declaration_release(&job);
    struct wire_frame *f = frame_of(WIRE_PS_DECLARE, next_req(), &b);
    pd_buf_release(&b);
    return f;
}

/* The fields of a push that name trainer `id` and the step. */
#define PUSH_OF(id, s) \
    .epoch = FR_EPOCH, .step = (s), .stream_lo = (id)*fr_width, .stream_hi = ((id) + 1) * fr_width

/* Changes a push into one of streams [lo, hi). */
static inline struct wire_frame *of_streams(struct wire_frame *f, uint32_t lo, uint32_t hi) {
    const uint32_t r[] = {lo, hi};
    memcpy(f->data + 16, r, sizeof r); /* after epoch and step in section 0, the first section */
    return f;
}

static inline struct wire_frame *f_declare_as(uint32_t n_trainers, uint32_t id,
                                              const char *optimizer, const char *update) {
    return f_declare_full(n_trainers, id, optimizer, update, id + 100, 0);
}

/* The same trainer, on another connection. */
static inline struct wire_frame *f_declare_again(uint32_t n_trainers, uint32_t id,
                                                 uint64_t incarnation, uint64_t epoch) {
    return f_declare_full(n_trainers, id, "adagrad", fr_update, incarnation, epoch);
}

static inline struct wire_frame *f_declare(uint32_t n_trainers, uint32_t id) {
    return f_declare_as(n_trainers, id, "adagrad", fr_update);
}

static inline struct wire_frame *f_push_dense(uint64_t step, uint32_t id, uint32_t param,
                                              const float *g, size_t n) {
    const struct ps_segment_head segment = {.parameter = param, .count = n};
    return FRAME(PS_PUSH_DENSE, push_dense, PUSH_OF(id, step), .n = 1, .segments = &segment,
                 .values = g, .n_values = n);
}

static inline struct wire_frame *f_push_rows(uint64_t step, uint32_t id, uint32_t table,
                                             uint32_t list, const uint64_t *keys, size_t n,
                                             const float *g) {
    return FRAME(PS_PUSH_ROWS, push_rows, PUSH_OF(id, step), .table = table, .list = list, .n = n,
                 .keys = keys, .n_keys = list ? 0 : n, .values = g, .n_values = n * FR_DIM);
}

/* Appends the `seen` section data to a push, after the rows. */
static inline struct wire_frame *with_seen(struct wire_frame *f, const void *seen, size_t bytes) {
    size_t at = f->len[2] + wire_pad(f->len[2]);
    uint8_t *both = calloc(1, at + bytes + 1);
    memcpy(both, f->sec[2], f->len[2]);
    if (bytes)
        memcpy(both + at, seen, bytes);
    struct wire_frame *more =
        frame(f->type, f->req, f->sec[0], f->len[0], f->sec[1], f->len[1], both, at + bytes);
    more->len[2] = f->len[2];
    more->n_sec = 4;
    more->sec[3] = more->sec[2] + at;
    more->len[3] = bytes;
    free(both);
    wire_frame_free(f);
    return more;
}

static inline struct wire_frame *f_step_end(uint64_t step, uint32_t id, uint64_t samples,
                                            const double *stats, uint32_t n) {
    return FRAME(PS_STEP_END, step_end, PUSH_OF(id, step), .n_samples = samples, .n_stats = n,
                 .words = stats);
}

/* The same with the numbers of several contributions: v[i] belongs to streams [r[i].lo, r[i].hi).
 */
static inline struct wire_frame *f_step_end_parts(uint64_t step, uint32_t id, uint64_t samples,
                                                  const struct ps_range *r, const double *v,
                                                  uint32_t parts) {
    double *words = malloc(2 * (parts + 1) * sizeof *words);
    for (uint32_t i = 0; i < parts; i++)
        ps_step_part_put(words, i, 1, (struct ps_step_part){r[i].lo, r[i].hi}, &v[i]);
    struct wire_frame *f = FRAME(PS_STEP_END, step_end, PUSH_OF(id, step), .n_samples = samples,
                                 .n_stats = 1, .n_parts = parts, .words = words);
    free(words);
    return f;
}

static inline struct wire_frame *f_pull_dense(uint64_t after, uint32_t n, const uint32_t *ids) {
    return FRAME(PS_PULL_DENSE, pull_dense, .after = after, .n = n, .parameters = ids);
}

static inline struct wire_frame *f_pull_rows(uint64_t after, uint32_t table, uint32_t create,
                                             uint32_t list, const uint64_t *keys, size_t n) {
    return FRAME(PS_PULL_ROWS, pull_rows, .after = after, .table = table, .create = create,
                 .list = list, .n = n, .keys = keys, .n_keys = n);
}

static inline struct wire_frame *f_pass_end(uint64_t step, uint64_t pass) {
    return FRAME(PS_PASS_END, pass_end, .epoch = FR_EPOCH, .step = step, .pass = pass);
}

static inline struct wire_frame *f_reduce(uint32_t n, const double *v) {
    return FRAME(PS_REDUCE, reduce, .n = n, .values = v);
}

static inline struct wire_frame *f_bye(void) { return FRAME(PS_BYE, empty); }

/* --- the shard's answers --- */

struct recorder {
    struct recorded {
        uint32_t trainer;
        uint16_t type;
        uint8_t head[256];
        size_t n_head, n_values;
        float values[256];
    } a[64];
    int n_answers, n_fails;
    struct pd_err last_fail;
};

static inline void rec_answer(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                              const struct iovec *sec, uint32_t n_sec, void (*release)(void *),
                              void *release_arg) {
    struct recorder *r = arg;
    (void)req;
    struct recorded *a = &r->a[r->n_answers % 64];
    r->n_answers++;
    *a = (struct recorded){.trainer = trainer, .type = type};
    if (n_sec && sec[0].iov_len) {
        a->n_head = sec[0].iov_len < sizeof a->head ? sec[0].iov_len : sizeof a->head;
        memcpy(a->head, sec[0].iov_base, a->n_head);
    }
    if (n_sec > 2 && sec[2].iov_len) {
        a->n_values = sec[2].iov_len / sizeof(float) < 256 ? sec[2].iov_len / sizeof(float) : 256;
        memcpy(a->values, sec[2].iov_base, a->n_values * sizeof(float));
    }
    if (release)
        release(release_arg);
}

static inline void rec_fail(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                            const struct pd_err *why) {
    struct recorder *r = arg;
    (void)trainer;
    (void)type;
    (void)req;
    r->n_fails++;
    r->last_fail = *why;
}

/* NULL: saves complete at once. */
static int (*fr_save)(void *arg, struct ps_saving *j, struct pd_err *err);

static int fr_congested; /* 1: every member counts as congested */

static inline int rec_congested(void *arg, uint32_t trainer) {
    (void)arg;
    (void)trainer;
    return fr_congested;
}

static inline struct ps_shard *rec_shard(struct recorder *r, uint32_t n_trainers) {
    const struct ps_shard_ops ops = {
        .answer = rec_answer, .fail = rec_fail, .save = fr_save, .congested = rec_congested};
    struct ps_shard_opts o = {.kind = PS_KIND_BOTH,
                              .n_trainers = n_trainers,
                              .epoch = FR_EPOCH,
                              .on_lost = fr_on_lost,
                              .output_dir = fr_output,
                              .folders = fr_folders};
    struct ps_shard *s = NULL;
    memset(r, 0, sizeof *r);
    return ps_shard_new(&s, &o, &ops, r) ? NULL : s;
}
