/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire.c - the frame codec and the handshake, without sockets. */
#include <setjmp.h>

#include <cmocka.h>

#include "wire/frame.h"
#include "wire/handshake.h"
#include "wire/msg.h"

static void put_frame(struct pd_buf *b, uint16_t type, uint64_t req, uint32_t n_sec,
                      const size_t *len) {
    uint8_t h[WIRE_HEADER];
    wire_header(h, type, 0, req, n_sec, len);
    pd_put(b, h, sizeof h);
    for (uint32_t i = 0; i < n_sec; i++) {
        for (size_t k = 0; k < len[i] + wire_pad(len[i]); k++)
            pd_put_u8(b, (uint8_t)(k < len[i] ? k * 31 + i : 0));
    }
}

static void check_frame(const struct wire_frame *f, uint16_t type, uint64_t req, uint32_t n_sec,
                        const size_t *len) {
    assert_int_equal(f->type, type);
    assert_int_equal(f->req, req);
    assert_int_equal(f->n_sec, n_sec);
    for (uint32_t i = 0; i < n_sec; i++) {
        assert_int_equal(f->len[i], len[i]);
        assert_int_equal((uintptr_t)f->sec[i] % WIRE_ALIGN, 0);
        for (size_t k = 0; k < len[i]; k++)
            if (f->sec[i][k] != (uint8_t)(k * 31 + i))
                fail_msg("section %u byte %zu", i, k);
    }
}

/* Bytes arrive in pieces of any size: the same frames come out, in place or staged. */
static void frames_survive_any_fragmentation(void **state) {
    (void)state;
    const size_t len[3][WIRE_SECTIONS] = {{0}, {1, 64, 65, 0}, {100, 300000, 7, 50000}};
    const uint32_t n_sec[3] = {0, 3, 4};
    struct pd_buf b;
    pd_buf_init(&b);
    for (int i = 0; i < 3; i++)
        put_frame(&b, (uint16_t)(WIRE_PS_DECLARE + i), 40u + (unsigned)i, n_sec[i], len[i]);
    for (size_t piece = 1; piece < 400000; piece = piece * 3 + 1) {
        struct wire_decoder *d = wire_decoder_new(1 << 20);
        struct wire_frame *f;
        int seen = 0;
        for (size_t at = 0; at < b.len;) {
            uint8_t *p;
            size_t n;
            wire_decoder_space(d, &p, &n);
            n = n < piece ? n : piece;
            n = n < b.len - at ? n : b.len - at;
            memcpy(p, b.data + at, n);
            at += n;
            assert_int_equal(wire_decoder_commit(d, n, NULL), 0);
            while ((f = wire_decoder_next(d))) {
                check_frame(f, (uint16_t)(WIRE_PS_DECLARE + seen), 40u + (unsigned)seen,
                            n_sec[seen], len[seen]);
                seen++;
                wire_frame_free(f);
            }
        }
        assert_int_equal(seen, 3);
        assert_true(wire_decoder_idle(d));
        wire_decoder_free(d);
        d = wire_decoder_new(1 << 20);
        assert_int_equal(wire_decoder_feed(d, b.data, b.len, NULL), 0);
        for (seen = 0; (f = wire_decoder_next(d)); seen++)
            wire_frame_free(f);
        assert_int_equal(seen, 3);
        wire_decoder_free(d);
    }
    pd_buf_release(&b);
}

/* A key does not stay in the decoder's memory, whichever pieces it came in. */
static void a_wiped_decoder_has_no_bytes_of_earlier_frames(void **state) {
    (void)state;
    const size_t len[WIRE_SECTIONS] = {0, 32};
    struct pd_buf b;
    pd_buf_init(&b);
    put_frame(&b, WIRE_AG_JOB_SETUP, 1, 2, len);
    const uint8_t *key = b.data + WIRE_HEADER;
    const size_t whole = b.len;
    pd_put(&b, b.data, 8); /* the next frame begins */
    for (size_t cut = 1; cut <= whole; cut++) {
        struct wire_decoder *d = wire_decoder_new(1 << 20);
        struct wire_frame *f = NULL;
        uint8_t *stage, *p;
        size_t n;
        for (int part = 0; part < 2; part++) {
            wire_decoder_space(d, part ? &p : &stage, &n);
            assert_true(n >= b.len && (!part || p == stage));
            n = part ? b.len - cut : cut;
            memcpy(stage, b.data + (part ? cut : 0), n);
            assert_int_equal(wire_decoder_commit(d, n, NULL), 0);
            if (!f)
                f = wire_decoder_next(d);
        }
        check_frame(f, WIRE_AG_JOB_SETUP, 1, 2, len);
        wire_frame_free(f);
        wire_decoder_forget(d);
        for (size_t at = 0; at + 8 <= 32; at++)
            assert_null(memmem(stage, b.len, key + at, 8));
        assert_null(wire_decoder_next(d));
        assert_false(wire_decoder_idle(d)); /* what came behind the frame is still there */
        wire_decoder_free(d);
    }
    pd_buf_release(&b);
}

