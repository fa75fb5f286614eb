/* names.h - the names in a folder, sorted by bytes: the same folder gives the same list, whatever
 * order the disk has. */
#ifndef PD_PACK_NAMES_H
#define PD_PACK_NAMES_H

#include <stddef.h>

struct pack_names {
    char **v;
    size_t n, cap;
};

/* All but "." and "..", added to *l, which is zeroed before. Takes `fd` over. 0, PD_ENOMEM, or
 * PD_EIO with errno. Release it in any case. */
int pack_names_read(struct pack_names *l, int fd);
void pack_names_release(struct pack_names *l);

#endif
