/* batch.c - see batch.h. */
#include "data/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"

int pd_batch_init(struct pd_batch *b, uint32_t n_fields, uint32_t cap) {
    memset(b, 0, sizeof *b);
    b->ids = pd_calloc(n_fields, sizeof *b->ids);
    b->stream = pd_calloc(cap, sizeof *b->stream);
    b->index = pd_calloc(cap, sizeof *b->index);
    int ok = b->ids && b->stream && b->index;
    for (uint32_t i = 0; ok && i < n_fields; i++) {
        ok = (b->ids[i] = pd_calloc(cap, sizeof **b->ids)) != NULL;
        b->n_fields = i + 1;
    }
    b->cap = cap;
    if (!ok)
        pd_batch_release(b);
    return ok ? 0 : PD_ENOMEM;
}

void pd_batch_release(struct pd_batch *b) {
    for (uint32_t i = 0; b->ids && i < b->n_fields; i++)
        free(b->ids[i]);
    free(b->ids);
    free(b->stream);
    free(b->index);
    memset(b, 0, sizeof *b);
}
