/* clones.h - a function compiled for several kinds of CPU; which one runs is decided when the
 * program is loaded.
 *
 * The bits are the same in all of them: only IEEE operations, none fused (-ffp-contract=off), sums
 * of a shape that the code fixes.
 */
#ifndef PD_BASE_CLONES_H
#define PD_BASE_CLONES_H

#ifdef CLONES /* a test compiles a file once more, for the plainest CPU, and compares bits */
#elif defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES /* sanitizers start after the resolvers that clones need */
#endif

#endif
