/* SPDX-License-Identifier: Apache-2.0 */
/* packed_program.h - an executable that is stored packed (one zstd frame with content size and
 * checksum) beside the place where it will run. */
#pragma once

/* The unpacked size of `path` according to its first frame; 0: not a packed program. */
uint64_t packed_program_size(const char *path);

/* Unpacks `from` to `to`, mode 0755. The file is written under a temporary name, synced and
 * renamed, so `to` is absent or whole. PD_EDATA: damaged, a size that differs from the frame's, or
 * more than 1 GiB; PD_ENOSPC, PD_EIO. */
int packed_program_unpack(const char *from, const char *to, struct pd_err *err);
