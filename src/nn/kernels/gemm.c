/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c - matrix products through OpenBLAS, from any number of threads at a time.
 *
 * The serial OpenBLAS of Debian 12 (0.3.21) has a race: blas_memory_alloc finds a free work buffer
 * and takes it in two steps, without a lock. Two threads that begin a product at the same moment
 * may get the same buffer, and both results are wrong. So the linker redirects OpenBLAS's calls of
 * blas_memory_alloc and blas_memory_free to this file (--wrap, see the Makefile). The functions
 * here hold a lock while a buffer is handed out. */
#include <cblas.h>
#include <pthread.h>
#include <sys/mman.h>

#include "base/spans.h"
#include "nn/kernels/kernel.h"

/* BUFFER_SIZE of OpenBLAS's common_x86_64.h; other architectures need less */
enum { WORK_BUFFER = 128 << 20 };

static pthread_mutex_t buffers = PTHREAD_MUTEX_INITIALIZER;

void *__real_blas_memory_alloc(int procpos);
void __real_blas_memory_free(void *buffer);
void *__wrap_blas_memory_alloc(int procpos);
void __wrap_blas_memory_free(void *buffer);

void *__wrap_blas_memory_alloc(int procpos) {
    pthread_mutex_lock(&buffers);
    void *p = __real_blas_memory_alloc(procpos);
    pthread_mutex_unlock(&buffers);
    return p;
}

void __wrap_blas_memory_free(void *buffer) {
    pthread_mutex_lock(&buffers);
    __real_blas_memory_free(buffer);
    pthread_mutex_unlock(&buffers);
}

/* Map the buffers one by one, as OpenBLAS does: a kernel may refuse one large mapping but grant the
 * same memory in parts. */
int nn_gemm_room(uint32_t n_threads, struct pd_err *err) {
    void *last = NULL;
    uint32_t n = 0;
    for (; n < n_threads; n++) {
        void **p = pd_fault("nn.gemm") ? MAP_FAILED
                                       : mmap(NULL, WORK_BUFFER, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            break;
        *p = last;
        last = p;
    }
    for (void *next; last; last = next) {
        next = *(void **)last;
        munmap(last, WORK_BUFFER);
    }
    if (n == n_threads)
        return 0;
    return pd_fail(err, PD_ENOMEM,
                   "no memory for the work buffers of %u threads, %d MB each (of address space: "
                   "see ulimit -v)",
                   n_threads, WORK_BUFFER >> 20);
}

void nn_gemm(int ta, int tb, size_t m, size_t n, size_t k, float alpha, const float *a,
             const float *b, float beta, float *c) {
    nn_gemm_part(ta, tb, m, n, k, alpha, a, ta ? m : k, b, tb ? k : n, beta, c, n);
}

void nn_gemm_part(int ta, int tb, size_t m, size_t n, size_t k, float alpha, const float *a,
                  size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc) {
    assert(m <= INT32_MAX && n <= INT32_MAX && k <= INT32_MAX && lda <= INT32_MAX &&
           ldb <= INT32_MAX && ldc <= INT32_MAX);
    const uint64_t began = pd_span_begin();
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                (blasint)m, (blasint)n, (blasint)k, alpha, a, (blasint)lda, b, (blasint)ldb, beta,
                c, (blasint)ldc);
    pd_span_end("product", began);
}
