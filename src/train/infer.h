/* infer.h - what a saved model says of data: one process, no servers.
 *
 *     lines of data, as in training ── network of the model's own train.ini ──▶ a line for each sample
 *
 * Dense parameters are read; tables stay mapped, and a batch copies the rows it needs, so that a
 * table may be larger than memory. An id that the table has no row for is a row of zeros.
 */
#ifndef PD_TRAIN_INFER_H
#define PD_TRAIN_INFER_H

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"

struct train_infer {
    const char *model;     /* its folder */
    const char *data;      /* a file or a pattern; "-": standard input */
    const char *workspace; /* folder that vocabulary_file is relative to */
    const char *config;    /* a train.ini instead of the one in the model; NULL: that one */
    const char *layer;     /* whose output is told; NULL: what the first cost looks at */
    uint32_t batch_size;
    uint32_t top; /* 0: all values of the layer, blanks between; else the largest so many, as
                     "class:value" */
    int trust;    /* the checksums of the model's files are not computed before */
    int out_fd;
    const struct pd_log *log;
};

/* n_samples (may be NULL): lines written. */
int train_infer(const struct train_infer *x, uint64_t *n_samples, struct pd_err *err);

#endif
