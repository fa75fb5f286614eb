/* model.h - the saved-model folder: written by many, complete or absent, readable by anybody.
 *
 *     DIR/NAME/manifest.json            what the model is, and the checksum of every part
 *              dense-00000-of-00003.bin   one part per server thread: threads share nothing, so
 *              sparse-00000-of-00003.bin  each writes what it owns, by itself
 *
 * Parts are written aside in DIR/.NAME.tmp-<tag>/ and synced; then the manifest; then the folder is
 * renamed. Servers may share DIR or have one each (each folder then holds its server's parts and
 * the same manifest; merged, they are the complete model). Identical runs give identical bytes: no
 * times, no job ids, no ports; rows sorted by key.
 *
 * A part, little-endian, every section at a multiple of 64 bytes, gaps are zero:
 *
 *      0  char[8] "PDMODEL1"
 *      8  u32 format version (1)           12  u32 flags: 1 = optimizer state follows the values
 *     16  u32 entry count                  20  u32 0
 *     24  u64 bytes of the file            32  zero up to 64
 *     64  entries, 192 bytes each:
 *             0  char[128] parameter name, NUL-padded
 *           128  u32 kind: 1 dense, 2 table ... 132  u32 dim: floats per row (dense: 1)
 *           136  u64 first: index of the first value in the flattened parameter (table: 0)
 *           144  u64 count: values (dense) or rows (table)
 *           152  u64 offset of the keys, u64[count] ascending (dense: 0)
 *           160  u64 offset of the values, float32[count * dim], row-major
 *           168  u64 offset of the optimizer state, float32[count * state_width] (0: none)
 *           176  u32 state_width                180  zero up to 192
 *      ..  the sections, in the entries' order: keys, values, state
 *
 * LAYERS. A part may hold, of a table, only the rows that have changed since another save (kind 4,
 * "changes"); then the part of that save lies in the folder too, as the layer below it, down to one
 * that has all rows (layer 0). A row is as the highest layer that has it says; what a layer has of
 * dense parameters, histories, and tables of kind 2 hides what is below. In the folder the lower
 * layers are links to the files of the saves before, so that a save writes changes only, and yet
 * every folder is complete by itself:
 *
 *     pass-00001/sparse-00000-of-00002.bin
 *     pass-00002/sparse-00000-of-00002.bin (the same file)   sparse-00000-of-00002.delta-00001.bin
 *
 * The manifest has the layers of a part one after the other, the highest first, "layer": N, ..., 1,
 * and 0 left out.
 *
 * A kind 3, "history", comes beside a table whose rows are brought up to date when somebody looks
 * (ps/table/lazy_decay.h): count pairs of float64, dim 4; only checkpoints have it. What optimizer
 * state is, is the servers' own matter: docs/model-format.md.
 *
 * A kind 5, "waiting", comes beside a table whose rows are admitted or age (ps/table/row_policy.h):
 * ids that have no row yet, and one 32-bit number of each in place of a value (dim 1). Then the
 * last MODEL_SEEN_WIDTH numbers of a row's state are what was seen of it, in all saves.
 *
 * manifest.json:
 *
 *     {"format": "paddle-model", "version": 1, "step": N, "pass": N, "optimizer_state": false,
 *      "parameters": [{"name": S, "kind": "dense", "shape": [..]},
 *                     {"name": S, "kind": "table", "dim": N, "rows": N, "n_rows": N}],   rows in
 * all parts; declared "parts": [{"file": S, "bytes": N, "xxh3_128": "32 hex digits of the canonical
 * form", "rows": N}], "config": "text of train.ini"}
 *
 * and of a checkpoint, from which a training can go on, "optimizer_state": true and before "config"
 *
 *      "resume": {"updates": N, "samples": N, "pass": N, "batch": N, "streams": [S, ...]}, and of
 * an online job "data": S in it
 */
#ifndef PD_MODEL_MODEL_H
#define PD_MODEL_MODEL_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { MODEL_NAME_MAX = 127, MODEL_DIMS_MAX = 4, MODEL_FILE_MAX = 63 };
enum { MODEL_LAYERS_MAX = 256 };
enum model_kind {
    MODEL_DENSE = 1,
    MODEL_TABLE = 2,
    MODEL_HISTORY = 3,
    MODEL_CHANGES = 4,
    MODEL_WAITING = 5
};