static void bad_headers_are_refused_before_memory_is_taken(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t at;
        uint8_t value;
    } rows[] = {
        {"magic", 0, 'X'},         {"sealed flag", 6, 2},
        {"unknown flag", 7, 1},    {"five sections", 24, 5},
        {"reserved", 28, 1},       {"total", 16, 1},
        {"huge total", 22, 0x7f},  {"huge section", 38, 0x7f},
        {"wrap-around", 39, 0xff}, {"absent section with a length", 32 + 24, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t len[1] = {64};
        struct pd_buf b;
        struct pd_err err = {0};
        pd_buf_init(&b);
        put_frame(&b, WIRE_AG_PING, 1, 1, len);
        b.data[rows[i].at] = rows[i].value;
        struct wire_decoder *d = wire_decoder_new(4096);
        int rc = wire_decoder_feed(d, b.data, b.len, &err);
        if (rc != PD_EPROTO || wire_decoder_next(d))
            fail_msg("%s: %d %s", rows[i].name, rc, err.msg);
        assert_int_equal(wire_decoder_feed(d, b.data, b.len, NULL), PD_EPROTO); /* sticky */
        wire_decoder_free(d);
        pd_buf_release(&b);
    }
}

/* The announced length of a large frame is compared with the memory of the machine. */
static void a_frame_that_the_machine_cannot_hold(void **state) {
    (void)state;
    const size_t len[1] = {64 << 20};
    uint8_t head[WIRE_HEADER];
    for (int pool = 0; pool < 2; pool++) {
        struct wire_decoder *d = wire_decoder_new(1 << 30);
        struct pd_pool *p = pool ? pd_pool_new() : NULL;
        struct pd_err err = {0};
        wire_decoder_use_pool(d, p);
        (void)wire_header(head, WIRE_AG_LOG, 0, 1, 1, len);
        pd_fault_arm("memory.room:1");
        assert_int_equal(wire_decoder_feed(d, head, sizeof head, &err), PD_ENOMEM);
        pd_fault_arm(NULL);
        if (!strstr(err.msg, "no memory for AG_LOG of 67109056 bytes on ") ||
            !strstr(err.msg, " GB of them available"))
            fail_msg("%s", err.msg);
        wire_decoder_free(d);
        d = wire_decoder_new(1 << 30);
        wire_decoder_use_pool(d, p);
        assert_int_equal(wire_decoder_feed(d, head, sizeof head, &err), 0);
        wire_decoder_free(d);
        pd_pool_free(p);
    }
}

/* Flips every bit of a small frame: the decoder gives a valid frame or an error and never crashes
 * (run under ASan). */
static void bit_flips_never_crash(void **state) {
    (void)state;
    const size_t len[2] = {10, 70};
    struct pd_buf b;
    pd_buf_init(&b);
    put_frame(&b, WIRE_AG_LOG, 9, 2, len);
    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        struct wire_decoder *d = wire_decoder_new(4096);
        b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        (void)wire_decoder_feed(d, b.data, b.len, NULL);
        for (struct wire_frame *f; (f = wire_decoder_next(d));) {
            uint8_t sum = 0;
            for (uint32_t s = 0; s < f->n_sec; s++)
                for (size_t k = 0; k < f->len[s]; k++)
                    sum ^= f->sec[s][k];
            (void)sum;
            wire_frame_free(f);
        }
        b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        wire_decoder_free(d);
    }
    pd_buf_release(&b);
}

static struct wire_frame *only_frame(struct pd_buf *b) {
    struct wire_decoder *d = wire_decoder_new(8192);
    wire_decoder_feed(d, b->data, b->len, NULL);
    struct wire_frame *f = wire_decoder_next(d);
    wire_decoder_free(d);
    pd_buf_clear(b);
    return f;
}

