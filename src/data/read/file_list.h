/* file_list.h - the job's list of data files where a node does not hold them all: with data_layout
 * = dispatched a node gets only the files of its streams, but which stream a file belongs to is its
 * place in the whole list (reader.h). So the list travels in the workspace, and patterns are
 * matched against it instead of against a folder.
 *
 *     DATA_LIST in the workspace's top folder: the paths of all data files of the package, sorted
 * by bytes, each with a NUL behind it
 */
#ifndef PD_DATA_FILE_LIST_H
#define PD_DATA_FILE_LIST_H

#include "base/buf.h"
#include "data/read/reader.h"

#define DATA_LIST ".paddle-data-files"
enum { DATA_LIST_MAX = 96 << 20 };

/* 1: one of the patterns in `patterns` (separated by blanks or commas) matches `path`, as glob
 * would find it from the folder that the path is relative to: * and ? do not match a slash, nor a
 * dot at the beginning of a name. Absolute patterns and those with ".." match nothing. With folders
 * != 0: `path` is one of the folders that the match goes through. */
int data_files_match(const char *patterns, const char *path, int folders);

/* 1: all of them are relative and stay in the folder. */
int data_files_inside(const char *patterns);

/* As data_files_expand for the current folder, but files of relative patterns are those of the
 * list. PD_ENOENT: no match. */
int data_files_expand_list(struct data_files *f, const char *list, size_t n, const char *pattern,
                           struct pd_err *err);

/* The list of the current folder's workspace into `out`: 1; 0: there is none. */
int data_files_read_list(struct pd_buf *out, struct pd_err *err);

#endif
