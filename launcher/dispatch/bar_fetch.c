/* SPDX-License-Identifier: Apache-2.0 */
/* bar_fetch.c - see bar_fetch.h. */
#include "launcher/dispatch/bar_fetch.h"

enum { TICK_MS = 100, RATE_MS = 1000, TELL_MS = 1000 };

static uint64_t now(const struct bar_fetch *f) { return uv_now(f->timer.loop); }

/* Over about a second, smoothed. */
static void measure(struct bar_fetch *f) {
    const uint64_t ms = now(f) - f->rate_ms;
    if (ms < RATE_MS)
        return;
    const uint64_t fresh = (f->all->have - f->rate_have) * 1000 / ms;
    f->rate = f->rate ? (f->rate + fresh) / 2 : fresh;
    f->rate_have = f->all->have;
    f->rate_ms = now(f);
}

static void on_tick(uv_timer_t *t) {
    struct bar_fetch *f = t->data;
    measure(f);
    const struct dispatch_progress p = {.least = f->all->have,
                                        .most = f->all->of,
                                        .of = f->all->of,
                                        .sent = f->all->arrived,
                                        .n_nodes = f->n_folders,
                                        .n_done = f->all->n_done,
                                        .rate = f->rate};
    if (p.of)
        bar_show(&f->bar, "fetch", &p, now(f));
}

void bar_fetch_begin(struct bar_fetch *f, uv_loop_t *loop, struct view *view,
                     void (*object)(void *arg, json_t *o), void *arg,
                     const struct package_fetches *all, int n_folders) {
    *f = (struct bar_fetch){.all = all, .n_folders = n_folders, .is_open = 1};
    bar_init(&f->bar, view, object, arg, uv_now(loop));
    f->rate_ms = uv_now(loop);
    uv_timer_init(loop, &f->timer);
    f->timer.data = f;
    uv_timer_start(&f->timer, on_tick, TICK_MS, TICK_MS);
}

void bar_fetch_end(struct bar_fetch *f) {
    char x[24], y[24];
    if (!f->is_open)
        return;
    f->is_open = 0;
    const uint64_t ms = now(f) - f->bar.began_ms;
    if (f->bar.view)
        bar_wipe(&f->bar);
    if (f->bar.view && !f->bar.object && (f->bar.n_lines || ms >= TELL_MS))
        view_printf(f->bar.view, "fetched %s in %.1f s; %s came over the links",
                    bar_bytes(f->all->have, x), (double)ms / 1000, bar_bytes(f->all->arrived, y));
    uv_close((uv_handle_t *)&f->timer, NULL);
}