/* --- what a manifest says --- */

struct model_param {
    char name[MODEL_NAME_MAX + 1];
    enum model_kind kind;
    uint32_t n_dims;                /* dense */
    uint64_t shape[MODEL_DIMS_MAX]; /* dense */
    uint32_t dim;                   /* table: floats per row */
    uint64_t rows;                  /* table: rows in all parts */
    uint64_t n_rows;                /* table: declared number of ids, 0 = open */
};

struct model_part {
    char file[MODEL_FILE_MAX + 1];
    uint64_t bytes, rows;
    uint32_t layer;   /* above 0: the part behind it in the list is the layer below */
    uint8_t hash[16]; /* XXH3-128 of the file, canonical (big-endian) form */
};

/* Where a training goes on from a checkpoint. */
struct model_resume {
    uint64_t updates, samples; /* of the optimizer: applied so far */
    uint64_t pass, batch;      /* go on in this pass, of which so many batches are done */
    char **streams; /* how far each stream of data is; n_streams 0: at the beginning of the pass */
    size_t n_streams;
    char *data; /* of an online job: the folder of data that was trained last, or is being trained;
                   else NULL */
};

struct model_manifest {
    uint64_t step, pass;
    int optimizer_state;        /* it is a checkpoint */
    struct model_resume resume; /* then */
    struct model_param *params;
    size_t n_params;
    struct model_part *parts;
    size_t n_parts;
    char *config;
};

void model_resume_release(struct model_resume *r);
void model_manifest_release(struct model_manifest *m);
int model_manifest_write(const struct model_manifest *m, struct pd_buf *out,
                         struct pd_err *err); /* JSON text */
int model_manifest_parse(struct model_manifest *m, const char *text, size_t n, struct pd_err *err);
uint64_t model_param_values(const struct model_param *p); /* dense: product of the shape */

void model_hash(const void *p, size_t n, uint8_t out[16]); /* the parts' checksum */

/* --- writing --- */

struct model_entry {
    char name[MODEL_NAME_MAX + 1];
    enum model_kind kind;
    uint32_t dim;
    uint64_t first, count;
    uint32_t state_width; /* floats of state per value (dense) or row (table); 0: none */
};

/* A part: the entries first, then for each in turn its keys (table), its values and its state, in
 * pieces of any size. */
struct model_writer;
int model_writer_new(struct model_writer **out, const char *folder, const char *file,
                     const struct model_entry *entries, size_t n, struct pd_err *err);
int model_writer_put(struct model_writer *w, const void *p, size_t bytes, struct pd_err *err);
/* The same without a copy: the next bytes are written to *to, up to *room > 0 of them, and then
 * counted. */
int model_writer_room(struct model_writer *w, void **to, size_t *room, struct pd_err *err);
int model_writer_filled(struct model_writer *w, size_t bytes, struct pd_err *err);
/* Checks that all announced bytes came, syncs, fills in *part. Frees w, also on failure. */
int model_writer_end(struct model_writer *w, struct model_part *part, struct pd_err *err);
void model_writer_abort(struct model_writer *w); /* removes the file */
/* The same without freeing w. Neither this nor model_writer_put takes or frees memory: a child of
 * fork may call them. */
int model_writer_seal(struct model_writer *w, struct model_part *part, struct pd_err *err);
int model_writer_fd(const struct model_writer *w); /* what it writes to; -1 once it is sealed */
void model_writer_free(struct model_writer *w);    /* the file stays as it is */

/* The name of layer 1, 2, ... of the part `base`, and whether `file` is `base` or a layer of it. */
int model_layer_name(const char *base, uint32_t layer,
                     char file[MODEL_FILE_MAX + 1]); /* 0, or -1: too long */
int model_is_layer_of(const char *file, const char *base);

/* The folder that parts are written into, and made if it is not there: DIR/.NAME.tmp-TAG. */
int model_staged(const char *dir, const char *name, uint64_t tag, char path[PATH_MAX],
                 struct pd_err *err);
