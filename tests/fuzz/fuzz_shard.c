/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_shard.c - libFuzzer: arbitrary messages of two declared trainers against one server thread's
 * logic, arbitrary declarations against their reader, and arbitrary bytes against the reader of
 * every body: what is accepted must be what the put_ function writes.
 *
 * Each trainer owns four streams. The input is a list of messages: u8 trainer, u8 type, u8 bytes of
 * section 0, u8 keys, u8 floats, then those. Of the byte `trainer`:
 *   - bit 5: the message is well formed, from the put_ functions; the three bytes are its numbers
 *   - bit 6: the connection is lost before the message, and the trainer comes back
 *   - bit 7: another process comes in its place
 * In the first message bits 1 and 2 choose the update rule, bit 3 says that rows of the table come
 * and go, bits 4 and 5 choose what a trainer that is gone means. What a push of rows says of shows
 * and clicks are the floats at its end. Save, commit and load are left out: they are meant to touch
 * the file system.
 */
#include "tests/support/c/ps_frames.h"
#include "tests/support/fuzz/fuzz.h"

static const uint16_t types[] = {
    WIRE_PS_DECLARE,   WIRE_PS_PUSH_DENSE, WIRE_PS_PUSH_ROWS, WIRE_PS_STEP_END, WIRE_PS_PULL_DENSE,
    WIRE_PS_PULL_ROWS, WIRE_PS_PASS_END,   WIRE_PS_REDUCE,    WIRE_PS_BYE,      0x4ff,
    WIRE_PS_TASK,      WIRE_PS_NOTE,       WIRE_PS_DAY_END};

/* The last 8 bytes a key are what was seen of it. */
static struct wire_frame *message(uint16_t type, uint64_t req, const uint8_t *p0, size_t n0,
                                  const uint8_t *p1, size_t n1, const uint8_t *p2, size_t n2) {
    const size_t seen = type == WIRE_PS_PUSH_ROWS && fr_life && n1 <= n2 ? n1 : 0;
    struct wire_frame *f = frame(type, req, p0, n0, p1, n1, p2, n2 - seen);
    return seen ? with_seen(f, p2 + n2 - seen, seen) : f;
}

/* A message that fits, if step and pass do. */
static struct wire_frame *well_formed(uint16_t type, uint32_t t, uint8_t step, uint8_t a,
                                      uint8_t b) {
    static const float values[64] = {1, -2, 0.5f};
    static const double stats[64] = {1, 2};
    static const uint64_t keys[] = {1, 3, 5, 7, 11, 13, 17, 19};
    static const uint32_t seen[16] = {3, 1, 2, 0, 9, 9};
    const uint32_t ids[] = {a % 3, b % 3};
    const size_t n = 1 + b % 8;
    struct wire_frame *f;
    switch (type) {
    case WIRE_PS_PUSH_DENSE:
        return f_push_dense(step, t, a % 2, values, a % 2 ? 3 : FR_VALUES);
    case WIRE_PS_PUSH_ROWS:
        f = f_push_rows(step, t, 0, a % 4, keys, n, values);
        return fr_life ? with_seen(f, seen, n * 8) : f;
    case WIRE_PS_STEP_END:
        return f_step_end(step, t, a, stats, b % 4);
    case WIRE_PS_PULL_DENSE:
        return f_pull_dense(step, b % 3, ids);
    case WIRE_PS_PULL_ROWS:
        return f_pull_rows(step, 0, a & 1, a >> 1 & 3, keys, n);
    case WIRE_PS_PASS_END:
        return f_pass_end(step, a);
    case WIRE_PS_REDUCE:
        return f_reduce(a % 8, stats);
    case WIRE_PS_TASK:
        return FRAME(PS_TASK, task, .epoch = FR_EPOCH, .pass = step, .n_files = 4, .done = a % 5,
                     .own_first = b & 1);
    case WIRE_PS_NOTE:
        return FRAME(PS_NOTE, note, .after = step, .text = (const uint8_t *)"a\nb\nc\nd\n",
                     .n_text = 8);
    case WIRE_PS_DAY_END:
        return FRAME(PS_DAY_END, day_end, .after = step);
    case WIRE_PS_DECLARE:
        return f_declare(2, t);
    default:
        return f_bye();
    }
}

/* --- bodies --- */

