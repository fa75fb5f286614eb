/* SPDX-License-Identifier: Apache-2.0 */
/* message.h - the bodies of the parameter-server messages, each defined once.
 *
 *     PS_FIELDS_step_end(F)       the fields of a body in the order of the wire
 *     struct ps_msg_step_end      the same fields as a struct
 *     ps_put_step_end             struct -> section 0 and the other sections
 *     ps_get_step_end             sections -> struct; every bound checked
 *     PS_MESSAGES(M)              the request and the answer of each message
 *
 * Client, shard, tests and fuzzer use only these functions. docs/protocol.md repeats the fields;
 * test_ps_message.c compares both and rejects a PS_ message without bodies. declaration.h explains
 * a declaration.
 *
 * Numbers are little-endian, like the machines that this program supports. Arrays are not copied: a
 * put_ function reads them from the caller's memory, and after a get_ function they point into the
 * sections. After get_, strings point into the struct, so such a struct must not be copied. */
#pragma once

#include "base/row_life.h"
#include "ps/plan/optim_conf.h"
#include "ps/plan/types.h"
#include "wire/frame.h"

/* The sections of one body. */
struct ps_body {
    struct pd_buf *head; /* put_ writes section 0 here; get_ does not use it */
    uint32_t n;          /* number of sections */
    const uint8_t *sec[WIRE_SECTIONS];
    size_t len[WIRE_SECTIONS];
};

static inline struct ps_body ps_body_of(const struct wire_frame *f) {
    struct ps_body b = {.n = f->n_sec};
    for (int i = 0; i < WIRE_SECTIONS; i++) {
        b.sec[i] = f->sec[i];
        b.len[i] = f->len[i];
    }
    return b;
}

#define PS_ANY32 UINT32_MAX
#define PS_ANY64 UINT64_MAX
enum { PS_FOLDER_NAME = 256 /* bytes of a model's name, with the NUL */ };

/* Kinds of fields, F(kind, name, bound):
 *
 *     u32, u64   at most `bound`
 *     f32, f64   any value
 *     zero       u32 0: padding
 *     str        u32 length and bytes; `bound` bytes with the NUL, which is not sent
 *     hash       `bound` bytes
 *     blob       u32 n_name and at most `bound` bytes
 *     f64s, u32s, u8s, segments    an array; the field `bound` has its length
 *     u64_bytes, f64_bytes         the same for arrays that may be unaligned: bytes
 *     rest       n_name times f64 up to the end of section 0, at most `bound`
 *     sums       struct ps_pass_sums
 *     step_parts see struct ps_msg_step_end
 *     list       u32 n_name and as many elements of type `bound`, each written by ps_append_*
 *     keys, floats, words, bytes   all of section `bound`: u64, f32, u32, u8; n_name elements */

/* A parameter's segment in the receiving thread, in a push of dense values. */
struct ps_segment_head {
    uint32_t parameter, zero;
    uint64_t count; /* values; without the padding to a multiple of 16 */
};

/* --- requests --- */

#define PS_FIELDS_dense_entry(F)                                   \
    F(str, name, PS_NAME_MAX + 1)                                  \
    F(u32, n_dims, PS_DIMS_MAX)                                    \
    F(u64_bytes, shape, n_dims)                                    \
    F(f32, mean, 0) /* initial values */                           \
    F(f32, std, 0)  /* below 0: uniform within -std of the mean */ \
    F(f32, lr_factor, 0)                                           \
    F(f32, l1, 0)                                                  \
    F(f32, l2, 0)                                                  \
    F(f32, average, 0) /* share of a step in a running mean; 0: trained */

#define PS_FIELDS_table_entry(F)                                                \
    F(str, name, PS_NAME_MAX + 1)                                               \
    F(u32, dim, PS_ANY32)                                                       \
    F(u64, n_rows, PS_ANY64) /* 0: any 64-bit id */                             \
    F(f32, mean, 0)                                                             \
    F(f32, std, 0)                                                              \
    F(f32, lr_factor, 0)                                                        \
    F(f32, l1, 0)                                                               \
    F(f32, l2, 0)                                                               \
    F(u32, n_life, PD_ROW_LIFE_N) /* 0: rows stay; or PD_ROW_LIFE_N settings */ \
    F(f64_bytes, life, n_life)

