/* SPDX-License-Identifier: Apache-2.0 */
/* noise.c - see noise.h. Names in comments are those of the Noise specification. */
#include "wire/noise.h"

#include <sodium.h>

enum { BLOCK = 128 /* of BLAKE2b, for HMAC */, NONCE = 12 };

#define REKEY_MESSAGES ((uint64_t)1 << 32)
#define REKEY_BYTES ((uint64_t)64 << 30)

_Static_assert(WIRE_NOISE_KEY == crypto_aead_aes256gcm_KEYBYTES, "one key size");
_Static_assert(WIRE_NOISE_KEY == crypto_aead_chacha20poly1305_ietf_KEYBYTES, "one key size");
_Static_assert(WIRE_TAG == crypto_aead_aes256gcm_ABYTES, "one tag size");
_Static_assert(NONCE == crypto_aead_aes256gcm_NPUBBYTES, "one nonce size");

/* --- CipherState --- */

struct wire_cipher {
    crypto_aead_aes256gcm_state aes; /* the expanded key */
    uint8_t key[WIRE_NOISE_KEY];
    enum wire_cipher_kind kind;
    uint64_t nonce;
    uint64_t messages, bytes; /* since the key was new */
    uint64_t max_messages, max_bytes;
    void *long_key; /* of long_aes */
};

static const struct wire_aes *long_aes; /* for long messages; NULL: libsodium seals all */

void wire_use_aes(const struct wire_aes *aes) { long_aes = aes; }

static void end_long_key(struct wire_cipher *c) {
    if (c->long_key)
        long_aes->end(c->long_key);
    c->long_key = NULL;
}

unsigned wire_ciphers(void) {
    return sodium_init() < 0 ? 0
                             : WIRE_CHACHA20POLY1305 |
                                   (crypto_aead_aes256gcm_is_available() ? WIRE_AES256GCM : 0);
}

static void set_key(struct wire_cipher *c, const uint8_t key[WIRE_NOISE_KEY]) {
    memmove(c->key, key, sizeof c->key);
    c->messages = c->bytes = 0;
    end_long_key(c);
    if (c->kind == WIRE_AES256GCM)
        crypto_aead_aes256gcm_beforenm(&c->aes, c->key);
}

struct wire_cipher *wire_cipher_new(enum wire_cipher_kind kind, const uint8_t key[WIRE_NOISE_KEY]) {
    struct wire_cipher *c = pd_secret_new(sizeof *c);
    if (!c)
        return NULL;
    c->kind = kind;
    c->max_messages = REKEY_MESSAGES;
    c->max_bytes = REKEY_BYTES;
    set_key(c, key);
    return c;
}

void wire_cipher_free(struct wire_cipher *c) {
    if (!c)
        return;
    end_long_key(c);
    pd_secret_free(c, sizeof *c);
}

void wire_cipher_limits(struct wire_cipher *c, uint64_t messages, uint64_t bytes) {
    c->max_messages = messages;
    c->max_bytes = bytes;
}

/* Four zeros, then the counter: big-endian for AES-GCM, little-endian for ChaCha20 (section 12). */
static void put_nonce(const struct wire_cipher *c, uint64_t counter, uint8_t nonce[NONCE]) {
    memset(nonce, 0, NONCE);
    for (unsigned i = 0; i < 8; i++)
        nonce[4 + i] = (uint8_t)(counter >> 8 * (c->kind == WIRE_AES256GCM ? 7 - i : i));
}

/* ENCRYPT(k, n, ad, plaintext) */
static void encrypt(struct wire_cipher *c, uint64_t counter, const uint8_t *ad, size_t n_ad,
                    uint8_t *out, const uint8_t *p, size_t n) {
    uint8_t nonce[NONCE];
    put_nonce(c, counter, nonce);
    if (c->kind == WIRE_AES256GCM)
        crypto_aead_aes256gcm_encrypt_afternm(out, NULL, p, n, ad, n_ad, NULL, nonce, &c->aes);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, p, n, ad, n_ad, NULL, nonce, c->key);
}

