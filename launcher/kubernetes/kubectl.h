/* SPDX-License-Identifier: Apache-2.0 */
/* kubectl.h - calls of kubectl, one at a time. */
#pragma once

#include <uv.h>

#include "conf/options.h"

enum { KUBECTL_SIGNALS = 3 };

struct kubectl {
    const struct pd_options *opts; /* context and namespace */
    uv_loop_t loop;
    uv_signal_t signals[KUBECTL_SIGNALS];
    uv_timer_t timer;
    struct transport *call; /* NULL: none is under way */
    struct pd_buf out;      /* its standard output, ended by a NUL that does not count */
    int status, ended, late;
    char said[700];  /* the end of its standard error */
    int interrupted; /* a signal came; kubectl_deaf forgets it */
    int deaf;
};

int kubectl_open(struct kubectl *k, const struct pd_options *opts, struct pd_err *err);
void kubectl_close(struct kubectl *k);

/* Ctrl-C, TERM and HUP end the calls from now on. Between calls they are only noted: whoever does
 * anything else in between must leave them. */
void kubectl_catch_signals(struct kubectl *k);
/* They are as before. PD_ECANCELED: a signal came. */
int kubectl_leave_signals(struct kubectl *k, struct pd_err *err);

/* Run kubectl with these words (ended by NULL; context and namespace are added), and `input` or
 * NULL as standard input. PD_EHOST: it failed, with its message. PD_ETIMEOUT. PD_ECANCELED: a
 * signal came now or before. */
int kubectl_call(struct kubectl *k, const char *const *words, const char *input,
                 struct pd_err *err);
/* Wait. PD_ECANCELED: a signal came. */
int kubectl_pause(struct kubectl *k, uint64_t ms, struct pd_err *err);
/* From now on signals are ignored: what was made is being deleted. */
void kubectl_deaf(struct kubectl *k);

/* Append "kubectl --context X -n Y", as one would type it. */
void kubectl_put_command(struct pd_buf *out, const struct pd_options *opts);
