/* SPDX-License-Identifier: Apache-2.0 */
/* top_rows.h - the order of the processes in `paddlectl top`: who holds the others up? */
#pragma once

#include <jansson.h>

enum top_sort { TOP_WAIT, TOP_CPU, TOP_MEMORY, TOP_SPEED, TOP_NODE };

struct top_row { /* a process */
    int64_t node, rank, pid, threads, memory, pass, batch;
    const char *host;
    char role[16], unit[24];
    int is_running, is_trainer;
    int is_stopped;          /* by a signal, as SIGSTOP */
    double cpu;              /* percent of one CPU; -1: not known */
    double wait;             /* part of its time that it waits for servers, 0..1; -1: not known */
    double rate;             /* samples a second; -1: not known */
    double age_s;            /* of its last event; -1: it has none */
    double sent, received;   /* bytes a second; -1: not known */
    int64_t waiting, queued; /* pserver: requests that wait, bytes of answers; -1: not known */
    int64_t rows;            /* pserver: of all tables; -1: not known */
    json_t *tables;          /* pserver: rows of each table, borrowed; or NULL */
};

/* "wait", "cpu", ...; NULL is wait. 0; -1: no such order. */
int top_sort_parse(const char *text, enum top_sort *out);
/* TOP_WAIT: first a process that is stopped by a signal; then a trainer without progress for
 * TOP_SILENT_S longer than the others, the longest silent first; then trainers by `wait`, the
 * smallest first; then the other processes by CPU. What is not known and what has ended comes last;
 * equal ones by node. */
enum { TOP_SILENT_S = 5 };
void top_rows_sort(struct top_row *rows, size_t n, enum top_sort by);
/* "trainer 2 on gpu-02 holds the others up: it waits 1 % of its time, they at least 40 %", or "".
 */
void top_rows_verdict(const struct top_row *rows, size_t n, char *out, size_t cap);
