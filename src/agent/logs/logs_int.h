/* logs_int.h - what logs.c (bytes in and out) and logs_rotate.c (the files) share. */
#ifndef PD_AGENT_LOGS_INT_H
#define PD_AGENT_LOGS_INT_H

#include "agent/logs/logs.h"

struct log_record {
    uint64_t offset, time_us;
};

/* NAME becomes NAME.1, and a new NAME begins. A failure that leaves everything as it was is none:
 * it is tried again later. */
int logs_rotate(struct logs *l, enum log_stream s, struct pd_err *err);

/* Open old[i] for reading, unless it is. -1: it is not there any more. */
int logs_open_old(struct logs *l, enum log_stream s, unsigned i);

/* old[i] can't be read: it and all before it are given up. */
void logs_forget_old(struct logs *l, enum log_stream s, unsigned i);

#endif
