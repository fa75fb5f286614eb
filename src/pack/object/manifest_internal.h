/* SPDX-License-Identifier: Apache-2.0 */
/* manifest_internal.h - shared by the writer and the reader of manifests. Internal to src/pack. */
#pragma once

#include "pack/object/manifest.h"

enum {
    MANIFEST_VERSION = 1,
    MANIFEST_LEAF = 1,
    MANIFEST_INDEX = 2,
    MANIFEST_ROOT = 3,
    MANIFEST_MORE = 4,
    MANIFEST_REF = 36
};

/* The last entry, against which the next one is checked. */
struct manifest_path_rules {
    char last[PATH_MAX];
    size_t last_len; /* 0: no entry yet */
    int last_is_folder;
    uint64_t path_bytes;
};

/* Checks path, order, folder, mode, link target and size. A valid entry becomes the last entry. */
int manifest_check_entry(struct manifest_path_rules *k, const struct manifest_entry *e,
                         struct pd_err *err);