#define PS_FIELDS_declare(F)                                                 \
    F(u32, version, PS_ANY32)                                                \
    F(u32, kind, PS_ANY32)   /* enum ps_kind */                              \
    F(u32, thread, PS_ANY32) /* number of the receiver in its kind */        \
    F(u32, stream_lo, PS_ANY32)                                              \
    F(u32, stream_hi, PS_ANY32)                                              \
    F(u32, n_trainers, PS_ANY32)                                             \
    F(u32, n_streams, PS_ANY32)                                              \
    F(u32, n_servers, PS_ANY32)                                              \
    F(u32, n_dense_threads, PS_ANY32)                                        \
    F(u32, n_sparse_threads, PS_ANY32)                                       \
    F(u64, incarnation, PS_ANY64)                                            \
    F(u64, epoch, PS_ANY64) /* 0; a trainer that comes back: the server's */ \
    F(u64, seed, PS_ANY64)                                                   \
    F(str, optimizer, PS_OPTIM_TEXT_MAX)                                     \
    F(str, update, PS_RULE_MAX)                                              \
    F(u32, staleness, PS_ANY32)                                              \
    F(f64, discard_ratio, 0)                                                 \
    F(u32, on_nan, PS_NAN_REFUSE)                                            \
    F(list, dense, dense_entry)                                              \
    F(list, tables, table_entry)

/* Identifies a push: the server's epoch, the trainer's step, its streams [stream_lo, stream_hi). */
#define PS_FIELDS_push_id(F)    \
    F(u64, epoch, PS_ANY64)     \
    F(u64, step, PS_ANY64)      \
    F(u32, stream_lo, PS_ANY32) \
    F(u32, stream_hi, PS_ANY32)

#define PS_FIELDS_push_dense(F)                                                       \
    PS_FIELDS_push_id(F) F(u32, n, PS_ANY32) F(zero, pad, 0) F(segments, segments, n) \
        F(floats, values, 2) /* gradient sums; each segment padded to a multiple of 16 */

#define PS_FIELDS_push_rows(F)                                                          \
    PS_FIELDS_push_id(F) F(u32, table, PS_ANY32)                                        \
        F(u32, list, PS_ANY32) /* number of a key list of a pull; 0: the keys follow */ \
        F(u64, n, UINT32_MAX - 1) F(keys, keys, 1) /* n, ascending; none with a list */ \
        F(floats, values, 2)                       /* n rows */                         \
        F(words, seen, 3) /* table whose rows come and go: n times {shows, clicks} */

/* `words` is f64 stats[n_stats] if n_parts is 0. Otherwise it is n_parts times {u32 stream_lo, u32
 * stream_hi, f64 stats[n_stats]}; see ps_step_part_put and ps_step_part_get. */
#define PS_FIELDS_step_end(F)                                                                     \
    PS_FIELDS_push_id(F) F(u64, n_samples, (UINT64_C(1) << 40) - 1) F(u32, n_stats, PS_STATS_MAX) \
        F(u32, n_parts, PS_PARTS_MAX) F(step_parts, words, 0)

/* `after`: number of steps that must be applied before the answer. */
#define PS_FIELDS_pull_dense(F) \
    F(u64, after, PS_ANY64)     \
    F(u32, n, PS_ANY32)         \
    F(zero, pad, 0)             \
    F(u32s, parameters, n)

#define PS_FIELDS_pull_rows(F)                                                    \
    F(u64, after, PS_ANY64)                                                       \
    F(u32, table, PS_ANY32)                                                       \
    F(u32, create, 1)                                                             \
    F(u32, list, PS_ANY32) /* number that a push gives for these keys; 0: none */ \
    F(zero, pad, 0)                                                               \
    F(u64, n, UINT32_MAX - 1)                                                     \
    F(keys, keys, 1) /* n, ascending */

