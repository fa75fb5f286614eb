/* SPDX-License-Identifier: Apache-2.0 */
/* compare_internal.h - a part of `paddlectl compare`. */
#pragma once

#include "launcher/record/runs.h"
#include "launcher/record/record_files.h"

/* Prints how the files of two runs' workspaces differ: a diff of those whose contents are kept, the
 * names of the others. Says if a record has no list of files. */
int cmd_compare_files(const struct run *a, const struct run *b, const char *outputs,
                      struct pd_err *err);
/* Hashes of the contents of a run's workspace and of its data that were sent apart ("": none),
 * without times. -1: the record does not have them. */
int cmd_compare_hashes(const struct run *run, const char *outputs,
                       char workspace[2 * OBJECT_ID + 1], char data[2 * OBJECT_ID + 1]);
