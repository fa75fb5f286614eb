/* suspend.h - Ctrl-Z in a command with a live block: the block is wiped and the terminal's modes
 * are restored before paddlectl stops; both come back with it. */
#pragma once

#include <uv.h>

#include "launcher/view/keys.h"
#include "launcher/view/view.h"

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
