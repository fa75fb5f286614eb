/* object_ids.h - the ids of many objects at once: four BLAKE2b side by side in the lanes of AVX2,
 * where the CPU has it. Internal to src/pack. The same ids as object_id_of, which this machine's
 * libsodium computes one after the other. */
#ifndef PD_PACK_OBJECT_IDS_H
#define PD_PACK_OBJECT_IDS_H

#include "pack/object/object.h"

struct object_bytes {
    const uint8_t *p;
    size_t n;
};

/* id[i] of v[i], for all i < count. They may overlap in memory. */
void object_ids_of(struct object_id *id, const struct object_bytes *v, size_t count);

#endif
