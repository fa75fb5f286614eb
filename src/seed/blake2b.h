/* SPDX-License-Identifier: Apache-2.0 */
/* blake2b.h - BLAKE2b-256 without a libc. A test compares it with libsodium's crypto_generichash.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Hash n bytes with a key of n_key <= 64 bytes (0: no key). Source: RFC 7693. */
void blake2b_256(uint8_t out[32], const void *key, size_t n_key, const void *p, size_t n);
