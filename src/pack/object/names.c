/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - see names.h. */
#include "pack/object/names.h"

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add(struct pack_names *l, const char *name) {
    if (pd_grow(l->v, l->cap, l->n + 1))
        return PD_ENOMEM;
    if (!(l->v[l->n] = pd_strdup(name)))
        return PD_ENOMEM;
    l->n++;
    return 0;
}

int pack_names_read(struct pack_names *l, int fd) {
    DIR *d = fdopendir(fd);
    struct dirent *e;
    int rc = 0, no = errno;
    if (!d) {
        close(fd);
        errno = no;
        return PD_EIO;
    }
    while (!rc && (errno = 0, e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            rc = add(l, e->d_name);
    no = errno;
    if (!rc && no)
        rc = PD_EIO;
    closedir(d);
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_bytes);
    errno = no;
    return rc;
}

void pack_names_release(struct pack_names *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
}
