/* SPDX-License-Identifier: Apache-2.0 */
/* malloc_tune.h - tunes malloc for programs that move much data through buffers of up to some
 * megabytes. */
#pragma once

/* Keep up to 32 MB of freed buffers in the process for reuse. By default glibc returns each large
 * buffer to the kernel, and the next buffer costs a page fault a page: most of an agent's time
 * while it received a package. Call this first in main. */
void pd_malloc_keep_freed(void);
