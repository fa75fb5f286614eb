/* SPDX-License-Identifier: Apache-2.0 */
/* scan_internal.h - shared by scan.c (the package), scan_list.c (entries of a folder), scan_tar.c
 * (entries of an archive), scan_hash.c (contents into objects) and scan_read.c (objects out of
 * contents). */
#pragma once

#include "pack/object/chunker.h"
#include "pack/scan/scan.h"

enum { SCAN_TRIES = 3 };

struct scan_entry {
    uint64_t path, target; /* offsets in `names`; target: for links */
    uint64_t spool;        /* file of an archive: offset of its contents in the spool */
    uint64_t size;
    int64_t mtime_ns, ctime_ns;
    uint64_t ino;
    uint32_t mode, path_len;
    uint32_t first_piece, n_pieces; /* contents, once hashed */
    uint8_t type, hashed, added;    /* added: with scan_add_file */
    uint8_t settled; /* last changed long enough before it was hashed (scan_cache.h) */
    uint8_t stamped; /* hashed in this process, and any later write would change its times */
};

/* Bytes [off, off + len) of a file are bytes [obj_off, obj_off + len) of the object. */
struct scan_piece {
    uint64_t off;
    uint32_t object, obj_off, len;
};

#define FROM_MANIFEST UINT32_MAX
#define FROM_BUNDLE (UINT32_MAX - 1)

struct scan_object {
    struct object_id id;
    uint32_t raw_len;
    uint32_t entry; /* file that contains the object, or one of the two constants above */
    uint64_t off;   /* offset in the file or in `manifest`; bundle: index in `members` */
};

struct scan_ignored {
    uint64_t path, bytes;
};

struct scan {
    char *top; /* the path as the user wrote it, for messages */
    unsigned flags;
    int fd; /* the folder, the file, or the spool: a nameless file with an archive's contents */
    int is_archive, is_file, listed;
    int (*list)(struct scan *, struct pd_err *); /* finds the entries */
    int added_fd; /* nameless file with contents of added files; -1: none */
    int (*on_listed)(void *, struct scan *, struct pd_err *);
    void *listed_arg;
    struct pd_buf names;
    struct scan_entry *entries;
    size_t n_entries, cap_entries;
    struct scan_piece *pieces;
    size_t n_pieces, cap_pieces;
    struct scan_object *objects;
    size_t n_objects, cap_objects;
    uint32_t *table; /* open addressing: index + 1 into objects, 0: free */
    size_t table_size;
    uint32_t *members; /* the entries of each bundle */
    size_t n_members, cap_members;
    struct pd_buf manifest;
    struct scan_ignored *ignored;
    size_t n_ignored, cap_ignored;
    int (*keep)(void *, const char *, int);
    void *keep_arg;
    uint8_t *kept; /* by entry: 1 if it is in the package */
    struct scan_root root;
    struct scan_totals totals;
    char first_skipped[256]; /* SCAN_OUTPUTS: path and reason of the first of totals.skipped */
    char *cache_file;        /* cache for scan_run; NULL: none */
    atomic_int cancelled;
    atomic_ullong seen, hashed, total;
};

static inline const char *scan_name(const struct scan *s, uint64_t at) {
    return (const char *)s->names.data + at;
}

/* scan.c */
/* Opens `path`; `what` begins its description in messages. The caller sets `list`. */
int scan_open_top(struct scan **out, const char *path, const char *what, unsigned flags,
                  struct pd_err *err);
/* An entry that can't travel. PD_EDATA; 0 with SCAN_OUTPUTS: it is counted and left out. */
int scan_refuse(struct scan *s, const char *path, const char *why, struct pd_err *err);
int scan_nameless_file(struct pd_err *err); /* a descriptor, or PD_E* */
int scan_fail_memory(const struct scan *s, struct pd_err *err);
int scan_check_cancel(const struct scan *s, struct pd_err *err);
/* Copies `text` (n bytes) to `names`. */
int scan_put_name(struct scan *s, const char *text, size_t n, uint64_t *at, struct pd_err *err);
int scan_add_entry(struct scan *s, const struct scan_entry *e, struct pd_err *err);
/* Returns the object with this id; adds it with the other arguments if it is new. PD_ENOMEM. */
int scan_put_object(struct scan *s, const struct object_id *id, uint32_t raw_len, uint32_t entry,
                    uint64_t off, uint32_t *object);
int scan_put_piece(struct scan *s, uint64_t off, uint32_t object, uint32_t obj_off, uint32_t len);
int scan_put_member(struct scan *s, uint32_t entry); /* a file of the next bundle */

/* scan_list.c */
int scan_list_folder(struct scan *s, struct pd_err *err);
int scan_list_file(struct scan *s, const char *name, struct pd_err *err);

/* scan_hash.c: hashes all kept files, in order, into objects and pieces. */
int scan_hash_all(struct scan *s, struct pd_err *err);
static inline int scan_on_disk(const struct scan *s, const struct scan_entry *e) {
    return !s->is_archive && !e->added;
}
void scan_close_entry(const struct scan *s, int fd);
/* Reads n bytes of an open entry at `at`. PD_EDATA without a message: the file is shorter than
 * before. */
int scan_read_at(const struct scan *s, const struct scan_entry *e, int fd, uint8_t *p, size_t n,
                 uint64_t at, struct pd_err *err);
/* 1 if size, times and inode are unchanged since the file was hashed. */
int scan_is_as_hashed(const struct scan_entry *e, int fd);
/* Opens the contents of a file: *fd, the offset *base where they begin, and the result of fstat
 * (for contents that are not on disk only size and times). Close with scan_close_entry. */
int scan_open_entry(const struct scan *s, const struct scan_entry *e, int *fd, uint64_t *base,
                    struct stat *st, struct pd_err *err);
