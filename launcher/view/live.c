/* live.c - see live.h. */
#include "launcher/view/live.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/str.h"

enum { PIPE_PROGRESS_MS = 5000 };

struct live {
    uv_loop_t *loop;
    struct view *view;
    char text[300];
    uint64_t last_ms;
};

int live_new(struct live **out, uv_loop_t *loop, struct view *v, struct pd_err *err) {
    struct live *l = pd_calloc(1, sizeof *l);
    if (!l)
        return pd_fail(err, PD_ENOMEM, "out of memory");
    l->loop = loop;
    l->view = v;
    *out = l;
    return 0;
}

static void progress_text(const json_t *e, char *out, size_t cap) {
    json_t *total = json_object_get(e, "num_passes"), *cost = json_object_get(e, "cost"), *rate = json_object_get(e, "rate");
    const char *unit = json_string_value(json_object_get(e, "unit"));
    char of[32] = "", c[48] = "", r[80] = "";
    if (json_is_integer(total))
        pd_fmt(of, sizeof of, "/%lld", (long long)json_integer_value(total));
    if (json_is_number(cost))
        pd_fmt(c, sizeof c, ", cost %.5g", json_number_value(cost));
    if (json_is_number(rate))
        pd_fmt(r, sizeof r, ", %.0f %.20s/s", json_number_value(rate), unit ? unit : "samples");
    snprintf(out, cap, "pass %lld%s, batch %lld%s%s", (long long)json_integer_value(json_object_get(e, "pass")) + 1, of,
             (long long)json_integer_value(json_object_get(e, "batch")), c, r);
}

void live_event(struct live *l, unsigned node, const char *json, size_t n) {
    json_t *e = json_loadb(json, n, 0, NULL);
    const char *ev = json_string_value(json_object_get(e, "ev"));
    uint64_t now = uv_now(l->loop);
    (void)node;
    if (ev && !strcmp(ev, "progress")) {
        progress_text(e, l->text, sizeof l->text);
        if (view_is_live(l->view)) {
            size_t len = strlen(l->text), cols = (size_t)view_width(l->view);
            view_live(l->view, l->text, len < cols ? len : cols - 1);
        } else if (!l->last_ms || now - l->last_ms >= PIPE_PROGRESS_MS) {
            char line[320];
            l->last_ms = now;
            view_put(l->view, line, (size_t)snprintf(line, sizeof line, "progress | %s\n", l->text));
        }
    }
    json_decref(e);
}

void live_close(struct live *l) {
    char line[320];
    if (*l->text && view_is_live(l->view))
        view_put(l->view, line, (size_t)snprintf(line, sizeof line, "%s\n", l->text));
    view_live(l->view, "", 0);
}

void live_free(struct live *l) { free(l); }