#define PS_FIELDS_pass_end(F) \
    F(u64, epoch, PS_ANY64)   \
    F(u64, step, PS_ANY64)    \
    F(u64, pass, PS_ANY64)

#define PS_FIELDS_reduce(F)  \
    F(u32, n, PS_REDUCE_MAX) \
    F(zero, pad, 0)          \
    F(f64s, values, n)

/* `tag`: number of this save. PS_COMMIT repeats it. */
#define PS_FIELDS_save(F)                            \
    F(u64, after, PS_ANY64)                          \
    F(u64, tag, PS_ANY64)                            \
    F(str, dir, PATH_MAX)                            \
    F(str, name, PS_FOLDER_NAME)                     \
    F(u32, create_rows, 1)                           \
    F(u32, full, 1) /* with the optimizer's state */ \
    F(u32, chain, PS_CHAIN_DELTA)

#define PS_FIELDS_commit(F)      \
    F(u64, after, PS_ANY64)      \
    F(u64, tag, PS_ANY64)        \
    F(str, dir, PATH_MAX)        \
    F(str, name, PS_FOLDER_NAME) \
    F(bytes, manifest, 1)

#define PS_FIELDS_load(F)            \
    F(u64, after, PS_ANY64)          \
    F(str, folder, PATH_MAX)         \
    F(u32, missing, PS_MISSING_ZERO) \
    F(u32, full, 1)

#define PS_FIELDS_day_end(F) F(u64, after, PS_ANY64)

#define PS_FIELDS_note(F)   \
    F(u64, after, PS_ANY64) \
    F(blob, text, PS_ANY32) /* one line per stream */

#define PS_FIELDS_models(F) \
    F(str, dir, PATH_MAX)   \
    F(str, name, PS_FOLDER_NAME) /* "": all models named pass-* */

#define PS_FIELDS_verify(F)  \
    F(str, folder, PATH_MAX) \
    F(str, file, PS_FILE_MAX + 1) /* "": all parts on this server */

#define PS_FIELDS_read(F)         \
    F(str, folder, PATH_MAX)      \
    F(str, file, PS_FILE_MAX + 1) \
    F(u64, offset, PS_ANY64)      \
    F(u32, n, PS_PIECE)

#define PS_FIELDS_store(F)                               \
    F(str, folder, PATH_MAX)                             \
    F(str, file, PS_FILE_MAX + 1)                        \
    F(u64, offset, PS_ANY64)                             \
    F(u64, size, PS_ANY64) /* bytes of the whole file */ \
    F(bytes, data, 1)

#define PS_FIELDS_remove(F) \
    F(str, dir, PATH_MAX)   \
    F(str, name, PS_FOLDER_NAME)

#define PS_FIELDS_link(F)                \
    F(str, folder, PATH_MAX)             \
    F(str, file, PS_FILE_MAX + 1)        \
    F(str, older, PATH_MAX) /* folder */ \
    F(u64, size, PS_ANY64)               \
    F(hash, hash, 16)

/* `done`: 1 + the number of the trainer's previous file; 0: none. */
#define PS_FIELDS_task(F)         \
    F(u64, epoch, PS_ANY64)       \
    F(u64, pass, PS_ANY64)        \
    F(u64, n_files, PS_TASKS_MAX) \
    F(u64, done, PS_TASKS_MAX)    \
    F(u64, own_first, 1)

#define PS_FIELDS_empty(F)

/* --- answers --- */

