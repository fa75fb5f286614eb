/* SPDX-License-Identifier: Apache-2.0 */
/* bar_keys.c - see bar_keys.h. */
#include "launcher/dispatch/bar_keys.h"

enum { CHECK_MS = 1000, NOTE_MS = 10000 };

static int logs_in(const struct ask_all *g) {
    for (size_t i = 0; i < g->c->hosts.n; i++) {
        const struct ask_all_node *n = &g->nodes[i];
        if (!n->skip && !n->over && !(n->link && link_is_open(n->link)))
            return 1;
    }
    return 0;
}

static void note(struct bar_keys *k, const char *text) {
    bar_note(k->bar, text, k->asks ? UINT64_MAX : uv_now(&k->g->c->loop) + NOTE_MS);
}

static void check(struct bar_keys *k) {
    if (!logs_in(k->g) && keys_check(k->suspend.keys) && !k->told) {
        k->told = 1;
        note(k, "keys: q stop, ? help");
    }
}

static void on_tick(uv_timer_t *t) { check(t->data); }

static void on_key(void *arg, char key) {
    struct bar_keys *k = arg;
    char text[120];
    if (k->asks) {
        k->asks = 0;
        keys_question(k->suspend.keys, 0);
        note(k, "");
        if (key == 'y' || key == 'Y')
            ask_all_interrupt(k->g);
        return;
    }
    switch (key) {
    case 'q':
        k->asks = 1;
        keys_question(k->suspend.keys, 1);
        pd_fmt(text, sizeof text, "stop the %s? y: stop it, any other key: go on", k->what);
        note(k, text);
        break;
    case 'd':
        pd_fmt(text, sizeof text, "a %s needs paddlectl; after q the next one goes on", k->what);
        note(k, text);
        break;
    case '?':
    case 'h':
        note(k, "q stop  Ctrl-L redraw  Ctrl-Z suspend");
        break;
    case '\f':
        view_clear(k->bar->view);
        break;
    default:
        break;
    }
}

static void on_stop(void *arg, int signum) {
    (void)arg;
    (void)signum;
}

static void on_resume(void *arg, int by_key) {
    (void)by_key;
    check(arg);
}

int bar_keys_open(struct bar_keys *k, struct bar *bar, struct ask_all *g, const char *what,
                  struct pd_err *err) {
    *k = (struct bar_keys){.bar = bar, .g = g, .what = what};
    if (!bar->view || bar->object)
        return 0;
    k->is_open = 1;
    k->suspend =
        (struct suspend){.view = bar->view, .on_stop = on_stop, .on_resume = on_resume, .arg = k};
    suspend_open(&k->suspend, &g->c->loop);
    uv_timer_init(&g->c->loop, &k->tick);
    k->tick.data = k;
    uv_timer_start(&k->tick, on_tick, 0, CHECK_MS);
    uv_unref((uv_handle_t *)&k->tick);
    return view_is_live(bar->view) ? keys_new(&k->suspend.keys, &g->c->loop, on_key, k, err) : 0;
}

void bar_keys_close(struct bar_keys *k) {
    if (!k->is_open)
        return;
    k->is_open = 0;
    keys_close(k->suspend.keys);
    suspend_close(&k->suspend);
    uv_close((uv_handle_t *)&k->tick, NULL);
}

void bar_keys_release(struct bar_keys *k) { keys_free(k->suspend.keys); }
