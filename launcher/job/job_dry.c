/* SPDX-License-Identifier: Apache-2.0 */
/* job_dry.c - `paddlectl run --dry-run`: prints the plan without contacting any host. */
#include "launcher/dispatch/listing.h"
#include "launcher/dispatch/split.h"
#include "launcher/job/job_internal.h"

static int has(const int *ids, size_t n, int id) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

/* A path as printable text: control characters and invalid UTF-8 become '?'. */
static json_t *path_text(const char *path) {
    struct pd_buf b = {0};
    listing_put_name(&b, path);
    json_t *v = b.failed ? NULL : json_stringn(b.len ? (char *)b.data : "", b.len);
    pd_buf_release(&b);
    return v;
}

/* --- data files --- */

struct share { /* the data files of a trainer */
    uint64_t files, bytes;
    json_t *paths;
};

static void add_to(struct share *s, const struct scan_item *item) {
    s->files++;
    s->bytes += item->size;
    json_array_append_new(s->paths, json_pack("{s:o, s:I}", "path", path_text(item->path), "bytes",
                                              (json_int_t)item->size));
}

/* The data files of each trainer's node, by rank; NULL: all nodes get all files. */
static json_t *shares(const struct job *j, const struct scan *scan, struct pd_err *err) {
    size_t n = j->c.n_trainers;
    struct share *v = n ? pd_calloc(n, sizeof *v) : NULL;
    struct scan_item item;
    struct split s;
    json_t *out = NULL;
    split_init(&s);
    for (size_t r = 0; v && r < n; r++)
        v[r].paths = json_array();
    if (v && job_has_data_apart(j) && !split_find(&s, scan, j->opts, err) && s.apart.n) {
        for (size_t i = 0; i < scan_n_items(scan); i++) {
            int rank[2];
            scan_item(scan, i, &item);
            if (item.type != MANIFEST_FILE || !split_is_apart(&s, item.path))
                continue;
            split_readers(&s, item.path, (uint32_t)n, rank);
            for (int k = 0; k < 2; k++)
                if (rank[k] >= 0 && (!k || rank[1] != rank[0]))
                    add_to(&v[rank[k]], &item);
        }
        out = json_array();
        for (size_t r = 0; r < n; r++) {
            json_array_append_new(out,
                                  json_pack("{s:i, s:s, s:i, s:I, s:I, s:O}", "trainer", (int)r,
                                            "host", j->nodes[j->c.trainers[r]].host->label, "node",
                                            j->c.trainers[r], "n_files", (json_int_t)v[r].files,
                                            "bytes", (json_int_t)v[r].bytes, "files", v[r].paths));
            if (j->copy_nodes)
                json_object_set_new(json_array_get(out, r), "copy",
                                    json_string(j->nodes[j->copy_nodes[r]].host->label));
        }
    }
    for (size_t r = 0; v && r < n; r++)
        json_decref(v[r].paths);
    free(v);
    split_release(&s);
    return out;
}

static void print_shares(const struct job *j, const json_t *list) {
    const json_t *t, *f;
    size_t i, k;
    uint64_t files = 0, bytes = 0;
    json_array_foreach (list, i, t) {
        files += (uint64_t)json_integer_value(json_object_get(t, "n_files"));
        bytes += (uint64_t)json_integer_value(json_object_get(t, "bytes"));
    }
    printf("of these, %llu data files, %llu bytes, each sent to its trainer %s:\n",
           (unsigned long long)files, (unsigned long long)bytes,
           j->copy_nodes ? "and to one more node (data_copies = 2)"
                         : "only (data_layout = dispatched)");
    json_array_foreach (list, i, t) {
        const char *copy = json_string_value(json_object_get(t, "copy"));
        printf("  trainer %zu  %s  %lld files, %lld bytes%s%s\n", i,
               json_string_value(json_object_get(t, "host")),
               (long long)json_integer_value(json_object_get(t, "n_files")),
               (long long)json_integer_value(json_object_get(t, "bytes")), copy ? ", copy on " : "",
               copy ? copy : "");
        if (!j->flags.verbose)
            continue;
        json_array_foreach (json_object_get(t, "files"), k, f)
            printf("    %s  %lld\n", json_string_value(json_object_get(f, "path")),
                   (long long)json_integer_value(json_object_get(f, "bytes")));
    }
}

