/* tree_out.h - the folder that is being built: entries are made in order, file contents come in any
 * order, and a file gets its mode and time when its last byte is there, a folder at the end.
 * Internal to src/pack.
 *
 * Nothing is written through links: the folder is ours alone (mode 0700), and every path's folders
 * are entries that were made before (manifest.h).
 */
#ifndef PD_PACK_TREE_OUT_H
#define PD_PACK_TREE_OUT_H

#include "pack/object/manifest.h"

struct tree_out;

/* Makes `dir` (which must not exist). */
int tree_out_new(struct tree_out **out, const char *dir, struct pd_err *err);
void tree_out_free(struct tree_out *t); /* leaves the folder as it is */

/* The next entry; its number is how many came before. Closes the list of pieces of the file before
 * it. */
int tree_out_add(struct tree_out *t, const struct manifest_entry *e, struct pd_err *err);
int tree_out_end_entry(struct tree_out *t,
                       struct pd_err *err); /* the last entry's pieces are all known */
/* A piece of the last entry's contents will come (tree_out_write), ending at `end`. */
void tree_out_expect(struct tree_out *t, uint64_t end);
int tree_out_write(struct tree_out *t, uint32_t entry, const void *p, size_t n, uint64_t off,
                   struct pd_err *err);
/* All contents are there: folders get their modes and times, what was written goes to the disk if
 * `durable`. */
int tree_out_finish(struct tree_out *t, int durable, struct pd_err *err);

/* n bytes at `off` of what lies in `entry`; or (`bundle`) the contents of it and the files behind
 * it. 0, or -1. */
int tree_out_read(struct tree_out *t, uint32_t entry, int bundle, void *buf, size_t n,
                  uint64_t off);

uint32_t tree_out_count(const struct tree_out *t);
uint64_t tree_out_size(const struct tree_out *t, uint32_t entry);
const char *tree_out_path(const struct tree_out *t, uint32_t entry);
/* The one file has become `path`: reading goes on there. */
int tree_out_moved(struct tree_out *t, const char *path);

#endif
