/* SPDX-License-Identifier: Apache-2.0 */
/* noise.h - the cryptography of a connection: the Noise protocol framework, revision 34, with the
 * pattern NNpsk0, X25519, BLAKE2b, and AES-256-GCM or ChaCha20-Poly1305.
 *
 *     initiator                                responder
 *     message 1: psk, e, payload        -->
 *                                       <--    message 2: e, ee, payload
 *     split: a cipher for each direction
 *
 * The pre-shared key is the job's key. Both ephemeral keys are new for each connection, so a key
 * that leaks later opens no recorded connection. The prologue is authenticated, not encrypted.
 *
 * Choices that the specification leaves open are WireGuard's: X25519 results of zero are refused,
 * and BLAKE2 is the hash. It is BLAKE2b because libsodium has no BLAKE2s.
 * Source: noiseprotocol.org/noise.html, sections 4, 5, 9, 11.3; RFC 7748, 7693, 8439, 2104;
 * NIST SP 800-38D. */
#pragma once

enum {
    WIRE_NOISE_KEY = 32,
    WIRE_NOISE_HASH = 64,
    WIRE_TAG = 16,                      /* bytes that sealing adds */
    WIRE_SEALED_MAX = 65535,            /* bytes of a Noise message at most, the tag included */
    WIRE_RECORD_MAX = 65535 - WIRE_TAG, /* bytes of its contents */
};

enum wire_cipher_kind { WIRE_AES256GCM = 1, WIRE_CHACHA20POLY1305 = 2 };
/* A set of enum wire_cipher_kind: the ciphers that this CPU can use. */
unsigned wire_ciphers(void);

/* AES-256-GCM of another library, for long messages; libsodium seals the short ones. The bytes are
 * the same. libsodium does 2.4 GB/s on a core where OpenSSL does 5.5, but OpenSSL adds 4 MB to a
 * static program and takes longer for less than about 600 bytes. */
struct wire_aes {
    size_t least;                                      /* bytes of contents from which it is used */
    void *(*begin)(const uint8_t key[WIRE_NOISE_KEY]); /* NULL: libsodium goes on */
    void (*end)(void *key);                            /* wipes it */
    /* out may be p. 0; -1: libsodium seals, or the bytes do not open */
    int (*seal)(void *key, const uint8_t nonce[12], uint8_t *out, const uint8_t *p, size_t n);
    int (*open)(void *key, const uint8_t nonce[12], uint8_t *out, const uint8_t *p, size_t n);
};
extern const struct wire_aes wire_openssl; /* wire/aes_openssl.c: links OpenSSL's libcrypto */
/* For all ciphers of this process that begin afterwards. Call it before there are threads. */
void wire_use_aes(const struct wire_aes *aes);

/* One direction of a connection: a key and a counter that is the nonce. Messages open only in the
 * order in which they were sealed. Both ends renew the key after 2^32 messages or 64 GiB (Noise's
 * REKEY). */
struct wire_cipher;
struct wire_cipher *wire_cipher_new(enum wire_cipher_kind kind,
                                    const uint8_t key[WIRE_NOISE_KEY]); /* NULL: no memory */
void wire_cipher_free(struct wire_cipher *c);                           /* wipes the key */
/* Seals n bytes (at most WIRE_RECORD_MAX) into n + WIRE_TAG bytes at `out`; out may be p. */
void wire_cipher_seal(struct wire_cipher *c, uint8_t *out, const uint8_t *p, size_t n);
/* Opens n bytes, the tag included, into n - WIRE_TAG bytes at `out`; out may be p. -1: they are not
 * the next message of the peer. */
int wire_cipher_open(struct wire_cipher *c, uint8_t *out, const uint8_t *p, size_t n);
/* A message without contents that authenticates n bytes which are sent in clear. Opening them: -1
 * if they are not those of the peer's next message. */
void wire_cipher_tag(struct wire_cipher *c, uint8_t tag[WIRE_TAG], const void *clear, size_t n);
int wire_cipher_check(struct wire_cipher *c, const uint8_t tag[WIRE_TAG], const void *clear,
                      size_t n);
/* For tests: renew the key after so many messages or bytes of contents. */
void wire_cipher_limits(struct wire_cipher *c, uint64_t messages, uint64_t bytes);

struct wire_noise;
/* Copies the key and the prologue. NULL: out of memory. */
struct wire_noise *wire_noise_new(enum wire_cipher_kind kind, int initiator,
                                  const uint8_t psk[WIRE_NOISE_KEY], const void *prologue,
                                  size_t n_prologue);
void wire_noise_free(struct wire_noise *s); /* wipes all keys */
/* For tests: the ephemeral secret, instead of a random one. */
void wire_noise_ephemeral(struct wire_noise *s, const uint8_t secret[WIRE_NOISE_KEY]);
/* Appends this end's message with the payload. 0 or PD_ENOMEM. */
int wire_noise_write(struct wire_noise *s, const void *payload, size_t n, struct pd_buf *out,
                     struct pd_err *err);
/* Reads the peer's message and appends its payload. PD_EAUTH: the peer has another key or another
 * prologue, or the message was changed. */
int wire_noise_read(struct wire_noise *s, const uint8_t *msg, size_t n, struct pd_buf *payload,
                    struct pd_err *err);
/* After both messages: the ciphers of both directions, which the caller frees. 0 or PD_ENOMEM. */
int wire_noise_split(struct wire_noise *s, struct wire_cipher **send, struct wire_cipher **receive,
                     struct pd_err *err);
/* After both messages: a hash that is the same at both ends and different in every connection. */
const uint8_t *wire_noise_hash(const struct wire_noise *s); /* WIRE_NOISE_HASH bytes */
