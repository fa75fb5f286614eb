/* SPDX-License-Identifier: Apache-2.0 */
/* aes_openssl.c - AES-256-GCM of OpenSSL, for long messages (see wire/noise.h). */
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "wire/noise.h"

static void *aes_begin(const uint8_t key[WIRE_NOISE_KEY]) {
    /* No exit handler: other threads may still seal while one is in exit(). */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    if (c && EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, key, NULL, 1) == 1)
        return c;
    EVP_CIPHER_CTX_free(c);
    return NULL;
}

static void aes_end(void *key) { EVP_CIPHER_CTX_free(key); /* wipes it */ }

static int aes_seal(void *key, const uint8_t nonce[12], uint8_t *out, const uint8_t *p, size_t n) {
    int got = 0, none;
    if (EVP_CipherInit_ex(key, NULL, NULL, NULL, nonce, 1) != 1)
        return -1;
    if (EVP_CipherUpdate(key, out, &got, p, (int)n) != 1 || (size_t)got != n ||
        EVP_CipherFinal_ex(key, out + n, &none) != 1 ||
        EVP_CIPHER_CTX_ctrl(key, EVP_CTRL_AEAD_GET_TAG, WIRE_TAG, out + n) != 1)
        abort(); /* it allocates nothing here, and p may be overwritten */
    return 0;
}

static int aes_open(void *key, const uint8_t nonce[12], uint8_t *out, const uint8_t *p, size_t n) {
    uint8_t tag[WIRE_TAG];
    int got = 0, none;
    n -= WIRE_TAG;
    memcpy(tag, p + n, sizeof tag); /* OpenSSL takes no constant tag, and out may be p */
    return EVP_CipherInit_ex(key, NULL, NULL, NULL, nonce, 0) == 1 &&
                   EVP_CIPHER_CTX_ctrl(key, EVP_CTRL_AEAD_SET_TAG, WIRE_TAG, tag) == 1 &&
                   EVP_CipherUpdate(key, out, &got, p, (int)n) == 1 && (size_t)got == n &&
                   EVP_CipherFinal_ex(key, out + n, &none) == 1
               ? 0
               : -1;
}

const struct wire_aes wire_openssl = {
    .least = 640, .begin = aes_begin, .end = aes_end, .seal = aes_seal, .open = aes_open};
