/* SPDX-License-Identifier: Apache-2.0 */
/* kept_data.h - the package of data files, between its arrival and the set-up of the job. It holds
 * the package's root object and a lock on its catalog. Without the lock, `clean` would remove the
 * catalog as one without a tree. */
#pragma once

struct kept_data {
    uint8_t *root; /* root object of the last package of kind "data" that began; malloc'ed */
    size_t root_n;
    int fd; /* the locked descriptor of the package's catalog; 0: none */
};

/* Keeps a copy of the root object. 0 or PD_ENOMEM. */
int kept_data_root(struct kept_data *h, const uint8_t *root, size_t n, struct pd_err *err);
/* Takes the descriptor over, and closes an earlier one. */
void kept_data_lock(struct kept_data *h, int fd);
void kept_data_unlock(struct kept_data *h);
void kept_data_release(struct kept_data *h);
