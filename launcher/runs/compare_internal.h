/* SPDX-License-Identifier: Apache-2.0 */
/* compare_internal.h - a part of `paddlectl compare`. */
#pragma once

#include "launcher/record/runs.h"

/* Prints how the files of two runs' workspaces differ: a diff of those whose contents are kept, the
 * names of the others. Says if a record has no list of files. */
int cmd_compare_files(const struct run *a, const struct run *b, const char *outputs,
                      struct pd_err *err);
