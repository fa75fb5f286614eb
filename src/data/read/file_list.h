/* SPDX-License-Identifier: Apache-2.0 */
/* file_list.h - the job's list of data files on nodes that do not hold them all. With data_layout =
 * dispatched a node gets only the files of its streams. The stream of a file is its position in the
 * whole list (reader.h). Therefore the list travels in the workspace, and patterns are matched
 * against the list instead of a folder.
 *
 *     DATA_LIST in the workspace's top folder: the paths of all data files of the package, sorted
 *     by bytes, each followed by a NUL
 */
#pragma once

#include "data/read/reader.h"

#define DATA_LIST ".paddle-data-files"
enum { DATA_LIST_MAX = 96 << 20 };

/* 1 if one of the patterns (separated by blanks or commas) matches `path`, as glob would find the
 * path from the folder to which it is relative: * and ? match neither a slash nor a dot at the
 * beginning of a name. Absolute patterns and patterns with ".." match nothing. With folders != 0: 1
 * if `path` is a folder that such a match goes through. */
int data_files_match(const char *patterns, const char *path, int folders);

/* 1 if all patterns are relative and stay in the folder. */
int data_files_inside(const char *patterns);

/* 1: one pattern of files in folders of folders, like stream/DAY/MINUTE/part, as job = online needs
 * it. */
int data_files_in_folders(const char *pattern);

/* As data_files_expand for the current folder, but relative patterns are matched against the list.
 * PD_ENOENT: no match. */
int data_files_expand_list(struct data_files *f, const char *list, size_t n, const char *pattern,
                           struct pd_err *err);

/* Reads the list of the workspace in the current folder into `out`. 1; 0: there is no list. */
int data_files_read_list(struct pd_buf *out, struct pd_err *err);
