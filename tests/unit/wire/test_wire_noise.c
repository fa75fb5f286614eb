/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_noise.c - the handshake against published Noise vectors, the ciphers against those of
 * their standards, the order of sealed messages, and new keys. */
#include <setjmp.h>

#include <cmocka.h>

#include "wire/noise.h"

enum { TEXT = 200 };

/* 1: this CPU has no such cipher, and the test says so. */
static int lacks(enum wire_cipher_kind kind) {
    if (wire_ciphers() & kind)
        return 0;
    print_message("skipped: this CPU has no AES instructions, so AES-256-GCM is not tried\n");
    return 1;
}

/* --- Noise --- */

struct vector {
    const char *name;
    enum wire_cipher_kind kind;
    const char *hash;
    const char *ciphertext[6]; /* two of the handshake, then transport messages in turn */
};

/* Inputs of both vectors. */
static const char prologue[] = "4a6f686e2047616c74";
static const char psk[] = "54686973206973206d7920417573747269616e20706572737065637469766521";
static const char initiator[] = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
static const char responder[] = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";
static const char *const payload[6] = {"4c756477696720766f6e204d69736573",
                                       "4d757272617920526f746862617264",
                                       "462e20412e20486179656b",
                                       "4361726c204d656e676572",
                                       "4a65616e2d426170746973746520536179",
                                       "457567656e2042f6686d20766f6e2042617765726b"};

/* Source: github.com/haskell-cryptography/cacophony, vectors/cacophony.txt (public domain). */
static const struct vector vectors[] = {
    {"Noise_NNpsk0_25519_AESGCM_BLAKE2b",
     WIRE_AES256GCM,
     "d73c5533886889dde8746bfcd5d0eb738dcc2321bcc0e05981cff516b7e8da25"
     "effe1be1e0168075ea4df017c8e636f6012c55f726b466a5ae61bafdf6542ef2",
     {"ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944"
      "ab67782ba522df522e3b26fec332f0247af54ca69936a856158422652c5f2f6c",
      "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843"
      "57c12fca03369a584fdf46ddf33b8418701bb6c0fb9cf97743064e7dc9f9cc",
      "9c7cf240c92984f10f318283aad9fa98f5c609379329386bdcd041",
      "d10737813549738317379aa5a89afaa7709f09dea1e86863645037",
      "50d6a3e902be8fb400fe88a3df63bfcb0f0f82d1829c5cadb09eaf58d2363ec110",
      "f9291acf81dab96f88793a2885461fdf2b313fb54b9fbff07d695e0f5280646a75ff8a86ba"}},
    {"Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b",
     WIRE_CHACHA20POLY1305,
     "ed5e9692d0ab507b6c2beec3f584fd5b127817a9d20b26cd50aa72c507260fa3"
     "1aa7d88dd3723316338af37ce0b4cfb2923aeb848bbf2b934911306f01ffc963",
     {"ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944"
      "ed63df2f5a12aee1185ee9c50305f2ecf12421dcb53c047a63b784cf7c54a105",
      "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843"
      "0e0fe7d5c0c9b92f7478716c8852f1b4f389edb75e3ebe546fafafd5b6f0f7",
      "0fe04b26dcfbb69f8a6a94c61f1a26ef88769218d32f5d17c068a6",
      "2239e0c540c01f09eb1f4cc5258fd5acfefff18a5a3773f21b7bfe",
      "f216cb03d30fb8af1e561fe02a07552d09b416e27a75e62c77d193718b0bdaae9f",
      "6e8baf98b944184dd7dc5ef14d8108cbeca626de118a5460f3308e294d61e17238bce29bd9"}}};

static size_t unhex(uint8_t *out, const char *hex) {
    const size_t n = strlen(hex) / 2;
    assert_true(n <= TEXT);
    assert_int_equal(pd_unhex(out, n, hex), 0);
    return n;
}

