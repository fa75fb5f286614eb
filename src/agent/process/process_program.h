/* SPDX-License-Identifier: Apache-2.0 */
/* process_program.h - the cached worker is run only if its bytes are those that the client named
 * over ssh. The check reads the whole file on a thread, while the agents connect. */
#pragma once

#include <pthread.h>

struct process_program {
    char path[PATH_MAX], packed[PATH_MAX];
    const char *hash; /* hex BLAKE2b-256 */
    int begun, runs;  /* runs: the thread is to be joined */
    pthread_t thread;
    struct pd_err err;
};

/* Begins to check ROOT/.paddlectl/bin/worker-ID. `hash` must outlive the check. */
void process_program_begin(struct process_program *p, const char *root, const char *id,
                           const char *hash);
/* Waits for the result: 0 or PD_E*. A worker that is not right was removed, and so was its packed
 * copy. The next job then brings them again. */
int process_program_result(struct process_program *p, struct pd_err *err);