/* --- the plan --- */

static json_t *plan(const struct job *j, const struct scan_totals *t) {
    const struct client_env *c = &j->c;
    json_t *hosts = json_array();
    for (int i = 0; i < j->n_hosts; i++) {
        char root[PATH_MAX] = "";
        json_t *roles = json_array();
        root_for_node(j->nodes[i].host->root_dir, i, root, sizeof root, NULL);
        if (has(c->pservers, c->n_pservers, i))
            json_array_append_new(roles, json_string("pserver"));
        if (has(c->trainers, c->n_trainers, i))
            json_array_append_new(roles, json_string("trainer"));
        json_array_append_new(hosts,
                              json_pack("{s:i, s:s, s:s, s:s, s:o}", "node", i, "host",
                                        j->nodes[i].host->label, "spec", j->nodes[i].host->spec,
                                        "root_dir", root, "roles", roles));
    }
    json_t *o = json_pack("{s:o, s:I, s:I, s:s, s:b}", "hosts", hosts, "pservers",
                          (json_int_t)c->n_pservers, "trainers", (json_int_t)c->n_trainers,
                          "outputs", j->out.root, "worker", j->needs_worker);
    if (j->sends_workspace)
        json_object_set_new(o, "package",
                            json_pack("{s:s, s:I, s:I, s:I}", "path", j->opts->job_dispatch_package,
                                      "files", (json_int_t)t->files, "bytes", (json_int_t)t->bytes,
                                      "object_bytes", (json_int_t)t->object_bytes));
    else
        json_object_set_new(o, "job_workspace", json_string(j->opts->job_workspace));
    return o;
}

int job_dry_run(struct job *j) {
    struct scan *scan;
    struct scan_totals totals = {0};
    struct pd_err err = {0};
    char warning[300];
    size_t i;
    if (job_place_copies(j, &err) || job_scan_now(j, &scan, &err)) {
        dprintf(STDERR_FILENO, "paddlectl: %s\n", err.msg);
        return pd_code_exit_status(err.code);
    }
    if (scan)
        scan_get_totals(scan, &totals);
    json_t *data = scan ? shares(j, scan, &err) : NULL;
    scan_free(scan);
    json_t *o = plan(j, &totals), *h;
    if (data)
        json_object_set_new(o, "data_files", data);
    if (*j->checkpoint.text)
        json_object_set_new(o, "resume",
                            json_pack("{s:s, s:s}", "checkpoint", j->checkpoint.text, "set",
                                      j->checkpoint.settings));
    if (j->flags.json) {
        json_dumpf(o, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
        putchar('\n');
        json_decref(o);
        return fflush(stdout) ? 1 : 0;
    }
    printf("would run on %d host%s: %zu pserver%s, %zu trainer%s\n", j->n_hosts,
           j->n_hosts == 1 ? "" : "s", j->c.n_pservers, j->c.n_pservers == 1 ? "" : "s",
           j->c.n_trainers, j->c.n_trainers == 1 ? "" : "s");
    json_array_foreach (json_object_get(o, "hosts"), i, h) {
        int p = has(j->c.pservers, j->c.n_pservers, (int)i),
            t = has(j->c.trainers, j->c.n_trainers, (int)i);
        printf("  node %zu  %s  %s, below %s\n", i, json_string_value(json_object_get(h, "spec")),
               p && t ? "pserver and trainer"
               : p    ? "pserver"
               : t    ? "trainer"
                      : "nothing",
               json_string_value(json_object_get(h, "root_dir")));
    }
    if (j->sends_workspace)
        printf("would send %s: %llu files, %llu bytes; 'paddlectl dispatch --dry-run' lists them\n",
               j->opts->job_dispatch_package, (unsigned long long)totals.files,
               (unsigned long long)totals.bytes);
    if (data) {
        print_shares(j, data);
        job_copies_warning(j, warning, sizeof warning);
        if (*warning)
            puts(warning);
    }
    if (!j->sends_workspace)
        printf("would use %s on the hosts\n", j->opts->job_workspace);
    if (*j->checkpoint.text)
        printf("%s%s%s\n", j->checkpoint.text, *j->checkpoint.settings ? "; " : "",
               j->checkpoint.settings);
    printf("would put the outputs below %s\n", j->out.root);
    json_decref(o);
    return 0;
}
