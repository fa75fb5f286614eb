/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - trainers' events (docs/protocol.md, "Events"): parsed, and as text. */
#pragma once

#include <jansson.h>

enum { PROGRESS_METRICS = 8 };

struct progress {
    /* num_passes 0: unknown */
    int64_t rank, pass, num_passes, batch, samples;
    double fraction; /* done part of this pass, 0..1; -1: unknown */
    double cost;     /* NAN: unknown */
    /* samples a second of the job and of this trainer; -1: unknown */
    double rate, own_rate;
    /* part of its time that the trainer waits for servers, 0..1; -1: unknown */
    double wait;
    char unit[24]; /* name of a sample: "words" */
    struct {
        char name[24];
        double value;
    } metric[PROGRESS_METRICS];
    int n_metrics;
};

/* What a trainer does while it completes no steps. */
struct doing {
    char what[24];      /* "training", "testing", "saving", "loading", or another text */
    uint64_t waited_ms; /* it has waited for servers for so long; 0: it does not wait */
    char servers[200];  /* the servers that it waits for; "": all, or none */
};

/* Parse any JSON object. 0; -1: no such event. Invalid values count as unknown. */
int doing_parse(struct doing *d, const json_t *event);
/* Parse any JSON object. 0; -1: no progress event. Invalid values count as unknown. */
int progress_parse(struct progress *p, const json_t *event);
/* Takes the evaluators' values of an event "test" over, so that they are not those of the test
 * before. 0; -1: no such event. */
int progress_take_test(struct progress *p, const json_t *event);
/* Write "pass 1/2 41 %, batch 300, cost 4.12, perplexity 61.6, 12300 words/s". */
/* The job has ended in this state: nothing has a rate, and a job that is done has done all. */
void progress_over(struct progress *p, const char *state);
/* "41 %", or ""; "perplexity 61.6": the last metric, else the cost, or "" */
void progress_percent(const struct progress *p, char *out, size_t cap);
void progress_metric(const struct progress *p, char *out, size_t cap);
void progress_text(const struct progress *p, char *out, size_t cap);
