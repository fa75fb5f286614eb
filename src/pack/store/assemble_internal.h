/* SPDX-License-Identifier: Apache-2.0 */
/* assemble_internal.h - shared by assemble.c (objects) and assemble_ends.c (beginning, end, and
 * interruption). Internal to src/pack/store. */
#pragma once

#include "pack/object/manifest.h"
#include "pack/store/assemble.h"
#include "pack/store/present.h"
#include "pack/store/tree_out.h"

enum { BUCKETS = 8192, MAX_PIECES = 200000, MAX_LEAVES = 1 << 19 };
enum { WINDOW = 16 << 20, ASKED_MAX = 2048, WANTS_MAX = 8192 };

struct want_piece {
    uint32_t entry, obj_off, len;
    uint64_t file_off;
};

struct want {
    struct object_id id;
    uint32_t raw_len;
    int is_manifest, asked;
    int bundle;               /* the pieces are whole adjacent files, and all are known */
    struct want *chain;       /* next in the bucket */
    struct want *prev, *next; /* in the order of the requests */
    struct want_piece *v;
    size_t n, cap;
};

struct level_refs {
    struct manifest_ref *v;
    size_t n, cap;
};

struct assemble {
    struct store *st;
    struct store_part *part;
    struct tree_out *tree;
    struct assemble_opts o;
    char root[PATH_MAX], target[PATH_MAX], dir[PATH_MAX]; /* dir: target.part-... */
    char lies_in[PATH_MAX];
    int dir_made, finished, single;
    int broken; /* writing failed: no rest is kept */
    struct object_id root_id;
    struct manifest_node root_node;
    /* the manifest */
    struct level_refs level; /* objects of the current level; finally the leaves */
    unsigned depth;          /* what `level` holds: 0 leaves, else indexes of this level */
    size_t at;               /* next object of `level` to look for; then next leaf to read */
    int leaves_known;        /* all leaves are here */
    struct manifest_reader *reader;
    int all_read;
    /* requests */
    struct want *bucket[BUCKETS], *first, *last, *cursor; /* cursor: the next one to request */
    size_t n_wants, n_asked, n_pieces;                    /* n_asked: from the current source */
    uint64_t asked, window;
    uint64_t owed; /* bytes of requests that sources have not answered; of lost ones, too */
    uint64_t manifest_bytes, object_bytes; /* of leaves and indexes; of requested contents */
    /* a bundle in progress: whole files from run_first on are its bytes up to run_off */
    struct object_id run_id;
    uint32_t run_first, run_off;
    int run_on;
    int old_fd; /* the current entry's file in o.old; -1: none */
    /* the object read last */
    struct object_id have_id;
    int have;
    uint8_t have_raw[OBJECT_MAX];
    struct assemble_totals t;
    struct store_present present;
    int counting;      /* `present` is not complete */
    size_t present_at; /* next leaf to count */
    uint64_t local;    /* bytes in the tree that came from this node */
};

/* Appends the children of an index or root. */
int assemble_take_children(struct assemble *a, struct level_refs *into,
                           const struct manifest_node *node, struct pd_err *err);
/* PD_ENOSPC: the contents and the known part of the manifest do not fit the disk. */
int assemble_enough_disk(const struct assemble *a, struct pd_err *err);
void assemble_drop_wants(struct assemble *a);
