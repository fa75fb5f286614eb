/* memory_use.h - how much memory this process has used. */
#ifndef PD_BASE_MEMORY_USE_H
#define PD_BASE_MEMORY_USE_H

#include <stdint.h>

/* Peak resident memory of this program in bytes (VmHWM); 0 if /proc does not show it. Not
 * ru_maxrss, which also counts the parent before exec. */
uint64_t pd_peak_memory(void);

#endif
