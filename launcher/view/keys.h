/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h - single keys from the terminal while a job is shown, and the terminal's modes.
 *
 *     keys_new ─▶ modes changed: no lines, no echo     ◀─ keys_check, once a second: the shell may
 *                 guard process                           move paddlectl to the background and back
 *     suspend ─▶ modes restored, guard ended              (before Ctrl-Z stops paddlectl)
 *
 * The guard is a process that waits for the end of paddlectl, whatever ends it, and then restores
 * the modes. Ctrl-C, Ctrl-Z and Ctrl-\ stay signals.
 *
 * A key counts only if no other key comes within KEYS_ALONE_MS before and after it. So a command
 * that somebody types ahead for the shell does nothing here. */
#pragma once

#include <uv.h>

#include "launcher/view/view.h"

enum { KEYS_ALONE_MS = 300 };

struct keys;
/* Take keys from the terminal on stdin. *out is NULL if stdin is no terminal, or not the
 * controlling one. PD_ENOMEM, PD_EFAIL. */
int keys_new(struct keys **out, uv_loop_t *loop, void (*on_key)(void *arg, char key), void *arg,
             struct pd_err *err);
/* Change the modes if paddlectl is in the foreground. Returns 1 if keys are read. */
int keys_check(struct keys *k);
/* The next key counts at once: it answers a question. */
void keys_question(struct keys *k, int asked);
void keys_close(struct keys *k); /* restore the modes; closes the loop's handles */
void keys_free(struct keys *k);  /* call after the loop has ended */

/* --- Ctrl-Z in a command with a live block --- */

/* The block is wiped and the terminal's modes are restored before paddlectl stops; both come back
 * with it. */
struct suspend {
    uv_signal_t stop, resume; /* SIGTSTP, SIGCONT */
    struct view *view;
    struct keys *keys; /* NULL: none; the caller may set it later */
    void (*on_stop)(void *arg, int signum);
    /* `by_key`: after on_stop. Otherwise paddlectl was stopped by SIGSTOP, or is in the foreground
     * again. The caller checks the keys and draws its block. */
    void (*on_resume)(void *arg, int by_key);
    void *arg;
};

/* Also ignores SIGTTIN and SIGTTOU: in the background, a write must not stop paddlectl. */
void suspend_open(struct suspend *s, uv_loop_t *loop);
void suspend_close(struct suspend *s); /* the loop must run once more */
