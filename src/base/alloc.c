/* alloc.c - see alloc.h. */

enum { GROW_LEAST = 8 }; /* elements of a new array */

void *pd_malloc(size_t n) { return pd_fault("alloc") ? NULL : malloc(n ? n : 1); }
void *pd_calloc(size_t n, size_t size) {
    return pd_fault("alloc") ? NULL : calloc(n ? n : 1, size ? size : 1);
}
void *pd_realloc(void *p, size_t n) { return pd_fault("alloc") ? NULL : realloc(p, n ? n : 1); }

void *pd_grow_array(void *v, size_t *cap, size_t need, size_t size) {
    if (v && need <= *cap)
        return v;
    if (need > SIZE_MAX / 2 / size)
        return NULL;
    size_t n = *cap < GROW_LEAST / 2 ? GROW_LEAST : 2 * *cap;
    while (n < need)
        n *= 2;
    void *p = pd_realloc(v, n * size);
    if (p)
        *cap = n;
    return p;
}

char *pd_strdup(const char *s) {
    size_t n = strlen(s) + 1;
    char *p = pd_malloc(n);
    return p ? memcpy(p, s, n) : NULL;
}

void *pd_alloc64(size_t n) {
    if (pd_fault("alloc") || n > SIZE_MAX - 127)
        return NULL;
    n = (n + 63) & ~(size_t)63;
    return aligned_alloc(64, n ? n : 64);
}