#define PS_FIELDS_declared(F)                                                           \
    F(u64, epoch, PS_ANY64)                                                             \
    F(u64, step, PS_ANY64) /* current step of this trainer */                           \
    F(u64, pass, PS_ANY64)                                                              \
    F(u64, last_id, PS_ANY64)    /* id of the last request taken; 0: none */            \
    F(u64, pass_step, PS_ANY64)  /* first step of the pass */                           \
    F(u64, resumed, 1)           /* 1: in the place of a lost process */                \
    F(u64, n_repeated, PS_ANY32) /* reductions of this pass to repeat */                \
    F(u64, pass_ms, PS_ANY64)    /* since the end of this pass's first step; 0: none */ \
    F(u64, last_pass_ms, PS_ANY64)                                                      \
    F(sums, this_pass, 0)                                                               \
    F(sums, last_pass, 0)

#define PS_FIELDS_step_sums(F)  \
    F(u64, step, PS_ANY64)      \
    F(u64, n_samples, PS_ANY64) \
    F(rest, sums, PS_STATS_MAX)

#define PS_FIELDS_pulled(F)               \
    F(u64, applied, PS_ANY64) /* steps */ \
    F(floats, values, 2)      /* the segments, each padded to a multiple of 16; or the rows */

#define PS_FIELDS_pass_ended(F)                                                     \
    F(u64, step, PS_ANY64)                                                          \
    F(u64, pass, PS_ANY64)    /* number of passes ended */                          \
    F(u64, given, PS_ANY64)   /* contributions to this thread, without a barrier */ \
    F(u64, dropped, PS_ANY64) /* contributions dropped as too old */                \
    F(u64, memory, PS_ANY64)  /* most resident memory of the server until now */    \
    F(u32, n_tables, PS_PARAMS_MAX)                                                 \
    F(u64_bytes, rows, n_tables) /* rows of each table in this thread */

#define PS_FIELDS_reduced(F) F(rest, sums, PS_REDUCE_MAX)

#define PS_FIELDS_saved_file(F)   \
    F(str, file, PS_FILE_MAX + 1) \
    F(u64, bytes, PS_ANY64)       \
    F(u64, rows, PS_ANY64)        \
    F(hash, hash, 16)             \
    F(u32, layer, PS_LAYERS_MAX)

#define PS_FIELDS_saved_note(F) \
    F(u32, stream_lo, PS_ANY32) \
    F(u32, stream_hi, PS_ANY32) \
    F(blob, text, PS_ANY32)

#define PS_FIELDS_saved(F)                                               \
    F(list, files, saved_file) /* the highest layer first */             \
    F(u32, n_tables, PS_PARAMS_MAX)                                      \
    F(u64_bytes, rows, n_tables) /* rows of each table in this thread */ \
    F(u64, updates, PS_ANY64)                                            \
    F(u64, samples, PS_ANY64)                                            \
    F(list, notes, saved_note)

#define PS_FIELDS_loaded(F) \
    F(u64, step, PS_ANY64)  \
    F(u64, pass, PS_ANY64)

#define PS_FIELDS_day_ended(F) \
    F(u64, removed, PS_ANY64)  \
    F(u64, rows, PS_ANY64)     \
    F(u64, candidates, PS_ANY64)

#define PS_FIELDS_model_entry(F)            \
    F(str, name, PS_FOLDER_NAME)            \
    F(u64, step, PS_ANY64)                  \
    F(u64, pass, PS_ANY64)                  \
    F(u64, batch, PS_ANY64)                 \
    F(u32, full, 1)                         \
    F(hash, hash, 16) /* of the manifest */ \
    F(u32, n_parts, PS_ANY32)               \
    F(u8s, present, n_parts) /* 1: this server has the part, with the right size */

#define PS_FIELDS_model_list(F) F(list, models, model_entry)

/* The first part that is damaged or missing. Code 0 and message "": all parts are whole. */
#define PS_FIELDS_verified(F) \
    F(u32, code, PS_ANY32)    \
    F(str, message, sizeof((struct pd_err *)0)->msg)

#define PS_FIELDS_piece(F)                               \
    F(u64, size, PS_ANY64) /* bytes of the whole file */ \
    F(bytes, data, 1)

#define PS_FIELDS_linked(F) F(u32, linked, 1)

