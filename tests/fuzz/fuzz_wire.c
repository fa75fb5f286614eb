/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wire.c - libFuzzer: the frame decoder and both ends of the handshake against arbitrary
 * bytes.
 *
 * The first byte chooses: decoder alone (fed in pieces of its size), or handshake as acceptor or
 * connector. */
#include "wire/frame.h"
#include "wire/handshake.h"
#include "tests/support/fuzz/fuzz.h"

static void decode(const uint8_t *data, size_t size, size_t piece, struct wire_hs *hs) {
    struct wire_decoder *d = wire_decoder_new(1 << 16);
    struct wire_frame *f;
    int alive = 1;
    for (size_t at = 0; at < size && alive; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        alive = wire_decoder_feed(d, data + at, n, NULL) == 0;
        while ((f = wire_decoder_next(d))) {
            for (uint32_t i = 0; i < f->n_sec; i++)
                if (f->len[i] && f->sec[i][0] == 1 && f->sec[i][f->len[i] - 1] == 2 &&
                    f->len[i] > 100000)
                    abort(); /* a section longer than its frame's limit */
            if (hs && alive) {
                struct pd_buf out;
                pd_buf_init(&out);
                alive = wire_hs_input(hs, f, NULL) == 0 && wire_hs_output(hs, &out, NULL) == 0;
                if (wire_hs_done(hs))
                    abort(); /* nobody guesses the proof */
                pd_buf_release(&out);
            }
            wire_frame_free(f);
        }
    }
    wire_decoder_free(d);
}

FUZZ(in) {
    const uint8_t *data = in->p;
    const size_t size = fuzz_left(in);
    if (size < 2)
        return;
    struct wire_hs_opts opts = {.self = {WIRE_ROLE_PSERVER, 1, 2, "J"}, .key = {1, 2, 3}};
    struct wire_hs *hs = data[0] % 3 ? wire_hs_new(&opts, data[0] % 3 == 1) : NULL;
    struct pd_buf hello;
    pd_buf_init(&hello);
    if (hs && data[0] % 3 == 1)
        wire_hs_output(hs, &hello, NULL);
    decode(data + 2, size - 2, data[1] ? data[1] : 1, hs);
    pd_buf_release(&hello);
    wire_hs_free(hs);
}
