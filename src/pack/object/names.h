/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - the names in a folder, sorted by bytes: the list does not depend on the order on disk.
 */
#pragma once

struct pack_names {
    char **v;
    size_t n, cap;
};

/* Adds all names but "." and ".." to *l, which is zeroed before the first use. Takes ownership of
 * `fd`. 0, PD_ENOMEM, or PD_EIO with errno. Release *l in any case. */
int pack_names_read(struct pack_names *l, int fd);
void pack_names_release(struct pack_names *l);