static void must_be(const struct vector *v, const char *what, const uint8_t *p, size_t n,
                    const char *hex) {
    char got[2 * TEXT + 1];
    pd_hex(got, p, n);
    if (strcmp(got, hex))
        fail_msg("%s, %s: %s, not %s", v->name, what, got, hex);
}

static struct wire_noise *begin(const struct vector *v, int is_initiator) {
    uint8_t key[TEXT], text[TEXT], secret[TEXT];
    unhex(key, psk);
    struct wire_noise *s = wire_noise_new(v->kind, is_initiator, key, text, unhex(text, prologue));
    assert_non_null(s);
    unhex(secret, is_initiator ? initiator : responder);
    wire_noise_ephemeral(s, secret);
    return s;
}

static void handshake_message(const struct vector *v, int i, struct wire_noise *from,
                              struct wire_noise *to) {
    uint8_t text[TEXT];
    const size_t n = unhex(text, payload[i]);
    struct pd_buf sent, got;
    pd_buf_init(&sent);
    pd_buf_init(&got);
    assert_int_equal(wire_noise_write(from, text, n, &sent, NULL), 0);
    must_be(v, "handshake", sent.data, sent.len, v->ciphertext[i]);
    assert_int_equal(wire_noise_read(to, sent.data, sent.len, &got, NULL), 0);
    assert_int_equal(got.len, n);
    assert_memory_equal(got.data, text, n);
    pd_buf_release(&sent);
    pd_buf_release(&got);
}

static void published_vectors_of_noise(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof vectors / sizeof vectors[0]; k++) {
        const struct vector *v = &vectors[k];
        if (lacks(v->kind))
            continue;
        struct wire_noise *a = begin(v, 1), *b = begin(v, 0);
        handshake_message(v, 0, a, b);
        handshake_message(v, 1, b, a);
        must_be(v, "hash", wire_noise_hash(a), WIRE_NOISE_HASH, v->hash);
        must_be(v, "hash", wire_noise_hash(b), WIRE_NOISE_HASH, v->hash);
        struct wire_cipher *to_b, *from_b, *to_a, *from_a;
        assert_int_equal(wire_noise_split(a, &to_b, &from_b, NULL), 0);
        assert_int_equal(wire_noise_split(b, &to_a, &from_a, NULL), 0);
        for (int i = 2; i < 6; i++) {
            uint8_t text[TEXT], sealed[TEXT];
            const size_t n = unhex(text, payload[i]);
            wire_cipher_seal(i % 2 ? to_a : to_b, sealed, text, n);
            must_be(v, "message", sealed, n + WIRE_TAG, v->ciphertext[i]);
            assert_int_equal(
                wire_cipher_open(i % 2 ? from_b : from_a, sealed, sealed, n + WIRE_TAG), 0);
            assert_memory_equal(sealed, text, n);
        }
        wire_cipher_free(to_a);
        wire_cipher_free(to_b);
        wire_cipher_free(from_a);
        wire_cipher_free(from_b);
        wire_noise_free(a);
        wire_noise_free(b);
    }
}

/* RFC 7748, section 6.1: an implementation may refuse the points that make the result zero. */
static void a_public_key_of_zero_is_refused(void **state) {
    (void)state;
    const struct vector *v = &vectors[1];
    struct wire_noise *a = begin(v, 1), *b = begin(v, 0);
    struct pd_buf m;
    struct pd_err err = {0};
    uint8_t zero[32 + WIRE_TAG] = {0};
    pd_buf_init(&m);
    assert_int_equal(wire_noise_write(a, NULL, 0, &m, NULL), 0);
    pd_buf_clear(&m);
    assert_int_equal(wire_noise_read(a, zero, sizeof zero, &m, &err), PD_EAUTH);
    assert_int_equal(wire_noise_read(b, zero, sizeof zero - 1, &m, NULL), PD_EPROTO);
    pd_buf_release(&m);
    wire_noise_free(a);
    wire_noise_free(b);
}

/* --- ciphers --- */

