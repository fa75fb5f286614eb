/* SPDX-License-Identifier: Apache-2.0 */
/* record_files.h - the files of a run's workspace, kept on the machine of its record.
 *
 *     OUTPUTS/JOB/workspace.jsonl       one entry a line: path, type, mode, time, size, id
 *     OUTPUTS/.files/ab/<64 digits>     contents by their BLAKE2b: equal files are kept once
 *
 * Small files are kept: programs, train.ini, scripts. A file of more than RECORD_FILE_MAX, or
 * behind the first RECORD_FILES_MAX bytes, is only listed: it is at hand as long as the workspace
 * has it with the same size and time. Its entry has a hash of its pieces ("pieces"), so that two
 * runs can be compared. */
#pragma once

#include "launcher/record/record.h"
#include "pack/object/object.h"
#include "pack/scan/scan.h"

enum { RECORD_FILE_MAX = 1 << 20, RECORD_FILES_MAX = 64 << 20, RECORD_ENTRIES_MAX = 20000 };

struct record_file {
    char *path, *target; /* target: of a link */
    enum manifest_type type;
    unsigned mode;
    int64_t mtime_ns;
    uint64_t size;
    char id[2 * OBJECT_ID + 1];     /* "": contents are not kept */
    char pieces[2 * OBJECT_ID + 1]; /* of contents that are not kept; "": unknown */
    int is_data;                    /* of the data that were sent apart */
};

struct record_files {
    struct record_file *v; /* by path: a folder before its contents */
    size_t n, cap;
    int failed;
};

/* May run in a thread of its own: it reads and writes files for a while, and waits for the disk.
 * Keeps the files of the scanned workspace, and of its data that were sent apart (NULL: none), for
 * the record in `dir`, which is below `outputs`. There is no list of more than RECORD_ENTRIES_MAX
 * entries, or of names that are not UTF-8.
 */
int record_files_keep(const char *outputs, const char *dir, const struct scan *workspace,
                      const struct scan *data, struct pd_err *err);
/* PD_ENOENT: the record has no list of files. */
int record_files_read(struct record_files *out, const char *dir, struct pd_err *err);
void record_files_release(struct record_files *f);
const struct record_file *record_files_find(const struct record_files *f, const char *path);
/* 1: the contents are equal; 0: they differ; -1: unknown, only the times differ. */
int record_file_is_equal(const struct record_file *a, const struct record_file *b);
/* A hash of the entries, of the workspace or of the data, without times. */
void record_files_hash(const struct record_files *f, int is_data, char hex[2 * OBJECT_ID + 1]);
/* 1: the contents are in the file `path`. workspace: the folder that was sent, or NULL. */
int record_file_at_hand(const struct record_file *f, const char *outputs, const char *workspace,
                        char path[PATH_MAX]);
/* Writes all entries into the new folder `to`. *n_missing: files whose contents are not at hand;
 * `missing` is the first one. */
int record_files_restore(const struct record_files *f, const char *outputs, const char *workspace,
                         const char *to, size_t *n_missing, char missing[PATH_MAX],
                         struct pd_err *err);
