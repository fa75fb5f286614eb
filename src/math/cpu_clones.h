/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_clones.h - compiles a function for several kinds of CPU. The loader chooses the version at
 * program start.
 *
 * All versions give the same bits: only IEEE operations, no fused ones (-ffp-contract=off), and
 * sums in an order that the code fixes. */
#pragma once

#ifdef CPU_CLONES /* a test compiles a file again for the baseline CPU and compares bits */
#elif defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define CPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CPU_CLONES /* the resolvers of clones run before the sanitizers are ready */
#endif
