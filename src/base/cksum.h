/* cksum.h - the checksum that `cksum` of POSIX prints, so that a shell script on any node can tell
 * a damaged file quickly. */
#ifndef PD_BASE_CKSUM_H
#define PD_BASE_CKSUM_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 (polynomial 04c11db7, the highest bit first) of the bytes and then of their count,
 * inverted. Against damage, not against people. Source: POSIX.1-2017, cksum. */
uint32_t pd_cksum(const void *p, size_t n);

#endif
