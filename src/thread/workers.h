/* SPDX-License-Identifier: Apache-2.0 */
/* workers.h - a group of threads that another module owns. A module that has work takes this
 * callback and need not know the owner of the threads.
 *
 *     run(workers, job, arg)   calls job(arg, i, n) once for each i < n on as many threads, and
 *                              returns after all calls */
#pragma once

typedef void (*pd_workers_job)(void *arg, uint32_t index, uint32_t n);

struct pd_workers {
    void (*run)(void *workers, pd_workers_job job, void *arg); /* NULL: no threads */
    void *workers;
};
