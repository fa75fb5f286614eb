/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_handshake.c - the Noise handshake with somebody on the path, who changes, exchanges, repeats
 * and invents messages. If both ends open, each has read what the other one said, and their
 * ciphers are a pair; an end without the key never opens.
 *
 * Input: which keys, ciphers and modes the ends have, then a deed for each message. (fuzz_wire
 * feeds each end with bytes alone.) */
#include "tests/support/fuzz/fuzz.h"
#include "wire/handshake.h"

/* The acceptor reads its key in *o. */
static void one_hs(struct wire_hs **out, struct wire_hs_opts *o, int connector, unsigned how,
                   int foreign, const char *greeting) {
    *o = (struct wire_hs_opts){.self = {connector ? WIRE_ROLE_TRAINER : WIRE_ROLE_PSERVER,
                                        connector ? 3 : 4, connector ? 33 : 44, "JOB1"},
                               .key = {7, (uint8_t)foreign},
                               .plain = how & 1,
                               .ciphers = how & 2 ? WIRE_CHACHA20POLY1305 : 0,
                               .greeting = connector ? NULL : greeting,
                               .greeting_len = connector ? 0 : strlen(greeting)};
    fuzz_check(*out = wire_hs_new(o, connector));
}

/* Passes the bytes of one end on to the other, unchanged or as the input says. They are kept, so
 * that they can be repeated. */
static void on_path(struct pd_buf *b, struct pd_reader *in) {
    static struct pd_buf earlier;
    struct pd_buf now = {0};
    pd_put(&now, b->data, b->len);
    const size_t at = b->len ? fuzz_u32(in) % b->len : 0, n = fuzz_u8(in);
    switch (fuzz_u8(in) % 8) {
    case 1:
        if (b->len)
            b->data[at] ^= (uint8_t)(1u << n % 8);
        break;
    case 2:
        b->len = at;
        break;
    case 3: /* of this or an earlier handshake */
        pd_buf_clear(b);
        pd_put(b, earlier.data, earlier.len);
        break;
    case 4:
        pd_put(b, fuzz_bytes(in, n), n);
        break;
    case 5:
        for (size_t i = at; i < b->len && i < at + n; i++)
            b->data[i] = fuzz_u8(in);
        break;
    default:
        break;
    }
    pd_buf_clear(&earlier);
    pd_put(&earlier, now.data, now.len);
    pd_buf_release(&now);
}

/* 0: the end goes on. */
static int give(struct wire_hs *hs, struct wire_decoder *d, const struct pd_buf *b) {
    struct pd_err err = {0};
    struct wire_frame *f;
    int rc = wire_decoder_feed(d, b->data, b->len, &err);
    while ((f = wire_decoder_next(d))) {
        if (rc >= 0 && !wire_hs_done(hs))
            rc = wire_hs_input(hs, f, &err);
        wire_frame_free(f);
    }
    fuzz_check(rc >= 0 || *err.msg);
    return rc < 0 ? rc : wire_decoder_error(d, NULL);
}

static void check_pair(struct wire_hs *hs[2], int plain) {
    struct wire_cipher *send[2], *receive[2];
    for (int i = 0; i < 2; i++)
        wire_hs_ciphers(hs[i], &send[i], &receive[i]);
    for (int i = 0; i < 2; i++) {
        uint8_t text[3 + WIRE_TAG];
        fuzz_check((send[i] == NULL) == plain && (receive[i] == NULL) == plain);
        if (plain)
            continue;
        wire_cipher_seal(send[i], text, (const uint8_t *)"abc", 3);
        fuzz_check(!wire_cipher_open(receive[!i], text, text, sizeof text) && text[2] == 'c');
        wire_cipher_free(send[i]);
        wire_cipher_free(receive[!i]);
    }
}

FUZZ(in) {
    const unsigned how = fuzz_u8(in), foreign = (how & 0x30) == 0x30;
    struct wire_hs *hs[2]; /* connector, acceptor */
    struct wire_hs_opts o[2];
    struct wire_decoder *d[2];
    struct pd_buf b = {0};
    int over[2] = {0};
    one_hs(&hs[0], &o[0], 1, how, 0, "");
    one_hs(&hs[1], &o[1], 0, how >> 2, foreign, "greeting");
    for (int i = 0; i < 2; i++)
        fuzz_check(d[i] = wire_decoder_new(4096));
    for (int turn = 0, i = 0; turn < 6 && !over[0] && !over[1]; turn++, i = !i) {
        pd_buf_clear(&b);
        fuzz_check(!wire_hs_output(hs[i], &b, NULL));
        on_path(&b, in);
        over[!i] = give(hs[!i], d[!i], &b) != 0;
    }
    const int open[2] = {wire_hs_done(hs[0]), wire_hs_done(hs[1])};
    fuzz_check(!foreign || (!open[0] && !open[1]));
    fuzz_check(!open[0] || open[1]); /* the connector is last */
    if (open[0]) {
        const struct wire_hello *p[2] = {wire_hs_peer(hs[0]), wire_hs_peer(hs[1])};
        size_t n;
        fuzz_check(p[0]->role == WIRE_ROLE_PSERVER && p[0]->id == 4 && p[0]->incarnation == 44);
        fuzz_check(p[1]->role == WIRE_ROLE_TRAINER && p[1]->id == 3 && p[1]->incarnation == 33);
        fuzz_check((how & 1) == (how >> 2 & 1));
        fuzz_check(wire_hs_greeting(hs[0], &n) && n == 8);
        check_pair(hs, how & 1);
    }
    for (int i = 0; i < 2; i++) {
        wire_hs_free(hs[i]);
        wire_decoder_free(d[i]);
    }
    pd_buf_release(&b);
}
