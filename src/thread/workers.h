/* crew.h - threads of somebody else's that share out a piece of work: a callback, so that who has
 * work need not know who has threads.
 *
 *     run(crew, job, arg)  calls job(arg, i, n) once for each i below n, on as many threads, and is
 * back when all are done
 */
#ifndef PD_BASE_CREW_H
#define PD_BASE_CREW_H

#include <stdint.h>

typedef void (*pd_crew_job)(void *arg, uint32_t index, uint32_t n);

struct pd_crew {
    void (*run)(void *crew, pd_crew_job job, void *arg); /* NULL: there are none */
    void *crew;
};

#endif
