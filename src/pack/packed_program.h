/* packed.h - an executable that lies packed (zstd, with its content's size and checksum in the
 * frame) beside where it shall run. */
#ifndef PD_PACK_PACKED_PROGRAM_H
#define PD_PACK_PACKED_PROGRAM_H

#include <stdint.h>

#include "base/err.h"

/* The bytes that `path` holds unpacked, as its first frame says; 0: it is no such file. */
uint64_t packed_program_size(const char *path);

/* Unpack `from` to `to`, mode 0755: written aside, on disk, then renamed, so `to` is absent or
 * whole. PD_EDATA: damaged, or it has another size than it says, or more than 1 GiB; PD_ENOSPC,
 * PD_EIO. */
int packed_program_unpack(const char *from, const char *to, struct pd_err *err);

#endif
