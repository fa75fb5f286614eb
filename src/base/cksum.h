/* SPDX-License-Identifier: Apache-2.0 */
/* cksum.h - the checksum that POSIX `cksum` prints, so that a shell script on any node can detect a
 * damaged file quickly. */
#pragma once

/* CRC-32 (polynomial 04c11db7, highest bit first) over the bytes and then their count, inverted. It
 * detects accidents, not attacks. Source: POSIX.1-2017, cksum. */
uint32_t pd_cksum(const void *p, size_t n);
