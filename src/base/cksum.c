/* SPDX-License-Identifier: Apache-2.0 */
/* cksum.c - see cksum.h. Eight bytes at a time: row[k][b] is the effect of byte b on the register k
 * bytes later. */
#include "base/cksum.h"

#define POLYNOMIAL 0x04c11db7u

static void make_rows(uint32_t row[8][256]) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b << 24;
        for (int i = 0; i < 8; i++)
            c = c << 1 ^ (c >> 31 ? POLYNOMIAL : 0);
        row[0][b] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            row[k][b] = row[k - 1][b] << 8 ^ row[0][row[k - 1][b] >> 24];
}

uint32_t pd_cksum(const void *data, size_t n) {
    const uint8_t *p = data;
    uint32_t row[8][256], c = 0;
    size_t left = n;
    make_rows(row);
    for (; left >= 8; p += 8, left -= 8)
        c = row[7][p[0] ^ c >> 24] ^ row[6][p[1] ^ (c >> 16 & 255)] ^
            row[5][p[2] ^ (c >> 8 & 255)] ^ row[4][p[3] ^ (c & 255)] ^ row[3][p[4]] ^ row[2][p[5]] ^
            row[1][p[6]] ^ row[0][p[7]];
    for (; left; left--)
        c = c << 8 ^ row[0][c >> 24 ^ *p++];
    for (; n; n >>= 8)
        c = c << 8 ^ row[0][c >> 24 ^ (n & 255)];
    return ~c;
}
