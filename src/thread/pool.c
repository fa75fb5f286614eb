/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - see pool.h. The head of a block has its size; the free blocks of a size class form a
 * list through their heads.
 *
 * Size classes: 4 per power of two, from 128 bytes, head included. A step in steady state allocates
 * nothing. */
#include "thread/pool.h"

#include "thread/page_memory.h"

#ifdef __has_feature
#define ASAN_OF_CLANG __has_feature(address_sanitizer)
#else
#define ASAN_OF_CLANG 0
#endif
#if defined __SANITIZE_ADDRESS__ || ASAN_OF_CLANG
#include <sanitizer/asan_interface.h>
#define HIDE(p, n) __asan_poison_memory_region(p, n)
#define SHOW(p, n) __asan_unpoison_memory_region(p, n)
#else
#define HIDE(p, n) ((void)(p), (void)(n))
#define SHOW(p, n) ((void)(p), (void)(n))
#endif

enum { LEAST_BITS = 7, MOST_BITS = 40, PER_BIT = 4, WINDOW = 1024, HEAD = 64 };
enum { N_CLASSES = (MOST_BITS - LEAST_BITS) * PER_BIT, NOT_KEPT = -1 };

struct pool_block {
    struct pool_block *next;
    size_t bytes; /* head included */
    int class, mapped;
};
_Static_assert(sizeof(struct pool_block) <= HEAD, "the head keeps the alignment");

struct pd_pool {
    struct pool_block *free[N_CLASSES];
    size_t in_use, kept; /* bytes */
    size_t peak, before; /* peak use in this window and in the last window */
    uint32_t n_puts;     /* in this window */
};

struct pd_pool *pd_pool_new(void) {
    return pd_calloc(1, sizeof(struct pd_pool));
}

static void release(struct pool_block *b) {
    SHOW(b, b->bytes);
    if (b->mapped)
        pd_huge_page_unmap(b, b->bytes);
    else
        free(b);
}

/* Frees blocks, large ones first, until at most `limit` bytes are kept. */
static void trim(struct pd_pool *p, size_t limit) {
    for (int k = N_CLASSES; k-- > 0 && p->kept > limit;)
        while (p->free[k] && p->kept > limit) {
            struct pool_block *b = p->free[k];
            p->free[k] = b->next;
            p->kept -= b->bytes;
            release(b);
        }
}

void pd_pool_free(struct pd_pool *p) {
    if (!p)
        return;
    trim(p, 0);
    free(p);
}

/* The size class for n bytes. Sets *n to the block size of the class. */
static int class_of(size_t *n) {
    int bits = LEAST_BITS;
    if (*n <= (size_t)1 << (LEAST_BITS - 1))
        return NOT_KEPT;
    while (bits<MOST_BITS && * n>(size_t) 1 << bits)
        bits++;
    if (bits == MOST_BITS)
        return NOT_KEPT;
    size_t quarter = (size_t)1 << (bits - 3),
           k = (*n + quarter - 1) / quarter - PER_BIT; /* 1 to 4 */
    *n = quarter * (PER_BIT + k);
    return (bits - LEAST_BITS) * PER_BIT + (int)k - 1;
}

static struct pool_block *fresh(size_t bytes, int class) {
    int mapped = class != NOT_KEPT && bytes >= PD_HUGE_PAGE;
    if (mapped)
        bytes = (bytes + PD_HUGE_PAGE - 1) / PD_HUGE_PAGE * PD_HUGE_PAGE;
    struct pool_block *b = mapped ? pd_huge_page_map(bytes) : pd_alloc64(bytes);
    if (b)
        *b = (struct pool_block){.bytes = bytes, .class = class, .mapped = mapped};
    return b;
}

void *pd_pool_get(struct pd_pool *p, size_t n) {
    if (n > SIZE_MAX / 4)
        return NULL;
    size_t bytes = (n ? n : 1) + HEAD; /* the pointer stays inside the block */
    int class = p ? class_of(&bytes) : NOT_KEPT;
    struct pool_block *b = class == NOT_KEPT ? NULL : p->free[class];
    if (b) {
        SHOW(b, b->bytes);
        p->free[class] = b->next;
        p->kept -= b->bytes;
    } else if (!(b = fresh(bytes, class))) {
        return NULL;
    }
    if (p) {
        p->in_use += b->bytes;
        if (p->in_use > p->peak)
            p->peak = p->in_use;
    }
    return (char *)b + HEAD;
}

static void next_window(struct pd_pool *p) {
    p->before = p->peak;
    p->peak = p->in_use;
    p->n_puts = 0;
    trim(p, p->before);
}

void pd_pool_put(struct pd_pool *p, void *mem) {
    if (!mem)
        return;
    struct pool_block *b = (struct pool_block *)(void *)((char *)mem - HEAD);
    if (p)
        p->in_use -= b->bytes;
    if (b->class == NOT_KEPT) {
        release(b);
        return;
    }
    b->next = p->free[b->class];
    p->free[b->class] = b;
    p->kept += b->bytes;
    size_t peak = p->peak > p->before ? p->peak : p->before;
    HIDE(mem, b->bytes - HEAD);
    if (p->kept > peak)
        trim(p, peak);
    if (++p->n_puts == WINDOW)
        next_window(p);
}

size_t pd_pool_kept(const struct pd_pool *p) { return p->kept; }