/* DECRYPT(k, n, ad, ciphertext) */
static int decrypt(struct wire_cipher *c, uint64_t counter, const uint8_t *ad, size_t n_ad,
                   uint8_t *out, const uint8_t *p, size_t n) {
    uint8_t nonce[NONCE];
    put_nonce(c, counter, nonce);
    if (n < WIRE_TAG)
        return -1;
    return c->kind == WIRE_AES256GCM
               ? crypto_aead_aes256gcm_decrypt_afternm(out, NULL, NULL, p, n, ad, n_ad, nonce,
                                                       &c->aes)
               : crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, p, n, ad, n_ad, nonce,
                                                           c->key);
}

/* Counts a message with n bytes of contents. REKEY(k), section 4.2: the new key is the encryption
 * of zeros with the largest nonce, which no message uses. */
static void count(struct wire_cipher *c, size_t n) {
    static const uint8_t zeros[WIRE_NOISE_KEY];
    uint8_t key[WIRE_NOISE_KEY + WIRE_TAG];
    c->nonce++;
    c->bytes += n;
    if (++c->messages < c->max_messages && c->bytes < c->max_bytes)
        return;
    encrypt(c, UINT64_MAX, NULL, 0, key, zeros, sizeof zeros);
    set_key(c, key);
    sodium_memzero(key, sizeof key);
}

/* 1: the message is for the library of long messages. */
static int is_long(struct wire_cipher *c, size_t n) {
    if (c->kind != WIRE_AES256GCM || !long_aes || n < long_aes->least)
        return 0;
    if (!c->long_key)
        c->long_key = long_aes->begin(c->key);
    return c->long_key != NULL;
}

void wire_cipher_seal(struct wire_cipher *c, uint8_t *out, const uint8_t *p, size_t n) {
    uint8_t nonce[NONCE];
    put_nonce(c, c->nonce, nonce);
    if (!is_long(c, n) || long_aes->seal(c->long_key, nonce, out, p, n))
        encrypt(c, c->nonce, NULL, 0, out, p, n);
    count(c, n);
}

int wire_cipher_open(struct wire_cipher *c, uint8_t *out, const uint8_t *p, size_t n) {
    uint8_t nonce[NONCE];
    put_nonce(c, c->nonce, nonce);
    if (n >= WIRE_TAG && is_long(c, n - WIRE_TAG) ? long_aes->open(c->long_key, nonce, out, p, n)
                                                  : decrypt(c, c->nonce, NULL, 0, out, p, n))
        return -1;
    count(c, n - WIRE_TAG);
    return 0;
}

void wire_cipher_tag(struct wire_cipher *c, uint8_t tag[WIRE_TAG], const void *clear, size_t n) {
    encrypt(c, c->nonce, clear, n, tag, NULL, 0);
    count(c, 0);
}

int wire_cipher_check(struct wire_cipher *c, const uint8_t tag[WIRE_TAG], const void *clear,
                      size_t n) {
    uint8_t none;
    if (decrypt(c, c->nonce, clear, n, &none, tag, WIRE_TAG))
        return -1;
    count(c, 0);
    return 0;
}

/* --- SymmetricState and HandshakeState --- */

struct wire_noise {
    enum wire_cipher_kind kind;
    int initiator, fixed; /* fixed: the ephemeral secret is set */
    uint8_t psk[WIRE_NOISE_KEY];
    uint8_t ck[WIRE_NOISE_HASH], h[WIRE_NOISE_HASH];
    struct wire_cipher *cipher; /* NULL: no key yet */
    uint8_t secret[crypto_scalarmult_SCALARBYTES], own[crypto_scalarmult_BYTES],
        peer[crypto_scalarmult_BYTES];
};

/* HMAC-BLAKE2b (RFC 2104). `key` has WIRE_NOISE_HASH bytes, less than a block; the message has two
 * parts. */