/* Each end opens what the other one seals; a plain connection has no ciphers. */
static void check_ciphers(struct wire_hs *c, struct wire_hs *s, int plain) {
    struct wire_cipher *of_c[2], *of_s[2], *none[2];
    uint8_t text[3 + WIRE_TAG];
    wire_hs_ciphers(c, &of_c[0], &of_c[1]);
    wire_hs_ciphers(s, &of_s[0], &of_s[1]);
    wire_hs_ciphers(c, &none[0], &none[1]);
    assert_null(none[0]);
    assert_int_equal(of_c[0] == NULL, plain);
    for (int i = 0; i < 2 && !plain; i++) {
        wire_cipher_seal(i ? of_s[0] : of_c[0], text, (const uint8_t *)"abc", 3);
        assert_int_equal(wire_cipher_open(i ? of_c[1] : of_s[1], text, text, sizeof text), 0);
        assert_memory_equal(text, "abc", 3);
    }
    for (int i = 0; i < 2; i++) {
        wire_cipher_free(of_c[i]);
        wire_cipher_free(of_s[i]);
    }
}

/* Runs a handshake; `tamper` >= 0 flips a bit of that frame. Returns 1 when both ends are open. */
static int shake(const struct wire_hs_opts *ca, const struct wire_hs_opts *sa, int tamper,
                 size_t bit, struct pd_err *err) {
    struct wire_hs *c = wire_hs_new(ca, 1), *s = wire_hs_new(sa, 0);
    struct pd_buf b;
    pd_buf_init(&b);
    int rc = 0;
    for (int i = 0; i < 4 && rc >= 0; i++) {
        struct wire_hs *from = i % 2 ? s : c, *to = i % 2 ? c : s;
        assert_int_equal(wire_hs_output(from, &b, NULL), 0);
        if (i == tamper)
            b.data[WIRE_HEADER + bit / 8] ^= (uint8_t)(1 << bit % 8);
        struct wire_frame *f = only_frame(&b);
        assert_non_null(f);
        rc = wire_hs_input(to, f, err);
        wire_frame_free(f);
    }
    int open = rc > 0 && wire_hs_done(c) && wire_hs_done(s);
    if (open) {
        size_t n;
        const uint8_t *g = wire_hs_greeting(c, &n);
        assert_int_equal(n, sa->greeting_len);
        assert_memory_equal(g, sa->greeting, n);
        check_ciphers(c, s, ca->plain);
        assert_int_equal(wire_hs_peer(s)->id, ca->self.id);
        assert_int_equal(wire_hs_peer(c)->role, sa->self.role);
    }
    pd_buf_release(&b);
    wire_hs_free(c);
    wire_hs_free(s);
    return open;
}

static void handshake_needs_the_key_the_job_and_untouched_bytes(void **state) {
    (void)state;
    struct wire_hs_opts c = {.self = {WIRE_ROLE_TRAINER, 3, 77, "JOB1"}, .key = {1, 2, 3}};
    struct wire_hs_opts s = {.self = {WIRE_ROLE_PSERVER, 1, 78, "JOB1"},
                             .key = {1, 2, 3},
                             .greeting = "ports",
                             .greeting_len = 5};
    struct pd_err err = {0};
    assert_true(shake(&c, &s, -1, 0, &err));
    struct wire_hs_opts bad = c;
    bad.key[31] = 9;
    assert_false(shake(&bad, &s, -1, 0, &err));
    assert_int_equal(err.code, PD_EAUTH);
    struct wire_hs_opts other = c;
    pd_fmt(other.self.job, sizeof other.self.job, "JOB2");
    pd_err_clear(&err);
    assert_false(shake(&other, &s, -1, 0, &err));
    assert_int_equal(err.code, PD_EAUTH);
    const size_t body_bits[4] = {8 * 66, 8 * 62, 8 * 48, 8 * 53};
    for (int frame = 0; frame < 4; frame++)
        for (size_t bit = 0; bit < body_bits[frame]; bit++)
            if (shake(&c, &s, frame, bit, NULL))
                fail_msg("frame %d, bit %zu: a changed handshake was accepted", frame, bit);
}

