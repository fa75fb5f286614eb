/* SPDX-License-Identifier: Apache-2.0 */
/* pos.c - a reader's position as text. */
#include "data/read/reader.h"

enum { N_NUMBERS = 9, N_NUMBERS_V2 = 8 }; /* numbers behind the hash; version 2 has no `order` */

void data_pos_format(const struct data_pos *p, char out[DATA_POS_TEXT]) {
    const uint64_t v[N_NUMBERS] = {p->file,      p->offset, p->line, p->in_line, p->index,
                                   p->bad_lines, p->pass,   p->skip, p->order};
    int n = snprintf(out, DATA_POS_TEXT, "v3:%016" PRIx64, p->files_hash);
    for (int i = 0; i < N_NUMBERS; i++)
        n += snprintf(out + n, DATA_POS_TEXT - (size_t)n, ":%" PRIu64, v[i]);
}

int data_pos_parse(const char *text, struct data_pos *pos) {
    char copy[DATA_POS_TEXT], hash[17] = "", *at = copy;
    uint8_t bytes[8];
    uint64_t v[N_NUMBERS] = {0}, h = 0;
    if (pd_fmt(copy, sizeof copy, "%s", text) ||
        !(pd_starts_with(copy, "v2:") || pd_starts_with(copy, "v3:")))
        return PD_EDATA;
    const int numbers = copy[1] == '2' ? N_NUMBERS_V2 : N_NUMBERS;
    at += 3;
    char *colon = strchr(at, ':');
    if (!colon || colon - at != 16)
        return PD_EDATA;
    memcpy(hash, at, 16);
    if (pd_unhex(bytes, 8, hash))
        return PD_EDATA;
    at = colon + 1;
    for (int i = 0; i < numbers; i++) {
        colon = strchr(at, ':');
        if ((colon == NULL) != (i == numbers - 1))
            return PD_EDATA;
        if (colon)
            *colon = 0;
        if (pd_parse_u64(at, INT64_MAX, &v[i]))
            return PD_EDATA;
        at = colon ? colon + 1 : at;
    }
    for (int i = 0; i < 8; i++)
        h = h << 8 | bytes[i];
    *pos = (struct data_pos){h, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]};
    return 0;
}