static void hmac(uint8_t out[WIRE_NOISE_HASH], const uint8_t *key, const void *p, size_t n,
                 const void *q, size_t m) {
    crypto_generichash_state st;
    uint8_t pad[BLOCK], inner[WIRE_NOISE_HASH];
    for (size_t i = 0; i < BLOCK; i++)
        pad[i] = (uint8_t)((i < WIRE_NOISE_HASH ? key[i] : 0) ^ 0x36);
    crypto_generichash_init(&st, NULL, 0, WIRE_NOISE_HASH);
    crypto_generichash_update(&st, pad, BLOCK);
    crypto_generichash_update(&st, p, n);
    crypto_generichash_update(&st, q, m);
    crypto_generichash_final(&st, inner, sizeof inner);
    for (size_t i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    crypto_generichash_init(&st, NULL, 0, WIRE_NOISE_HASH);
    crypto_generichash_update(&st, pad, BLOCK);
    crypto_generichash_update(&st, inner, sizeof inner);
    crypto_generichash_final(&st, out, WIRE_NOISE_HASH);
    sodium_memzero(&st, sizeof st);
    sodium_memzero(pad, sizeof pad);
    sodium_memzero(inner, sizeof inner);
}

/* HKDF(ck, input, n_out) with n_out = 2 or 3. */
static void hkdf(const uint8_t ck[WIRE_NOISE_HASH], const void *input, size_t n,
                 uint8_t out[][WIRE_NOISE_HASH], unsigned n_out) {
    uint8_t key[WIRE_NOISE_HASH];
    hmac(key, ck, input, n, NULL, 0);
    for (unsigned i = 0; i < n_out; i++) {
        const uint8_t number = (uint8_t)(i + 1);
        hmac(out[i], key, i ? out[i - 1] : NULL, i ? WIRE_NOISE_HASH : 0, &number, 1);
    }
    sodium_memzero(key, sizeof key);
}

static void mix_hash(struct wire_noise *s, const void *p, size_t n) {
    crypto_generichash_state st;
    crypto_generichash_init(&st, NULL, 0, WIRE_NOISE_HASH);
    crypto_generichash_update(&st, s->h, sizeof s->h);
    crypto_generichash_update(&st, p, n);
    crypto_generichash_final(&st, s->h, sizeof s->h);
}

/* InitializeKey */
static int set_cipher(struct wire_noise *s, const uint8_t *key) {
    wire_cipher_free(s->cipher);
    s->cipher = wire_cipher_new(s->kind, key);
    return s->cipher ? 0 : PD_ENOMEM;
}

/* MixKey, or with a third output MixKeyAndHash. */
static int mix_key(struct wire_noise *s, const void *input, size_t n, int and_hash) {
    uint8_t out[3][WIRE_NOISE_HASH];
    hkdf(s->ck, input, n, out, and_hash ? 3 : 2);
    memcpy(s->ck, out[0], sizeof s->ck);
    if (and_hash)
        mix_hash(s, out[1], WIRE_NOISE_HASH);
    int rc = set_cipher(s, out[and_hash ? 2 : 1]);
    sodium_memzero(out, sizeof out);
    return rc;
}

struct wire_noise *wire_noise_new(enum wire_cipher_kind kind, int initiator,
                                  const uint8_t psk[WIRE_NOISE_KEY], const void *prologue,
                                  size_t n_prologue) {
    const char *name = kind == WIRE_AES256GCM ? "Noise_NNpsk0_25519_AESGCM_BLAKE2b"
                                              : "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b";
    struct wire_noise *s = wire_ciphers() & kind ? pd_secret_new(sizeof *s) : NULL;
    if (!s)
        return NULL;
    s->kind = kind;
    s->initiator = initiator;
    memcpy(s->psk, psk, sizeof s->psk);
    memcpy(s->h, name, strlen(name)); /* shorter than a hash: padded with zeros */
    memcpy(s->ck, s->h, sizeof s->ck);
    mix_hash(s, prologue, n_prologue);
    return s;
}

void wire_noise_free(struct wire_noise *s) {
    if (!s)
        return;
    wire_cipher_free(s->cipher);
    pd_secret_free(s, sizeof *s);
}

void wire_noise_ephemeral(struct wire_noise *s, const uint8_t secret[WIRE_NOISE_KEY]) {
    memcpy(s->secret, secret, sizeof s->secret);
    s->fixed = 1;
}

/* The token "e" for a public key, in a pattern with a pre-shared key (section 9.2). */
static int mix_ephemeral(struct wire_noise *s, const uint8_t *public) {
    mix_hash(s, public, crypto_scalarmult_BYTES);
    return mix_key(s, public, crypto_scalarmult_BYTES, 0);
}

/* The token "ee". -1: the peer's key gives zero. */
static int mix_shared(struct wire_noise *s) {
    uint8_t shared[crypto_scalarmult_BYTES];
    if (crypto_scalarmult(shared, s->secret, s->peer))
        return -1;
    int rc = mix_key(s, shared, sizeof shared, 0);
    sodium_memzero(shared, sizeof shared);
    return rc;
}

int wire_noise_write(struct wire_noise *s, const void *payload, size_t n, struct pd_buf *out,
                     struct pd_err *err) {
    if (!s->fixed)
        randombytes_buf(s->secret, sizeof s->secret);
    crypto_scalarmult_base(s->own, s->secret);
    uint8_t *sealed = pd_malloc(n + WIRE_TAG);
    int rc = sealed ? 0 : PD_ENOMEM;
    if (!rc && s->initiator)
        rc = mix_key(s, s->psk, sizeof s->psk, 1);
    if (!rc)
        rc = mix_ephemeral(s, s->own);
    if (!rc && !s->initiator)
        rc = mix_shared(s);
    if (!rc) {
        encrypt(s->cipher, 0, s->h, sizeof s->h, sealed, payload, n);
        mix_hash(s, sealed, n + WIRE_TAG);
        pd_put(out, s->own, sizeof s->own);
        pd_put(out, sealed, n + WIRE_TAG);
        rc = out->failed ? PD_ENOMEM : 0;
    }
    free(sealed);
    return !rc        ? 0
           : rc == -1 ? pd_fail(err, PD_EAUTH, "handshake: the peer's key is no key")
                      : pd_oom(err, "the handshake");
}

int wire_noise_read(struct wire_noise *s, const uint8_t *msg, size_t n, struct pd_buf *payload,
                    struct pd_err *err) {
    if (n < sizeof s->peer + WIRE_TAG)
        return pd_fail(err, PD_EPROTO, "handshake: a message of %zu bytes", n);
    memcpy(s->peer, msg, sizeof s->peer);
    msg += sizeof s->peer;
    n -= sizeof s->peer;
    uint8_t *plain = pd_malloc(n);
    int rc = plain ? 0 : PD_ENOMEM;
    if (!rc && !s->initiator)
        rc = mix_key(s, s->psk, sizeof s->psk, 1);
    if (!rc)
        rc = mix_ephemeral(s, s->peer);
    if (!rc && s->initiator)
        rc = mix_shared(s);
    if (!rc)
        rc = decrypt(s->cipher, 0, s->h, sizeof s->h, plain, msg, n);
    if (!rc) {
        mix_hash(s, msg, n);
        pd_put(payload, plain, n - WIRE_TAG);
        rc = payload->failed ? PD_ENOMEM : 0;
    }
    free(plain);
    return !rc        ? 0
           : rc == -1 ? pd_fail(err, PD_EAUTH, "handshake: the peer does not hold this job's key")
                      : pd_oom(err, "the handshake");
}

int wire_noise_split(struct wire_noise *s, struct wire_cipher **send, struct wire_cipher **receive,
                     struct pd_err *err) {
    uint8_t out[2][WIRE_NOISE_HASH];
    hkdf(s->ck, NULL, 0, out, 2);
    *send = wire_cipher_new(s->kind, out[!s->initiator]);
    *receive = wire_cipher_new(s->kind, out[s->initiator]);
    sodium_memzero(out, sizeof out);
    if (*send && *receive)
        return 0;
    wire_cipher_free(*send);
    wire_cipher_free(*receive);
    *send = *receive = NULL;
    return pd_oom(err, "the handshake");
}

const uint8_t *wire_noise_hash(const struct wire_noise *s) { return s->h; }
