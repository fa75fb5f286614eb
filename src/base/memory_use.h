/* memory_use.h - how much memory this process has used, and how much it may use. */
#pragma once

/* Peak resident memory of this program in bytes (VmHWM); 0 if /proc does not show it. Not
 * ru_maxrss, which also counts the parent before exec. */
uint64_t pd_peak_memory(void);

/* The bytes that this process may still use: what the machine has available, swap included, or less
 * if a cgroup (version 2 or 1) limits it. *total: of the machine, or the lowest limit. UINT64_MAX:
 * unknown. `root` is "", or a folder with proc and sys for tests. */
uint64_t pd_memory_available(const char *root, uint64_t *total);