static void both_ends_agree_on_a_cipher_or_on_none(void **state) {
    (void)state;
    static const struct {
        unsigned ciphers[2];
        int plain[2];
        const char *why; /* "": it opens */
    } table[] = {
        {{WIRE_CHACHA20POLY1305, 0}, {0, 0}, ""},
        {{0, WIRE_CHACHA20POLY1305}, {0, 0}, ""},
        {{0, 0}, {1, 1}, ""},
        {{0, 0}, {1, 0}, "encrypt is 'all' at the peer, 'off' here"},
        {{0, 0}, {0, 1}, "encrypt is 'off' at the peer, 'all' here"},
        {{WIRE_AES256GCM, WIRE_CHACHA20POLY1305}, {0, 0}, "no common cipher"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct wire_hs_opts c = {.self = {WIRE_ROLE_TRAINER, 3, 77, "J"},
                                 .ciphers = table[i].ciphers[0],
                                 .plain = table[i].plain[0]},
                            s = {.self = {WIRE_ROLE_PSERVER, 1, 78, "J"},
                                 .ciphers = table[i].ciphers[1],
                                 .plain = table[i].plain[1]};
        struct pd_err err = {0};
        if (shake(&c, &s, -1, 0, &err) != !*table[i].why || !strstr(err.msg, table[i].why))
            fail_msg("row %zu: '%s'", i, err.msg);
    }
}

/* A recorded HELLO and PROOF do not open a second connection. */
static void a_recorded_proof_is_worth_nothing(void **state) {
    (void)state;
    struct wire_hs_opts o = {.self = {WIRE_ROLE_TRAINER, 1, 1, "J"}, .key = {5}};
    struct pd_buf hello, proof, b;
    pd_buf_init(&hello);
    pd_buf_init(&proof);
    pd_buf_init(&b);
    struct wire_hs *c = wire_hs_new(&o, 1);
    wire_hs_output(c, &hello, NULL);
    for (int round = 0; round < 2; round++) {
        struct wire_hs *s = wire_hs_new(&o, 0);
        struct pd_buf again;
        pd_buf_init(&again);
        pd_put(&again, hello.data, hello.len);
        struct wire_frame *f = only_frame(&again);
        assert_int_equal(wire_hs_input(s, f, NULL), 0);
        wire_frame_free(f);
        wire_hs_output(s, &b, NULL);
        f = only_frame(&b);
        if (round == 0) {
            assert_int_equal(wire_hs_input(c, f, NULL), 0);
            wire_hs_output(c, &proof, NULL);
        }
        wire_frame_free(f);
        pd_put(&again, proof.data, proof.len);
        f = only_frame(&again);
        assert_int_equal(wire_hs_input(s, f, NULL), round == 0 ? 1 : PD_EAUTH);
        wire_frame_free(f);
        pd_buf_release(&again);
        wire_hs_free(s);
    }
    pd_buf_release(&hello);
    pd_buf_release(&proof);
    pd_buf_release(&b);
    wire_hs_free(c);
}

static void a_peer_without_the_key_gets_nothing(void **state) {
    (void)state;
    struct wire_hs_opts so = {.self = {WIRE_ROLE_PSERVER, 0, 1, "J"},
                              .key = {5},
                              .greeting = "secret ports",
                              .greeting_len = 12};
    struct wire_hs_opts co = {.self = {WIRE_ROLE_TRAINER, 0, 1, "J"}};
    struct wire_hs *s = wire_hs_new(&so, 0), *c = wire_hs_new(&co, 1);
    struct pd_buf b;
    pd_buf_init(&b);
    wire_hs_output(c, &b, NULL);
    struct wire_frame *f = only_frame(&b);
    assert_int_equal(wire_hs_input(s, f, NULL), 0);
    wire_frame_free(f);
    wire_hs_output(s, &b, NULL); /* the challenge */
    assert_null(memmem(b.data, b.len, "secret", 6));
    f = only_frame(&b);
    wire_hs_input(c, f, NULL);
    wire_frame_free(f);
    wire_hs_output(c, &b, NULL);
    f = only_frame(&b);
    assert_int_equal(wire_hs_input(s, f, NULL), PD_EAUTH);
    wire_frame_free(f);
    wire_hs_output(s, &b, NULL);
    assert_int_equal(b.len, 0);
    pd_buf_release(&b);
    wire_hs_free(s);
    wire_hs_free(c);
}

static void key_files_must_be_private(void **state) {
    (void)state;
    char path[] = "/tmp/test-key-XXXXXX";
    uint8_t key[WIRE_KEY_BYTES];
    struct pd_err err = {0};
    int fd = mkstemp(path);
    assert_int_equal(
        pd_write_all(fd, "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n", 65),
        0);
    close(fd);
    assert_int_equal(wire_key_read(path, key, &err), 0);
    assert_int_equal(key[1], 0x11);
    chmod(path, 0640);
    assert_int_equal(wire_key_read(path, key, &err), PD_EAUTH);
    chmod(path, 0600);
    assert_int_equal(truncate(path, 40), 0);
    assert_int_equal(wire_key_read(path, key, NULL), PD_EAUTH);
    unlink(path);
    assert_int_equal(wire_key_read(path, key, NULL), PD_ENOENT);
}

/* 0: `n` bytes of section 0 are an error frame's. */
static int read_error(const void *p, size_t n, struct pd_err *err) {
    struct wire_frame f = {.type = WIRE_PS_BYE, .flags = WIRE_F_ERROR, .n_sec = 1};
    f.sec[0] = (void *)(uintptr_t)p;
    f.len[0] = n;
    *err = (struct pd_err){0};
    return wire_error_get(&f, err);
}

static void errors_travel_with_their_origin(void **state) {
    (void)state;
    const struct pd_err e = {
        .code = PD_ENOSPC, .msg = "disk \033[1m full", .from = "pserver 1 on 10.0.0.2"};
    struct pd_err got;
    struct pd_buf b;
    pd_buf_init(&b);
    wire_error_put(&b, &e);
    assert_int_equal(read_error(b.data, b.len, &got), PD_ENOSPC);
    assert_string_equal(got.msg, "disk  [1m full"); /* no control codes */
    assert_string_equal(got.from, e.from);
    assert_true(got.heard);
    const size_t short_len = b.len - 4 - strlen(e.from); /* of an earlier version: no origin */
    for (size_t n = 0; n < b.len; n++)
        assert_int_equal(read_error(b.data, n, &got), n == short_len ? PD_ENOSPC : PD_EPROTO);
    b.data[0] = 200; /* no error code */
    assert_int_equal(read_error(b.data, b.len, &got), PD_EPROTO);
    pd_buf_release(&b);
}

/* docs/protocol.md lists exactly the rows of the message table. */
static void the_document_lists_every_message(void **state) {
    (void)state;
    struct pd_buf doc;
    pd_buf_init(&doc);
    const char *paths[] = {"docs/protocol.md", "../docs/protocol.md"};
    if (pd_read_file(paths[0], 1 << 20, &doc, NULL))
        assert_int_equal(pd_read_file(paths[1], 1 << 20, &doc, NULL), 0);
    static const char *const names[] = {
#define X(name, number, text) #name,
        WIRE_MSG_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char row[64];
        snprintf(row, sizeof row, "| %s |", names[i]);
        if (!strstr((char *)doc.data, row))
            fail_msg("docs/protocol.md has no row '%s'", row);
    }
    pd_buf_release(&doc);
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    const size_t len[1] = {100};
    for (int k = 1; k < 6; k++) {
        char spec[32];
        struct pd_buf b;
        pd_buf_init(&b);
        put_frame(&b, WIRE_AG_PING, 1, 1, len);
        snprintf(spec, sizeof spec, "alloc:%d", k);
        pd_fault_arm(spec);
        struct wire_decoder *d = wire_decoder_new(4096);
        if (d) {
            int rc = wire_decoder_feed(d, b.data, b.len, NULL);
            struct wire_frame *f = wire_decoder_next(d);
            assert_true(rc == PD_ENOMEM || (rc == 0 && f));
            wire_frame_free(f);
        }
        pd_fault_arm(NULL);
        wire_decoder_free(d);
        pd_buf_release(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_survive_any_fragmentation),
        cmocka_unit_test(a_wiped_decoder_has_no_bytes_of_earlier_frames),
        cmocka_unit_test(bad_headers_are_refused_before_memory_is_taken),
        cmocka_unit_test(a_frame_that_the_machine_cannot_hold),
        cmocka_unit_test(bit_flips_never_crash),
        cmocka_unit_test(handshake_needs_the_key_the_job_and_untouched_bytes),
        cmocka_unit_test(both_ends_agree_on_a_cipher_or_on_none),
        cmocka_unit_test(a_recorded_proof_is_worth_nothing),
        cmocka_unit_test(a_peer_without_the_key_gets_nothing),
        cmocka_unit_test(key_files_must_be_private),
        cmocka_unit_test(errors_travel_with_their_origin),
        cmocka_unit_test(the_document_lists_every_message),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
