/* changed.c - see changed.h. */
#include "ps/table/changed.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fault.h"

int ps_changed_begin(struct ps_changed *c, uint64_t n_rows) {
    c->bits = pd_calloc(n_rows / 64 + 1, sizeof *c->bits);
    c->n = c->bits ? n_rows : 0;
    return c->bits ? 0 : PD_ENOMEM;
}

void ps_changed_release(struct ps_changed *c) {
    free(c->bits);
    *c = (struct ps_changed){0};
}

uint64_t ps_changed_count(const struct ps_changed *c, uint64_t n_rows) {
    uint64_t n = n_rows - c->n;
    for (uint64_t i = 0; i < (c->n + 63) / 64; i++)
        n += (uint64_t)__builtin_popcountll(c->bits[i]);
    return n;
}
