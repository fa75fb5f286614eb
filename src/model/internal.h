/* internal.h - the numbers of a part's layout (model.h), for the writer and the reader. */
#ifndef PD_MODEL_INTERNAL_H
#define PD_MODEL_INTERNAL_H

#define MODEL_MAGIC "PDMODEL1"
enum { MODEL_VERSION = 1, MODEL_HEADER = 64, MODEL_ENTRY = 192, MODEL_ALIGN = 64, MODEL_ENTRIES_MAX = 1 << 17 };

enum { MODEL_F_STATE = 1 };

static inline uint64_t model_align(uint64_t n) { return (n + MODEL_ALIGN - 1) / MODEL_ALIGN * MODEL_ALIGN; }

#endif
