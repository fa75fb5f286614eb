/* SPDX-License-Identifier: Apache-2.0 */
/* kept_data.c - see kept_data.h. */
#include "agent/core/kept_data.h"

int kept_data_root(struct kept_data *h, const uint8_t *root, size_t n, struct pd_err *err) {
    uint8_t *copy = pd_malloc(n);
    if (!copy)
        return pd_oom(err, "a package's root object");
    memcpy(copy, root, n);
    free(h->root);
    h->root = copy;
    h->root_n = n;
    return 0;
}

void kept_data_unlock(struct kept_data *h) {
    if (h->fd > 0)
        close(h->fd);
    h->fd = 0;
}

void kept_data_lock(struct kept_data *h, int fd) {
    kept_data_unlock(h);
    h->fd = fd;
}

void kept_data_release(struct kept_data *h) {
    kept_data_unlock(h);
    free(h->root);
    *h = (struct kept_data){0};
}
