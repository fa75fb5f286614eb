/* peak.h - how much memory this process has needed. */
#ifndef PD_BASE_PEAK_H
#define PD_BASE_PEAK_H

#include <stdint.h>

/* Bytes: the most of this program that was in memory at a time (VmHWM; ru_maxrss would count what
 * forked it, too). 0: /proc does not tell. */
uint64_t pd_peak_memory(void);

#endif
