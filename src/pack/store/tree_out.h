/* SPDX-License-Identifier: Apache-2.0 */
/* tree_out.h - writes the folder that is being built. Entries are created in order; contents of
 * files come in any order. A file gets its mode and time with its last byte, a folder at the end.
 * Internal to src/pack.
 *
 * Nothing is written through links: the folder is private (mode 0700), and the folders of every
 * path are entries created before (manifest.h). */
#pragma once

#include "pack/object/manifest.h"

struct tree_out;

/* Creates `dir`, which must not exist. */
int tree_out_new(struct tree_out **out, const char *dir, struct pd_err *err);
void tree_out_free(struct tree_out *t); /* leaves the folder as it is */

/* Creates the next entry; entries are numbered from 0. All pieces of the file before are now known.
 */
int tree_out_add(struct tree_out *t, const struct manifest_entry *e, struct pd_err *err);
/* Called after the last entry: all its pieces are known. */
int tree_out_end_entry(struct tree_out *t, struct pd_err *err);
/* Announces a piece of the last entry that ends at `end` and comes with tree_out_write. */
void tree_out_expect(struct tree_out *t, uint64_t end);
int tree_out_write(struct tree_out *t, uint32_t entry, const void *p, size_t n, uint64_t off,
                   struct pd_err *err);
/* Called when all contents are written: sets modes and times of folders and syncs if `durable`. */
int tree_out_finish(struct tree_out *t, int durable, struct pd_err *err);

/* Reads n bytes at `off` of file `entry`, or (`bundle`) the contents of this file and those after
 * it. 0, or -1. */
int tree_out_read(struct tree_out *t, uint32_t entry, int bundle, void *buf, size_t n,
                  uint64_t off);

uint32_t tree_out_count(const struct tree_out *t);
uint64_t tree_out_size(const struct tree_out *t, uint32_t entry);
const char *tree_out_path(const struct tree_out *t, uint32_t entry);
/* The only file was moved to `path`: read from there. */
int tree_out_moved(struct tree_out *t, const char *path);
