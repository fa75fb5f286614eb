/* fuzz_shard.c - libFuzzer: arbitrary messages of two declared trainers against one server thread's logic, and arbitrary
 * declarations against their reader.
 *
 * Each trainer owns four streams. The input is a list of messages: u8 trainer, u8 type, u8 bytes of section 0, u8 keys,
 * u8 floats, then those. Of the byte `trainer`, bit 6 says that its connection is lost before the message, and that it comes back, bit 7 that
 * another process does; in the first message bits 4 and 5 choose what a trainer that is gone means, bits 1 and 2 the update rule, bit 3 says that rows of
 * the table come and go; what a push of rows says of shows and clicks are the floats at the end of it. Save, commit and load are left out: they are meant to touch the file system.
 */
#include "tests/support/ps_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint16_t types[] = {WIRE_PS_DECLARE,    WIRE_PS_PUSH_DENSE, WIRE_PS_PUSH_ROWS, WIRE_PS_STEP_END, WIRE_PS_PULL_DENSE,
                                 WIRE_PS_PULL_ROWS,  WIRE_PS_PASS_END,   WIRE_PS_REDUCE,    WIRE_PS_BYE,      0x4ff,
                                 WIRE_PS_TASK,       WIRE_PS_NOTE,       WIRE_PS_DAY_END};

/* The last 8 bytes a key are what was seen of it. */
static struct wire_frame *message(uint16_t type, uint64_t req, const uint8_t *p0, size_t n0, const uint8_t *p1, size_t n1, const uint8_t *p2,
                                  size_t n2) {
    const size_t seen = type == WIRE_PS_PUSH_ROWS && fr_life && n1 <= n2 ? n1 : 0;
    struct wire_frame *f = frame(type, req, p0, n0, p1, n1, p2, n2 - seen);
    return seen ? with_seen(f, p2 + n2 - seen, seen) : f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct recorder r;
    struct ps_declare d;
    struct ps_job job;
    char text[300];
    if (!ps_job_get(data, size, &d, &job, NULL) && ps_job_check(&job, NULL))
        abort(); /* accepted, but out of range */
    ps_job_release(&job);
    fr_width = 4;
    static const char *const rules[] = {"sync", "async", "ssp", "geo"};
    struct pd_row_life life;
    pd_row_life_init(&life);
    life.admit_count = 2;
    life.admit_candidates = 1024;
    life.ageing = 1;
    fr_update = rules[size ? data[0] >> 1 & 3 : 0];
    fr_life = size && data[0] & 8 && strcmp(fr_update, "geo") ? &life : NULL; /* under geo there are none */
    fr_on_lost = size ? (enum ps_lost)(data[0] >> 4 & 3) % 3 : PS_LOST_FAIL;
    struct ps_shard *s = rec_shard(&r, 2);
    struct pd_rd rd;
    pd_rd_init(&rd, data, size);
    int gone[2] = {0};
    uint64_t incarnation[2] = {100, 101};
    for (uint32_t t = 0; t < 2; t++)
        if (ps_shard_frame(s, t, "fuzz", f_declare(2, t), NULL))
            abort();
    while (!rd.failed && rd.p < rd.end) {
        uint8_t who = pd_get_u8(&rd);
        uint32_t t = who % 2;
        uint16_t type = types[pd_get_u8(&rd) % (sizeof types / sizeof types[0])];
        size_t n0 = pd_get_u8(&rd), n1 = 8 * (size_t)pd_get_u8(&rd), n2 = 4 * (size_t)pd_get_u8(&rd);
        const uint8_t *p0 = pd_get(&rd, n0), *p1 = pd_get(&rd, n1), *p2 = pd_get(&rd, n2);
        if (rd.failed)
            continue;
        struct pd_err err = {0};
        if (who & 0xc0) {
            (void)ps_shard_detach(s, t);
            incarnation[t] += who & 0x80 ? 2 : 0;
            gone[t] = ps_shard_frame(s, t, "fuzz", f_declare_again(2, t, incarnation[t], 0), NULL) != 0;
            if (gone[t])
                ps_shard_gone(s, t, NULL, NULL);
        }
        if (gone[t])
            continue;
        if (ps_shard_frame(s, t, "fuzz", message(type, n0 % 16 == 15 ? 3 : next_req(), p0, n0, p1, n1, p2, n2), &err)) {
            ps_shard_gone(s, t, &err, NULL); /* as the server does with a connection that lies */
            gone[t] = 1;
        }
        (void)ps_shard_waiting(s, text, sizeof text);
    }
    ps_shard_free(s);
    return 0;
}
