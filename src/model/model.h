/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - the saved-model folder. Many servers write it; it is complete or absent; any program
 * can read it.
 *
 *     DIR/NAME/manifest.json            what the model is, and the checksum of every part
 *              dense-00000-of-00003.bin   one part per server thread: threads share nothing, so
 *              sparse-00000-of-00003.bin  each writes what it owns, by itself
 *
 * Parts are written to DIR/.NAME.tmp-<tag>/ and synced, then the manifest; then the folder is
 * renamed. Servers may share DIR or have separate ones. A separate folder holds the parts of its
 * server and the same manifest; merged, the folders are the complete model. Identical runs give
 * identical bytes: no times, no job ids, no ports; rows sorted by key.
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
 * LAYERS. A part may hold only those rows of a table that changed since an earlier save (kind 4,
 * "changes"). The part of the earlier save is then in the same folder as the layer below, and so on
 * down to layer 0, which has all rows. A row is read from the highest layer that has it. Dense
 * parameters, histories and tables of kind 2 in a layer hide those of all layers below. Lower
 * layers are hard links to the files of earlier saves: a save writes only changes, and every folder
 * is complete by itself:
 *
 *     pass-00001/sparse-00000-of-00002.bin
 *     pass-00002/sparse-00000-of-00002.bin (the same file)   sparse-00000-of-00002.delta-00001.bin
 *
 * The manifest lists the layers of a part one after another, the highest first, with "layer": N,
 * ..., 1. Layer 0 has no such key.
 *
 * Kind 3, "history", accompanies a table whose rows are updated only when they are read
 * (ps/table/lazy_decay.h): count pairs of float64, dim 4; only in checkpoints. The contents of
 * optimizer state are defined by the servers: docs/model-format.md.
 *
 * Kind 5, "waiting", accompanies a table with admission or ageing (ps/table/row_policy.h): ids
 * without a row, and one 32-bit number for each instead of a value (dim 1). In all saves of such a
 * table the last MODEL_SEEN_WIDTH numbers of a row's state are its shows and clicks.
 *
 * manifest.json:
 *
 *     {"format": "paddle-model", "version": 1, "step": N, "pass": N, "optimizer_state": false,
 *      "parameters": [{"name": S, "kind": "dense", "shape": [..]},
 *                     {"name": S, "kind": "table", "dim": N,
 *                      "rows": N (in all parts), "n_rows": N (declared)}],
 *      "parts": [{"file": S, "bytes": N, "xxh3_128": "32 hex digits, canonical form", "rows": N}],
 *      "config": "text of train.ini"}
 *
 * A checkpoint, from which training can resume, has "optimizer_state": true and before "config"
 *
 *      "resume": {"updates": N, "samples": N, "pass": N, "batch": N, "streams": [S, ...]}
 *
 * with "data": S in it if the job is online. A job that keeps its best pass (keep_best) writes, in
 * each model, what the best pass was until then:
 *
 *      "best": {"metric": S, "value": N, "pass": N}
 */
#pragma once

enum { MODEL_NAME_MAX = 127, MODEL_DIMS_MAX = 4, MODEL_FILE_MAX = 63 };
enum { MODEL_LAYERS_MAX = 256 };
enum model_kind {
    MODEL_DENSE = 1,
    MODEL_TABLE = 2,
    MODEL_HISTORY = 3,
    MODEL_CHANGES = 4,
    MODEL_WAITING = 5
};

/* --- the manifest --- */

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
    uint32_t layer;   /* above 0: the next part in the list is the layer below */
    uint8_t hash[16]; /* XXH3-128 of the file, canonical (big-endian) form */
};

/* The position from which training resumes. */
struct model_resume {
    uint64_t updates, samples; /* applied by the optimizer so far */
    uint64_t pass, batch;      /* resume in this pass after this many batches */
    char **streams; /* position of each stream of data; n_streams 0: beginning of the pass */
    size_t n_streams;
    /* data, for an online job: the folder of data that was trained last or is being trained; else
     * NULL. */
    char *data;
};

/* The best pass when the model was saved. */
enum { MODEL_METRIC_MAX = 127 };
struct model_best {
    char metric[MODEL_METRIC_MAX + 1]; /* "test.auc"; "": not known */
    double value;
    uint64_t pass;
};

