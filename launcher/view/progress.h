/* progress.h - a trainer's progress event (docs/protocol.md, the stream "events") taken apart, and
 * as text. */
#ifndef LAUNCHER_PROGRESS_H
#define LAUNCHER_PROGRESS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum { PROGRESS_METRICS = 8 };

struct progress {
    int64_t rank, pass, num_passes, batch, samples; /* num_passes 0: unknown */
    double fraction;       /* of this pass that is done, 0..1; -1: unknown */
    double cost;           /* NAN: unknown */
    double rate, own_rate; /* samples per second of the job, of this trainer; -1: unknown */
    double wait;   /* part of its time that the trainer waited for servers, 0..1; -1: unknown */
    char unit[24]; /* what a sample is: "words" */
    struct {
        char name[24];
        double value;
    } metric[PROGRESS_METRICS];
    int n_metrics;
};

/* 0; -1: no progress event. Any object is fine: what makes no sense is unknown. */
int progress_parse(struct progress *p, const json_t *event);
/* "pass 1/2 41 %, batch 300, cost 4.12, perplexity 61.6, 12300 words/s" */
void progress_text(const struct progress *p, char *out, size_t cap);

#endif
