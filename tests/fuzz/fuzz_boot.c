/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_boot.c - what a login on a host prints before the agent's frames: start-up files, the
 * bootstrap's lines, the seed's lines. In pieces of any size it is the same.
 *
 * Input: u8 size of the pieces; then bytes, where 0xfe stands for the marker. */
#include "launcher/link/bootstrap.h"
#include "tests/support/fuzz/fuzz.h"

enum { EVENTS = 64, TEXT = 300 };

struct told {
    enum boot_event event[EVENTS];
    char text[EVENTS][TEXT];
    size_t n, used;
};

static void run(struct told *t, const uint8_t *p, size_t n, size_t piece) {
    struct boot b = {0};
    memset(b.marker, 'M', BOOT_MARKER);
    *t = (struct told){0};
    for (size_t at = 0; at < n && t->n < EVENTS;) {
        size_t used, k = n - at < piece ? n - at : piece;
        const enum boot_event e = boot_input(&b, p + at, k, &used, t->text[t->n], TEXT);
        fuzz_check(used <= k && (used || e != BOOT_MORE));
        at += used;
        t->used = at;
        if (e == BOOT_MORE)
            continue;
        t->event[t->n++] = e;
        if (e == BOOT_RUN || e == BOOT_FAIL)
            return;
    }
}

FUZZ(in) {
    static struct told whole, cut;
    struct pd_buf b = {0};
    const size_t piece = 1 + fuzz_u8(in);
    while (fuzz_left(in)) {
        const uint8_t c = fuzz_u8(in);
        if (c == 0xfe)
            for (int i = 0; i < BOOT_MARKER; i++)
                pd_put_u8(&b, 'M');
        else
            pd_put_u8(&b, c);
    }
    run(&whole, b.data, b.len, b.len ? b.len : 1);
    run(&cut, b.data, b.len, piece);
    fuzz_check(whole.n == cut.n && whole.used == cut.used);
    for (size_t i = 0; i < whole.n; i++)
        fuzz_check(whole.event[i] == cut.event[i] && !strcmp(whole.text[i], cut.text[i]));
    pd_buf_release(&b);
}
