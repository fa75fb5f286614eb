/* fault.h - allocation and named fault points, so that a test can make the n-th one fail,
 * repeatably.
 *
 * A program arms them from PADDLE_FAULT="name:count[,name:count]" at start (pd_fault_arm);
 * "alloc:7" makes the 7th pd_malloc/pd_realloc/pd_calloc fail, "save.write:2" the 2nd
 * pd_fault("save.write"), and "kill.NAME:n" ends the process with SIGKILL at the n-th
 * pd_fault("NAME"), "slow.NAME:n" sleeps n ms at each. Unarmed they cost a load.
 */
#ifndef PD_BASE_FAULT_H
#define PD_BASE_FAULT_H

#include <stddef.h>

void pd_fault_arm(const char *spec); /* NULL or "" disarms; meant for start-up and tests only */
int pd_fault(const char *name);      /* 1: the caller must fail here as if the real thing had */

void *pd_malloc(size_t n); /* NULL when out of memory or armed to fail; free() frees */
void *pd_calloc(size_t n, size_t size);
void *pd_realloc(void *p, size_t n);
char *pd_strdup(const char *s);
void *pd_alloc64(size_t n); /* 64-byte aligned, free() frees; n may be 0 */

#endif
