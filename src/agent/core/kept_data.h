/* kept_data.h - the data files that came as a package of their own, between the end of that package
 * and the set-up of the job: which package they are, and a lock on its catalog. Without the lock
 * `clean` would take the catalog for one of a tree that is gone. */
#ifndef PD_AGENT_KEPT_DATA_H
#define PD_AGENT_KEPT_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct kept_data {
    uint8_t *root; /* root object of the last package of kind "data" that began; malloc'ed */
    size_t root_n;
    int fd; /* holds the package's catalog; 0: none */
};

/* Copies the root object. */
int kept_data_root(struct kept_data *h, const uint8_t *root, size_t n, struct pd_err *err);
/* Takes the descriptor over; an earlier one is closed. */
void kept_data_lock(struct kept_data *h, int fd);
void kept_data_unlock(struct kept_data *h);
void kept_data_release(struct kept_data *h);

#endif