/* The first message has nonce zero. AES-256-GCM: McGrew and Viega, "The Galois/Counter Mode of
 * Operation", test case 14. ChaCha20: RFC 8439, appendix A.1, vector 2; its key stream encrypts
 * zeros. */
static void published_vectors_of_the_ciphers(void **state) {
    (void)state;
    static const struct {
        enum wire_cipher_kind kind;
        const char *hex;
        size_t n;
    } table[] = {
        {WIRE_AES256GCM, "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919", 16},
        {WIRE_CHACHA20POLY1305,
         "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
         "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
         64}};
    for (size_t i = 0; i < 2; i++) {
        static const uint8_t zeros[64];
        uint8_t want[TEXT], got[TEXT];
        if (lacks(table[i].kind))
            continue;
        struct wire_cipher *c = wire_cipher_new(table[i].kind, zeros);
        wire_cipher_seal(c, got, zeros, table[i].n);
        assert_memory_equal(got, want, unhex(want, table[i].hex));
        wire_cipher_free(c);
    }
}

enum { LEN = 50, SEALED = LEN + WIRE_TAG, MESSAGES = 6 };

struct pair {
    struct wire_cipher *out, *in;
    uint8_t sealed[MESSAGES][SEALED];
};

static void make_pair(struct pair *p, enum wire_cipher_kind kind) {
    static const uint8_t key[WIRE_NOISE_KEY] = {7};
    p->out = wire_cipher_new(kind, key);
    p->in = wire_cipher_new(kind, key);
    for (int i = 0; i < MESSAGES; i++) {
        uint8_t text[LEN];
        memset(text, i, sizeof text);
        wire_cipher_seal(p->out, p->sealed[i], text, sizeof text);
    }
}

static void free_pair(struct pair *p) {
    wire_cipher_free(p->out);
    wire_cipher_free(p->in);
}

static int opens(struct pair *p, int i) {
    uint8_t text[SEALED];
    return !wire_cipher_open(p->in, text, p->sealed[i], SEALED) && text[LEN - 1] == i;
}

