/* SPDX-License-Identifier: Apache-2.0 */
/* memory_use.h - how much memory this process has used, and how much it may use. */
#pragma once

/* Peak resident memory of this program in bytes (VmHWM); 0 if /proc does not show it. Not
 * ru_maxrss, which also counts the parent before exec. */
uint64_t pd_peak_memory(void);

/* The bytes that this process may still use: what the machine has available, swap included, or less
 * if a cgroup (version 2 or 1) or an allocation of Slurm limits it. *total: of the machine, or the
 * lowest limit. UINT64_MAX: unknown. `root` is "", or a folder with proc and sys for tests. */
uint64_t pd_memory_available(const char *root, uint64_t *total);

/* May this process take `bytes` more? Everything that can be large asks before it takes memory, so
 * that the kernel need not end a process: declared parameters, rows, layers, frames, answers,
 * shared pages. A sixty-fourth of the machine (or of the limit) stays free. 0, or PD_ENOMEM with
 * figures: "WHAT need 5 GB on HOST, which has ...". */
int pd_memory_admit(double bytes, struct pd_err *err, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
/* The same without a message. The fault point "memory.room" says no. */
int pd_memory_fits(double bytes);
/* "HOST, which has 16 GB, 0.2 GB of them available"; returns `out`. */
enum { PD_MEMORY_TEXT = HOST_NAME_MAX + 100 };
const char *pd_memory_text(char out[PD_MEMORY_TEXT]);
