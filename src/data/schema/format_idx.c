/* SPDX-License-Identifier: Apache-2.0 */
/* format_idx.c - parses a record of an idx file: the bytes of an image, then its label, as
 * source_idx.c puts them together. */
#include "data/schema/block.h"
#include "data/schema/format.h"

int data_record_idx(struct data_parser *p, const char *s, size_t n) {
    const struct data_field *image = &p->schema->field[0], *label = &p->schema->field[1];
    uint32_t width = image->batch.width;
    uint8_t class = (uint8_t)s[n - 1];
    struct pd_batch *b = data_sample_begin(p);
    if (!b)
        return PD_ENOMEM;
    if (class >= label->batch.vocabulary)
        return data_bad(p, "label %u is not below the vocabulary, %" PRIu64, class,
                        label->batch.vocabulary);
    float *to = b->values[0] + (size_t)b->n * width;
    for (uint32_t i = 0; i < width; i++) {
        float x = (float)(uint8_t)s[i] / 255;
        if (image->mean)
            x -= image->mean[i];
        if (image->std)
            x /= image->std[i];
        to[i] = x;
    }
    b->ids[1][b->n] = class;
    data_sample_end(p);
    return 0;
}