/* `next`: 1 + the number of this trainer's probable next file; 0: not known. */
#define PS_FIELDS_task_given(F)                                          \
    F(u64, what, PS_TASK_LATER)                                          \
    F(u64, file, PS_TASKS_MAX)                                           \
    F(u64, n_done, PS_TASKS_MAX) /* files read by all trainers */        \
    F(u64, furthest, PS_ANY64)   /* most advanced step of any trainer */ \
    F(u64, next, PS_TASKS_MAX)

/* X(body, label for error messages) */
#define PS_REQUESTS(X)             \
    X(declare, "PS_DECLARE")       \
    X(push_dense, "PS_PUSH_DENSE") \
    X(push_rows, "PS_PUSH_ROWS")   \
    X(step_end, "PS_STEP_END")     \
    X(pull_dense, "PS_PULL_DENSE") \
    X(pull_rows, "PS_PULL_ROWS")   \
    X(pass_end, "PS_PASS_END")     \
    X(reduce, "PS_REDUCE")         \
    X(save, "PS_SAVE")             \
    X(commit, "PS_COMMIT")         \
    X(load, "PS_LOAD")             \
    X(day_end, "PS_DAY_END")       \
    X(note, "PS_NOTE")             \
    X(models, "PS_MODELS")         \
    X(verify, "PS_VERIFY")         \
    X(read, "PS_READ")             \
    X(store, "PS_STORE")           \
    X(remove, "PS_REMOVE")         \
    X(link, "PS_LINK")             \
    X(task, "PS_TASK")             \
    X(empty, "a message without fields")

#define PS_ANSWERS(X)                   \
    X(declared, "a malformed answer")   \
    X(step_sums, "a malformed answer")  \
    X(pulled, "a malformed answer")     \
    X(pass_ended, "a malformed answer") \
    X(reduced, "a malformed answer")    \
    X(saved, "a malformed answer")      \
    X(loaded, "a malformed answer")     \
    X(day_ended, "a malformed answer")  \
    X(model_list, "a malformed answer") \
    X(verified, "a malformed answer")   \
    X(piece, "a malformed answer")      \
    X(linked, "a malformed answer")     \
    X(task_given, "a malformed answer")

#define PS_BODIES(X) PS_REQUESTS(X) PS_ANSWERS(X)

/* Elements of lists. X(element) */
#define PS_ELEMENTS(X) \
    X(dense_entry)     \
    X(table_entry)     \
    X(saved_file)      \
    X(saved_note)      \
    X(model_entry)

/* M(message, request, answer); `none`: no answer. */
#define PS_MESSAGES(M)                   \
    M(PS_DECLARE, declare, declared)     \
    M(PS_PUSH_DENSE, push_dense, none)   \
    M(PS_PUSH_ROWS, push_rows, none)     \
    M(PS_STEP_END, step_end, step_sums)  \
    M(PS_PULL_DENSE, pull_dense, pulled) \
    M(PS_PULL_ROWS, pull_rows, pulled)   \
    M(PS_PASS_END, pass_end, pass_ended) \
    M(PS_REDUCE, reduce, reduced)        \
    M(PS_SAVE, save, saved)              \
    M(PS_COMMIT, commit, empty)          \
    M(PS_LOAD, load, loaded)             \
    M(PS_DAY_END, day_end, day_ended)    \
    M(PS_NOTE, note, none)               \
    M(PS_MODELS, models, model_list)     \
    M(PS_VERIFY, verify, verified)       \
    M(PS_READ, read, piece)              \
    M(PS_STORE, store, empty)            \
    M(PS_REMOVE, remove, empty)          \
    M(PS_LINK, link, linked)             \
    M(PS_BEAT, empty, empty)             \
    M(PS_TASK, task, task_given)         \
    M(PS_BYE, empty, empty)

/* --- the structs --- */

