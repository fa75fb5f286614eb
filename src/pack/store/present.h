/* SPDX-License-Identifier: Apache-2.0 */
/* present.h - how much of a package's contents the store has, before any of it is read: progress
 * counts it from the start. Only catalogs are looked at. Internal to src/pack. */
#pragma once

#include "pack/object/manifest.h"
#include "pack/store/store.h"

struct store_present {
    uint64_t here, rest; /* bytes of extents; rest: of these, from an interrupted transfer */
    const struct store *st;
    struct manifest_reader *reader;
    struct object_id last;
    int any, last_here, last_in_rest; /* any: `last` is valid */
};

int store_present_init(struct store_present *p, const struct store *st,
                       const struct manifest_node *root, struct pd_err *err);
void store_present_release(struct store_present *p);
/* Leaves come in order. */
int store_present_leaf(struct store_present *p, const void *raw, size_t n, struct pd_err *err);
