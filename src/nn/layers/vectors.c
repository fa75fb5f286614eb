/* SPDX-License-Identifier: Apache-2.0 */
/* vectors.c - see vectors.h. A single vector would train without any pair, and nobody would notice:
 * a pooled list is one vector. So it is an error. */
#include "nn/layers/vectors.h"

int nn_vectors_input(struct nn_build *b, struct nn_node *self, uint32_t *n_vectors,
                     struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    int rc = nn_build_n_in(b, self, 1, NN_MAX_INPUTS, err);
    if (!rc && !ini->dim.line)
        rc = pd_fail(err, PD_ECONF, "%s:%d: layer '%s' needs dim, the width of one vector", b->file,
                     self->line, self->name);
    uint32_t n = 0;
    for (uint32_t k = 0; k < self->n_in && !rc; k++) {
        const struct nn_node *in = &b->g->node[self->in[k]];
        if (in->size % ini->dim.value)
            rc = pd_fail(err, PD_ECONF,
                         "%s:%d: layer '%s': dim is %llu, but its input '%s' is [batch x %u], no "
                         "multiple of it",
                         b->file, ini->dim.line, self->name, (unsigned long long)ini->dim.value,
                         in->name, in->size);
        n += in->size / (uint32_t)ini->dim.value;
    }
    if (!rc && n < 2)
        rc = pd_fail(err, PD_ECONF,
                     "%s:%d: layer '%s': %s of one vector has no pairs: give it several vectors, "
                     "or pool its list with pooling = fm or bi_interaction",
                     b->file, ini->inputs.line, self->name, self->type->name);
    self->dim = (uint32_t)ini->dim.value;
    *n_vectors = n;
    return rc;
}
