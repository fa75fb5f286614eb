/* SPDX-License-Identifier: Apache-2.0 */
/* model_internal.h - the numbers of a part's layout (model.h) for writer and reader, and the struct
 * of an open model. */
#pragma once

#include "model/model.h"

#define MODEL_MAGIC "PDMODEL1"
enum {
    MODEL_VERSION = 1,
    MODEL_HEADER = 64,
    MODEL_ENTRY = 192,
    MODEL_ALIGN = 64,
    MODEL_ENTRIES_MAX = 1 << 17
};

enum { MODEL_F_STATE = 1 };

static inline uint64_t model_align(uint64_t n) {
    return (n + MODEL_ALIGN - 1) / MODEL_ALIGN * MODEL_ALIGN;
}

struct open_entry {
    struct model_entry e;
    uint64_t keys, values, state; /* offsets, checked against the size of the file; state 0: none */
};

struct open_part {
    const uint8_t *map; /* NULL: not mapped yet */
    struct open_entry *entries;
    size_t n_entries;
};

struct model {
    char folder[PATH_MAX];
    struct model_manifest info;
    struct open_part *parts;
    int trust;
    size_t first; /* the part to search first: the highest of its layers */
    int only;     /* search rows in that part only */
};

/* Map and verify part i, if that was not done yet. */
int model_use_part(struct model *m, size_t i, struct pd_err *err);
/* 1: part i is the highest of its layers. */
static inline int model_is_top(const struct model *m, size_t i) {
    return i == 0 || m->info.parts[i - 1].layer == 0;
}