#define PS_MEMBER_u32(name, most) uint32_t name;
#define PS_MEMBER_u64(name, most) uint64_t name;
#define PS_MEMBER_f32(name, x) float name;
#define PS_MEMBER_f64(name, x) double name;
#define PS_MEMBER_zero(name, most)
#define PS_MEMBER_str(name, cap) \
    const char *name;            \
    char name##_text[cap]; /* filled by get_ */
#define PS_MEMBER_hash(name, bytes) uint8_t name[bytes];
#define PS_MEMBER_blob(name, most) \
    const uint8_t *name;           \
    uint32_t n_##name;
#define PS_MEMBER_f64s(name, count) const double *name;
#define PS_MEMBER_u32s(name, count) const uint32_t *name;
#define PS_MEMBER_u8s(name, count) const uint8_t *name;
#define PS_MEMBER_u64_bytes(name, count) const uint8_t *name;
#define PS_MEMBER_f64_bytes(name, count) const uint8_t *name;
#define PS_MEMBER_segments(name, count) const struct ps_segment_head *name;
#define PS_MEMBER_rest(name, most) \
    const double *name;            \
    uint32_t n_##name;
#define PS_MEMBER_sums(name, x) struct ps_pass_sums name;
#define PS_MEMBER_step_parts(name, x) const double *name;
#define PS_MEMBER_list(name, element) \
    const uint8_t *name;              \
    size_t name##_bytes;              \
    uint32_t n_##name;
#define PS_MEMBER_keys(name, section) \
    const uint64_t *name;             \
    size_t n_##name;
#define PS_MEMBER_floats(name, section) \
    const float *name;                  \
    size_t n_##name;
#define PS_MEMBER_words(name, section) \
    const uint32_t *name;              \
    size_t n_##name;
#define PS_MEMBER_bytes(name, section) \
    const uint8_t *name;               \
    size_t n_##name;
#define PS_MEMBER(kind, name, bound) PS_MEMBER_##kind(name, bound)

/* put_ clears b->head, writes section 0 to it and sets all other fields of *b. b->head->failed is
 * set if memory is missing. get_ returns 0, or PD_EPROTO with the name of a field that is cut short
 * or out of bounds. Left-over bytes and sections that the body does not have are errors, too. */
#define PS_DECLARE_BODY(body, label)                                      \
    struct ps_msg_##body {                                                \
        PS_FIELDS_##body(PS_MEMBER)                                       \
    };                                                                    \
    void ps_put_##body(struct ps_body *b, const struct ps_msg_##body *m); \
    int ps_get_##body(const struct ps_body *b, struct ps_msg_##body *m, struct pd_err *err);

/* append_ writes an element of a list. next_ reads an element and returns 0 if it is malformed. A
 * list that get_ has read has n_name well-formed elements. */
#define PS_DECLARE_ELEMENT(element)                                               \
    struct ps_msg_##element {                                                     \
        PS_FIELDS_##element(PS_MEMBER)                                            \
    };                                                                            \
    void ps_append_##element(struct pd_buf *b, const struct ps_msg_##element *m); \
    int ps_next_##element(struct pd_reader *r, struct ps_msg_##element *m);

PS_ELEMENTS(PS_DECLARE_ELEMENT)
PS_BODIES(PS_DECLARE_BODY)

/* A contribution in PS_STEP_END when n_parts > 0: element i of `words`, 1 + n_stats words each.
 * ps_step_part_get points *stats into m->words. */
struct ps_step_part {
    uint32_t stream_lo, stream_hi;
};
void ps_step_part_put(double *words, uint32_t i, uint32_t n_stats, struct ps_step_part part,
                      const double *stats);
struct ps_step_part ps_step_part_get(const struct ps_msg_step_end *m, uint32_t i,
                                     const double **stats);

/* The version field, with which every PS_DECLARE of any version begins; 0: cut short. */
uint32_t ps_get_version(const struct ps_body *b);
/* Reads `after`, the first field of every request that waits for a step. Returns 0, or PD_EPROTO if
 * the body is cut short. */
int ps_get_after(const struct ps_body *b, uint64_t *after);
