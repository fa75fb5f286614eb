/* suspend.c - see suspend.h. */
#include "launcher/view/suspend.h"

enum { PAUSE_WAIT_MS = 500 };

static void on_stop(uv_signal_t *h, int signum) {
    struct suspend *s = h->data;
    s->on_stop(s->arg, signum);
    view_pause(s->view, PAUSE_WAIT_MS);
    keys_pause(s->keys);
    uv_signal_stop(h); /* the default action again */
    raise(signum);
    uv_signal_start(h, on_stop, signum);
    uv_update_time(h->loop);
    view_resume(s->view);
    s->on_resume(s->arg, 1);
}

static void on_resume(uv_signal_t *h, int signum) {
    struct suspend *s = h->data;
    (void)signum;
    uv_update_time(h->loop);
    s->on_resume(s->arg, 0);
}

void suspend_open(struct suspend *s, uv_loop_t *loop) {
    signal(SIGTTOU, SIG_IGN);
    signal(SIGTTIN, SIG_IGN);
    uv_signal_init(loop, &s->stop);
    uv_signal_init(loop, &s->resume);
    s->stop.data = s->resume.data = s;
    if (view_is_live(s->view))
        uv_signal_start(&s->stop, on_stop, SIGTSTP);
    uv_signal_start(&s->resume, on_resume, SIGCONT);
    uv_unref((uv_handle_t *)&s->stop);
    uv_unref((uv_handle_t *)&s->resume);
}

void suspend_close(struct suspend *s) {
    uv_close((uv_handle_t *)&s->stop, NULL);
    uv_close((uv_handle_t *)&s->resume, NULL);
}
