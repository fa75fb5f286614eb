/* fuzz_shard.c - libFuzzer: arbitrary messages of two declared trainers against one server thread's logic, and arbitrary
 * declarations against their reader.
 *
 * Each trainer owns four streams. The input is a list of messages: u8 trainer, u8 type, u8 bytes of section 0, u8 keys,
 * u8 floats, then those. Save, commit and load are left out: they are meant to touch the file system.
 */
#include "tests/support/ps_frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint16_t types[] = {WIRE_PS_DECLARE,    WIRE_PS_PUSH_DENSE, WIRE_PS_PUSH_ROWS, WIRE_PS_STEP_END, WIRE_PS_PULL_DENSE,
                                 WIRE_PS_PULL_ROWS,  WIRE_PS_PASS_END,   WIRE_PS_REDUCE,    WIRE_PS_BYE,      0x4ff};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct recorder r;
    struct ps_declare d;
    struct ps_job job;
    char text[300];
    if (!ps_job_get(data, size, &d, &job, NULL) && ps_job_check(&job, NULL))
        abort(); /* accepted, but out of range */
    ps_job_release(&job);
    fr_width = 4;
    struct ps_shard *s = rec_shard(&r, 2);
    struct pd_rd rd;
    pd_rd_init(&rd, data, size);
    int gone[2] = {0};
    for (uint32_t t = 0; t < 2; t++)
        if (ps_shard_frame(s, t, "fuzz", f_declare(2, t), NULL))
            abort();
    while (!rd.failed && rd.p < rd.end) {
        uint32_t t = pd_get_u8(&rd) % 2;
        uint16_t type = types[pd_get_u8(&rd) % (sizeof types / sizeof types[0])];
        size_t n0 = pd_get_u8(&rd), n1 = 8 * (size_t)pd_get_u8(&rd), n2 = 4 * (size_t)pd_get_u8(&rd);
        const uint8_t *p0 = pd_get(&rd, n0), *p1 = pd_get(&rd, n1), *p2 = pd_get(&rd, n2);
        if (rd.failed || gone[t])
            continue;
        struct pd_err err = {0};
        if (ps_shard_frame(s, t, "fuzz", frame(type, n0 % 16 == 15 ? 3 : next_req(), p0, n0, p1, n1, p2, n2), &err)) {
            ps_shard_gone(s, t, &err, NULL); /* as the server does with a connection that lies */
            gone[t] = 1;
        }
        (void)ps_shard_waiting(s, text, sizeof text);
    }
    ps_shard_free(s);
    return 0;
}