struct model_manifest {
    uint64_t step, pass;
    struct model_best best;
    int optimizer_state;        /* 1: a checkpoint */
    struct model_resume resume; /* only of a checkpoint */
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

/* A part has the entries first. Then, for each entry in turn, put its keys (table), values and
 * state in pieces of any size. */
struct model_writer;
int model_writer_new(struct model_writer **out, const char *folder, const char *file,
                     const struct model_entry *entries, size_t n, struct pd_err *err);
int model_writer_put(struct model_writer *w, const void *p, size_t bytes, struct pd_err *err);
/* The same without a copy: model_writer_room gives *room > 0 bytes at *to; fill up to *room of
 * them, then report the number by model_writer_filled. */
int model_writer_room(struct model_writer *w, void **to, size_t *room, struct pd_err *err);
int model_writer_filled(struct model_writer *w, size_t bytes, struct pd_err *err);
/* Check that all announced bytes came, sync, and fill in *part. Frees w, also on failure. */
int model_writer_end(struct model_writer *w, struct model_part *part, struct pd_err *err);
void model_writer_abort(struct model_writer *w); /* removes the file */
/* The same without freeing w. This function and model_writer_put neither allocate nor free memory,
 * so a child of fork may call them. */
int model_writer_seal(struct model_writer *w, struct model_part *part, struct pd_err *err);
int model_writer_fd(const struct model_writer *w); /* descriptor of the file; -1 after the seal */
void model_writer_free(struct model_writer *w);    /* the file stays as it is */

/* The file name of layer 1, 2, ... of part `base`; and: is `file` equal to `base` or the name of a
 * layer of it? */
int model_layer_name(const char *base, uint32_t layer,
                     char file[MODEL_FILE_MAX + 1]); /* 0, or -1: too long */
int model_is_layer_of(const char *file, const char *base);

/* The folder for new parts: DIR/.NAME.tmp-TAG. model_make_staging creates it. */
int model_staging_path(const char *dir, const char *name, uint64_t tag, char path[PATH_MAX],
                       struct pd_err *err);
int model_make_staging(const char *dir, const char *name, uint64_t tag, char path[PATH_MAX],
                       struct pd_err *err);
/* Write the manifest into the staged folder and rename the folder to DIR/NAME, replacing an older
 * one. If another server that shares DIR was first, success means that the manifests are equal. */
int model_commit(const char *dir, const char *name, uint64_t tag, const void *manifest, size_t n,
                 struct pd_err *err);

/* --- reading --- */

struct model;
/* Read and check the manifest. Parts are mapped and verified at their first use. */
int model_open(struct model **out, const char *folder, struct pd_err *err);
void model_close(struct model *m);
/* Skip the checksums, so that a large model is not read completely before its first row. Call it
 * before the first use. Offsets and sizes are still checked. */
void model_skip_checksums(struct model *m);
/* Tell the kernel not to read ahead in the parts that are mapped now, because access will be
 * random. */
void model_random_access(const struct model *m);
const struct model_manifest *model_info(const struct model *m);
const struct model_param *model_find_param(const struct model *m,
                                           const char *name); /* NULL: not in the model */
/* Every part is present and intact; the error names the first part that is not. */
int model_verify(struct model *m, struct pd_err *err);
int model_verify_part(struct model *m, const char *file, struct pd_err *err);
/* The same for only those parts that are present. */
int model_verify_present(struct model *m, struct pd_err *err);

/* Read values [first, first + n) of a dense parameter. */
int model_read_dense(struct model *m, const char *name, uint64_t first, uint64_t n, float *out,
                     struct pd_err *err);
/* The same for its optimizer state: out[k * stride + i] is state k of value first + i, k < planes.
 */
int model_read_state(struct model *m, const char *name, uint64_t first, uint64_t n, uint32_t planes,
                     float *out, size_t stride, struct pd_err *err);
/* Search part `file` and its layers first for dense values. With `only`, search rows in this part
 * alone: a server that reads its own part again needs no other part. Returns 1 if the part exists.
 */
int model_search_first(struct model *m, const char *file, int only);
/* The history of a table: n pairs, valid while the model is open. n 0: the table has none. */
int model_history(struct model *m, const char *name, const double **pairs, uint64_t *n,
                  struct pd_err *err);
enum {
    MODEL_SEEN_WIDTH = 5
}; /* float show, float click, u32 shows, u32 clicks, u32 days unseen: ps/table/table.h */
/* 1: the state of the rows of this table ends with their shows and clicks; 0: not; or PD_E*. */
int model_has_seen(struct model *m, const char *name, struct pd_err *err);
/* Calls `each` for every id without a row, with its number. A result other than 0 ends the walk and
 * is returned. */
int model_each_waiting(struct model *m, const char *name,
                       int (*each)(void *arg, uint64_t key, uint32_t state, struct pd_err *err),
                       void *arg, struct pd_err *err);
/* Calls `each` for every row of a table with its state (NULL: none), part by part, keys ascending
 * within a part, layers merged. A result other than 0 ends the walk and is returned. */
int model_each_state(struct model *m, const char *name,
                     int (*each)(void *arg, uint64_t key, const float *row, const float *state,
                                 uint32_t width, struct pd_err *err),
                     void *arg, struct pd_err *err);
/* The mapped rows of a table, for model/table.h. One span per file; for each part the highest layer
 * first. Valid while the model is open. */
struct model_span {
    const uint64_t *keys; /* [n], ascending */
    const float *rows;    /* [n * dim] */
    uint64_t n;
    /* Spans with the same part number are its layers: a row is read from the first of them that has
     * it. */
    size_t part;
};
int model_each_span(struct model *m, const char *name,
                    int (*each)(void *arg, const struct model_span *s, struct pd_err *err),
                    void *arg, struct pd_err *err);