#define CHECK(body, label)                                                       \
    static int put_again_##body(const struct ps_body *in, struct ps_body *out) { \
        static struct ps_msg_##body m;                                           \
        const int rc = ps_get_##body(in, &m, NULL);                              \
        if (!rc)                                                                 \
            ps_put_##body(out, &m);                                              \
        return rc;                                                               \
    }
PS_BODIES(CHECK)
static int (*const put_again[])(const struct ps_body *in, struct ps_body *out) = {
#define ROW(body, label) put_again_##body,
    PS_BODIES(ROW)
#undef ROW
};

static void check_body(const uint8_t *data, size_t size) {
    static struct pd_buf head;
    struct ps_body again = {.head = &head};
    uint8_t *copy = aligned_alloc(64, (size + 64) / 64 * 64);
    if (size > 1)
        memcpy(copy, data + 1, size - 1);
    const struct ps_body b = {.n = 1, .sec = {copy}, .len = {size ? size - 1 : 0}};
    if (size && !put_again[data[0] % (sizeof put_again / sizeof put_again[0])](&b, &again) &&
        (again.len[0] != b.len[0] || (b.len[0] && memcmp(again.sec[0], copy, b.len[0]))))
        abort(); /* accepted, but not as it would be written */
    free(copy);
}

FUZZ(in) {
    const uint8_t *data = in->p;
    const size_t size = fuzz_left(in);
    struct recorder r;
    struct ps_declare_sender d;
    struct ps_declaration job;
    char text[300];
    if (!ps_declaration_get(data, size, &d, &job, NULL) && ps_declaration_check(&job, NULL))
        abort(); /* accepted, but out of range */
    ps_declaration_release(&job);
    check_body(data, size);
    fr_width = 4;
    static const char *const rules[] = {"sync", "async", "ssp", "geo"};
    struct pd_row_life life;
    pd_row_life_init(&life);
    life.admit_count = 2;
    life.admit_candidates = 1024;
    life.ageing = 1;
    fr_update = rules[size ? data[0] >> 1 & 3 : 0];
    fr_life = size && data[0] & 8 && strcmp(fr_update, "geo") ? &life
                                                              : NULL; /* under geo there are none */
    fr_on_lost = size ? (enum ps_lost)(data[0] >> 4 & 3) % 3 : PS_LOST_FAIL;
    struct ps_shard *s = rec_shard(&r, 2);
    struct pd_reader rd;
    pd_reader_init(&rd, data, size);
    int gone[2] = {0};
    uint64_t incarnation[2] = {100, 101};
    for (uint32_t t = 0; t < 2; t++)
        if (ps_shard_frame(s, t, "fuzz", f_declare(2, t), NULL))
            abort();
    while (!rd.failed && rd.p < rd.end) {
        uint8_t who = pd_get_u8(&rd);
        uint32_t t = who % 2;
        uint16_t type = types[pd_get_u8(&rd) % (sizeof types / sizeof types[0])];
        const uint8_t a = pd_get_u8(&rd), b = pd_get_u8(&rd), e = pd_get_u8(&rd);
        const int fits = who & 0x20;
        const size_t n0 = fits ? 0 : a, n1 = fits ? 0 : 8 * (size_t)b,
                     n2 = fits ? 0 : 4 * (size_t)e;
        const uint8_t *p0 = pd_get(&rd, n0), *p1 = pd_get(&rd, n1), *p2 = pd_get(&rd, n2);
        if (rd.failed)
            continue;
        struct pd_err err = {0};
        if (who & 0xc0) {
            (void)ps_shard_detach(s, t);
            incarnation[t] += who & 0x80 ? 2 : 0;
            gone[t] =
                ps_shard_frame(s, t, "fuzz", f_declare_again(2, t, incarnation[t], 0), NULL) != 0;
            if (gone[t])
                ps_shard_gone(s, t, NULL, NULL);
        }
        if (gone[t])
            continue;
        struct wire_frame *f =
            fits ? well_formed(type, t, a, b, e)
                 : message(type, n0 % 16 == 15 ? 3 : next_req(), p0, n0, p1, n1, p2, n2);
        if (ps_shard_frame(s, t, "fuzz", f, &err)) {
            ps_shard_gone(s, t, &err, NULL); /* as the server does with a connection that lies */
            gone[t] = 1;
        }
        (void)ps_shard_waiting(s, text, sizeof text);
    }
    ps_shard_free(s);
}