static void messages_open_in_their_order_and_unchanged(void **state) {
    (void)state;
    static const enum wire_cipher_kind kinds[] = {WIRE_AES256GCM, WIRE_CHACHA20POLY1305};
    for (size_t k = 0; k < 2; k++) {
        struct pair p;
        uint8_t text[SEALED];
        if (lacks(kinds[k]))
            continue;
        make_pair(&p, kinds[k]);
        assert_true(opens(&p, 0));
        assert_false(opens(&p, 0)); /* repeated */
        assert_false(opens(&p, 2)); /* left out */
        for (size_t bit = 0; bit < 8 * SEALED; bit++) {
            p.sealed[1][bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (opens(&p, 1))
                fail_msg("cipher %d: bit %zu was changed", (int)kinds[k], bit);
            p.sealed[1][bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        for (size_t n = 0; n < SEALED; n++)
            assert_int_equal(wire_cipher_open(p.in, text, p.sealed[1], n), -1);
        assert_true(opens(&p, 1)); /* nothing of this disturbed the counter */
        free_pair(&p);
    }
}

static void both_ends_renew_the_key_after_messages_or_bytes(void **state) {
    (void)state;
    static const uint8_t key[WIRE_NOISE_KEY] = {9};
    static const uint64_t limits[][2] = {{3, UINT64_MAX}, {UINT64_MAX, 3 * LEN}};
    static const enum wire_cipher_kind kinds[] = {WIRE_AES256GCM, WIRE_CHACHA20POLY1305};
    for (size_t k = 0; k < 4; k++) {
        const uint64_t *limit = limits[k / 2];
        const enum wire_cipher_kind kind = kinds[k % 2];
        uint8_t text[LEN] = {0}, a[SEALED], b[SEALED];
        if (lacks(kind))
            continue;
        struct wire_cipher *out = wire_cipher_new(kind, key), *in = wire_cipher_new(kind, key),
                           *never = wire_cipher_new(kind, key);
        wire_cipher_limits(out, limit[0], limit[1]);
        wire_cipher_limits(in, limit[0], limit[1]);
        for (int i = 0; i < 10; i++) {
            wire_cipher_seal(out, a, text, LEN);
            wire_cipher_seal(never, b, text, LEN);
            if (!memcmp(a, b, SEALED) != (i < 3))
                fail_msg("limit %zu, cipher %d, message %d: the key is %s", k / 2, (int)kind, i,
                         i < 3 ? "new already" : "the old one");
            assert_int_equal(wire_cipher_open(in, a, a, SEALED), 0);
        }
        wire_cipher_free(out);
        wire_cipher_free(in);
        wire_cipher_free(never);
    }
}

static const struct wire_aes *of_group; /* NULL: libsodium seals all messages */

/* Long messages are sealed by OpenSSL in one process and by libsodium in another. */
static void both_libraries_have_the_same_bytes(void **state) {
    (void)state;
    static const uint8_t key[WIRE_NOISE_KEY] = {11};
    const size_t n[] = {wire_openssl.least - 1, wire_openssl.least, 5000, WIRE_RECORD_MAX};
    enum { N = sizeof n / sizeof n[0] };
    uint8_t *text = malloc(WIRE_RECORD_MAX), *got = malloc(WIRE_SEALED_MAX);
    uint8_t *sealed[2][N];
    if (lacks(WIRE_AES256GCM))
        skip();
    assert_non_null(text);
    assert_non_null(got);
    for (size_t i = 0; i < WIRE_RECORD_MAX; i++)
        text[i] = (uint8_t)(i * 7 + i / 256);
    for (int k = 0; k < 2; k++) {
        wire_use_aes(k ? &wire_openssl : NULL);
        struct wire_cipher *c = wire_cipher_new(WIRE_AES256GCM, key);
        for (int i = 0; i < N; i++) {
            assert_non_null(sealed[k][i] = malloc(WIRE_SEALED_MAX));
            if (i % 2) { /* in place */
                memcpy(sealed[k][i], text, n[i]);
                wire_cipher_seal(c, sealed[k][i], sealed[k][i], n[i]);
            } else {
                wire_cipher_seal(c, sealed[k][i], text, n[i]);
            }
        }
        wire_cipher_free(c);
    }
    for (int k = 0; k < 2; k++) {
        wire_use_aes(k ? NULL : &wire_openssl);
        struct wire_cipher *c = wire_cipher_new(WIRE_AES256GCM, key);
        for (int i = 0; i < N; i++) {
            assert_memory_equal(sealed[0][i], sealed[1][i], n[i] + WIRE_TAG);
            sealed[k][i][n[i] / 2] ^= 1;
            assert_int_equal(wire_cipher_open(c, got, sealed[k][i], n[i] + WIRE_TAG), -1);
            sealed[k][i][n[i] / 2] ^= 1;
            assert_int_equal(wire_cipher_open(c, got, sealed[k][i], n[i] + WIRE_TAG), 0);
            assert_memory_equal(got, text, n[i]);
        }
        wire_cipher_free(c);
    }
    wire_use_aes(of_group);
    for (int i = 0; i < 2 * N; i++)
        free(sealed[i / N][i % N]);
    free(text);
    free(got);
}

/* All messages by OpenSSL. */
static int all_by_openssl(void **state) {
    static struct wire_aes all;
    (void)state;
    all = wire_openssl;
    all.least = 0;
    wire_use_aes(of_group = &all);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_of_noise),
        cmocka_unit_test(a_public_key_of_zero_is_refused),
        cmocka_unit_test(published_vectors_of_the_ciphers),
        cmocka_unit_test(messages_open_in_their_order_and_unchanged),
        cmocka_unit_test(both_ends_renew_the_key_after_messages_or_bytes),
        cmocka_unit_test(both_libraries_have_the_same_bytes),
    };
    const int failed = cmocka_run_group_tests_name("libsodium", tests, NULL, NULL);
    return failed + cmocka_run_group_tests_name("OpenSSL", tests, all_by_openssl, NULL);
}