int model_stage(const char *dir, const char *name, uint64_t tag, char path[PATH_MAX],
                struct pd_err *err);
/* Writes the manifest into the staged folder and renames it to DIR/NAME, replacing an older one.
 * Where another server that shares DIR has done it already, the manifests are compared and that is
 * success. */
int model_commit(const char *dir, const char *name, uint64_t tag, const void *manifest, size_t n,
                 struct pd_err *err);

/* --- reading --- */

struct model;
/* Reads and checks the manifest. Parts are mapped, and their checksums verified, at their first
 * use. */
int model_open(struct model **out, const char *folder, struct pd_err *err);
void model_close(struct model *m);
/* Before the first use: checksums are not computed, so that a large model is not read once before
 * its first row is; what is looked at is checked against the files' sizes all the same. */
void model_trust(struct model *m);
/* The parts that are mapped now will be read here and there: the system need not read on behind
 * each place. */
void model_random_access(const struct model *m);
const struct model_manifest *model_info(const struct model *m);
const struct model_param *model_find(const struct model *m,
                                     const char *name); /* NULL: not in the model */
int model_verify(struct model *m,
                 struct pd_err *err); /* every part there and whole; names the first that is not */
int model_verify_part(struct model *m, const char *file, struct pd_err *err);
int model_verify_here(struct model *m,
                      struct pd_err *err); /* the same of the parts that are there at all */

/* Values [first, first + n) of a dense parameter. */
int model_read_dense(struct model *m, const char *name, uint64_t first, uint64_t n, float *out,
                     struct pd_err *err);
/* The same of its optimizer state: out[k * stride + i] is the k-th of value first + i, k < planes.
 */
int model_read_state(struct model *m, const char *name, uint64_t first, uint64_t n, uint32_t planes,
                     float *out, size_t stride, struct pd_err *err);
/* Part `file`, whose layers are meant too, is looked at first for dense values, if there is one;
 * with `only`, the rows are in it alone: who has written it and reads it again needs no other part.
 * 1: there is one. */
int model_prefer(struct model *m, const char *file, int only);
/* A table's history, n pairs, as long as the model is open; n 0: it has none. */
int model_history(struct model *m, const char *name, const double **pairs, uint64_t *n,
                  struct pd_err *err);
enum {
    MODEL_SEEN_WIDTH = 5
}; /* float show, float click, u32 shows, u32 clicks, u32 days unseen: ps/table/table.h */
/* Is the end of the rows' state in this model what was seen of them? 1, 0, or PD_E*. */
int model_has_seen(struct model *m, const char *name, struct pd_err *err);
/* Every id of a table that has no row yet, with its number. `each` returns 0 or PD_E*, which ends
 * the walk. */
int model_each_waiting(struct model *m, const char *name,
                       int (*each)(void *arg, uint64_t key, uint32_t state, struct pd_err *err),
                       void *arg, struct pd_err *err);
/* Every row of a table with its state (NULL without), part by part, keys ascending within a part,
 * layers merged. `each` returns 0 or PD_E*, which ends the walk. */
int model_each_state(struct model *m, const char *name,
                     int (*each)(void *arg, uint64_t key, const float *row, const float *state,
                                 uint32_t width, struct pd_err *err),
                     void *arg, struct pd_err *err);
/* The same without the state. */
int model_each_row(struct model *m, const char *name,
                   int (*each)(void *arg, uint64_t key, const float *row, struct pd_err *err),
                   void *arg, struct pd_err *err);
/* A table's rows by key, as they stand in the mapped parts: model/table.h. One span a file, of each
 * part the highest layer first; they stay while the model is open. */
struct model_span {
    const uint64_t *keys; /* [n], ascending */
    const float *rows;    /* [n * dim] */
    uint64_t n;
    size_t
        part; /* those of the same part are layers of it: a row is as the first that has it says */
};
int model_each_span(struct model *m, const char *name,
                    int (*each)(void *arg, const struct model_span *s, struct pd_err *err),
                    void *arg, struct pd_err *err);

#endif
