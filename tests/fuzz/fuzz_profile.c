/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_profile.c - the spans that two processes have written, and the trace that paddlectl makes of
 * them: complete JSON with exactly these spans, or an error and no file.
 *
 * Parts: two numbers for the clocks, then the files of a trainer and of a pserver. */
#include "launcher/outputs/profile.h"

#include <jansson.h>

#include "base/json_text.h"
#include "tests/support/fuzz/fuzz.h"

static void check_span(const json_t *e, const struct outputs_profile *p) {
    const double ts = json_number_value(json_object_get(e, "ts"));
    const json_int_t pid = json_integer_value(json_object_get(e, "pid"));
    fuzz_check(json_is_number(json_object_get(e, "ts")) && ts >= 0);
    fuzz_check(json_is_number(json_object_get(e, "dur")));
    fuzz_check(json_number_value(json_object_get(e, "dur")) >= 0);
    fuzz_check(pid >= 1 && pid <= (json_int_t)p->n_processes);
    fuzz_check(json_integer_value(json_object_get(e, "tid")) >= 1);
    fuzz_check(json_is_string(json_object_get(e, "name")));
}

static void check_trace(const char *path, const struct outputs_profile *p) {
    json_t *o = json_load_file(path, JSON_REJECT_DUPLICATES, NULL), *e;
    size_t i;
    uint64_t n = 0;
    fuzz_check(o);
    json_array_foreach (json_object_get(o, "traceEvents"), i, e)
        if (!strcmp(pd_json_text(e, "ph"), "X")) {
            check_span(e, p);
            n++;
        }
    fuzz_check(n == p->n_spans);
    fuzz_check(p->n_processes + p->n_left_out + p->n_rebooted <= 2);
    json_decref(o);
}

FUZZ(in) {
    const char *hosts[] = {"here", "there"};
    struct outputs_clock clocks[2] = {{0}, {0}};
    char dir[PATH_MAX], path[PATH_MAX], text[OUTPUTS_PROFILE_TEXT];
    struct pd_err err = {0};
    for (int i = 0; i < 2; i++) { /* pings of any nodes */
        const int64_t ahead = (int64_t)fuzz_u32(in) << 28;
        outputs_clock_ping(&clocks[i], 1000, ahead, 3000, "b");
    }
    fuzz_check(!pd_fmt(dir, sizeof dir, "%s/J", fuzz_folder()));
    fuzz_check(!pd_fmt(path, sizeof path, "%s/J/profile", fuzz_folder()));
    fuzz_check(!pd_mkdirs(path, 0700, NULL));
    for (int i = 0; i < 2; i++) {
        size_t n;
        const char *part = fuzz_part(in, &n);
        (void)fuzz_file(i ? "J/profile/pserver-0.jsonl" : "J/profile/trainer-0.jsonl", part, n);
    }
    struct outputs_profile p = {
        .dir = dir, .job = "J", .clocks = clocks, .hosts = hosts, .n_nodes = 2};
    const int rc = fuzz_rc(outputs_profile_merge(&p, &err), &err);
    outputs_profile_text(&p, &err, text);
    fuzz_check(*text && (rc || p.n_left_out || p.n_rebooted || p.n_damaged ||
                         !outputs_profile_has_parts(dir)));
    fuzz_check(!pd_fmt(path, sizeof path, "%s/J/profile.json.new", fuzz_folder()));
    fuzz_check(access(path, F_OK));
    path[strlen(path) - strlen(".new")] = 0;
    if (rc)
        fuzz_check(access(path, F_OK));
    else
        check_trace(path, &p);
    fuzz_check(!pd_rm_tree(dir, NULL));
}
