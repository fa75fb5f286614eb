/* SPDX-License-Identifier: Apache-2.0 */
/* object_ids.h - the ids of many objects at once: four BLAKE2b in parallel in the lanes of AVX2 if
 * the CPU has it. Internal to src/pack. The ids equal those of object_id_of, which computes one at
 * a time with libsodium. */
#pragma once

#include "pack/object/object.h"

struct object_bytes {
    const uint8_t *p;
    size_t n;
};

/* Computes id[i] of v[i] for all i < count. The objects may overlap in memory. */
void object_ids_of(struct object_id *id, const struct object_bytes *v, size_t count);
