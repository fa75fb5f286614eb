/* SPDX-License-Identifier: Apache-2.0 */
/* logs_internal.h - types and functions shared by logs.c (appending, reading) and logs_rotate.c
 * (the files). */
#pragma once

#include "agent/logs/logs.h"

struct log_record {
    uint64_t offset, time_us;
};

/* NAME becomes NAME.1, and a new NAME begins. If the rotation fails before NAME was renamed, the
 * call returns 0 and a later append tries again. Otherwise 0 or PD_EIO. */
int logs_rotate(struct logs *l, enum log_stream s, struct pd_err *err);

/* Opens old[i] for reading, if it is not open yet. -1: the file does not exist any more. */
int logs_open_old(struct logs *l, enum log_stream s, unsigned i);

/* old[i] can't be read: removes it and all older files from the list. */
void logs_forget_old(struct logs *l, enum log_stream s, unsigned i);
