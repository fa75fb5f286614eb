/* memory_use.h - how much memory this process has used. */
#pragma once

/* Peak resident memory of this program in bytes (VmHWM); 0 if /proc does not show it. Not
 * ru_maxrss, which also counts the parent before exec. */
uint64_t pd_peak_memory(void);
