/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_check.c - paddlectl check: tests whether the hosts can run a job. Prints one line for
 * hosts with equal findings, each problem with its remedy, and a verdict. */
#include <sys/utsname.h>

#include "base/json_text.h"
#include "launcher/check/check.h"
#include "launcher/cmd/cmd.h"
#include "launcher/text/fold.h"
#include "launcher/text/term.h"

enum { NAMES_WIDTH = 30 }; /* longer names have no column of their own */

static const char *const levels[] = {"ok", "warning", "UNUSABLE"};

static double gib(const json_t *o, const char *name) {
    return (double)json_integer_value(json_object_get(o, name)) / 1073741824;
}

/* The address at which the other nodes reached node `who`; "" if none did. */
static const char *address(const struct check_node *v, size_t n, size_t who) {
    for (size_t i = 0; i < n; i++) {
        size_t k;
        json_t *r;
        json_array_foreach (v[i].reached, k, r)
            if ((size_t)json_integer_value(json_object_get(r, "node")) == who &&
                *pd_json_text(r, "addr"))
                return pd_json_text(r, "addr");
    }
    return "";
}

static void print_facts(const struct check_node *v, const char *addr) {
    const json_t *f = v->facts, *root = json_object_get(f, "root_dir"),
                 *ports = json_object_get(f, "ports");
    printf("%s %s, %lld cores (load %.1f), memory %.1f of %.1f GiB free, disk %.1f GiB free",
           pd_json_text(f, "arch"), pd_json_text(f, "libc"),
           (long long)json_integer_value(json_object_get(f, "cores")),
           json_number_value(json_object_get(f, "load")), gib(f, "mem_available"),
           gib(f, "mem_bytes"), gib(root, "free"));
    if (v->n_clocks)
        printf(", clock %+.0f ms", v->offset_ms);
    if (*addr)
        printf(", at %s", addr);
    for (size_t i = 0; i < json_array_size(ports); i++)
        printf("%s%lld", i ? " " : ", ports ",
               (long long)json_integer_value(json_array_get(ports, i)));
    if (*pd_json_text(f, "blas"))
        printf(", BLAS %s", pd_json_text(f, "blas"));
    putchar('\n');
}

/* The findings from number `k` on, each with its remedy. */
static void print_findings(const struct check_node *v, int k, int width) {
    for (; k < v->n_findings; k++) {
        printf("%*s  %s: %s\n", width, "",
               v->findings[k].level == CHECK_NOTE ? "note" : levels[v->findings[k].level],
               v->findings[k].text);
        if (*v->findings[k].hint)
            printf("%*s  -> %s\n", width + 10, "", v->findings[k].hint);
    }
}

/* --- hosts with equal findings --- */

/* A distinct text of a fact, as a part of a list: "skylake/zen". */
static void add_value(char *list, size_t cap, const char *value) {
    size_t n = strlen(value), len = strlen(list);
    for (const char *p = list; (p = strstr(p, value)); p += n)
        if ((p == list || p[-1] == '/') && (!p[n] || p[n] == '/'))
            return;
    pd_fmt(list + len, cap - len, "%s%s", len ? "/" : "", value);
}

struct range {
    double least, most;
};

static void widen(struct range *r, double x, int first) {
    r->least = first || x < r->least ? x : r->least;
    r->most = first || x > r->most ? x : r->most;
}

/* The facts of several hosts: the least of what they have, the most of what disturbs. */
static void print_summary(const struct check_node *const *v, size_t n) {
    char machines[200] = "", blas[200] = "", text[120];
    struct range cores = {0}, load = {0}, memory = {0}, disk = {0}, clocks = {0};
    for (size_t i = 0; i < n; i++) {
        const json_t *f = v[i]->facts;
        pd_fmt(text, sizeof text, "%s %s", pd_json_text(f, "arch"), pd_json_text(f, "libc"));
        add_value(machines, sizeof machines, text);
        if (*pd_json_text(f, "blas"))
            add_value(blas, sizeof blas, pd_json_text(f, "blas"));
        widen(&cores, (double)json_integer_value(json_object_get(f, "cores")), !i);
        widen(&load, json_number_value(json_object_get(f, "load")), !i);
        widen(&memory, gib(f, "mem_available"), !i);
        widen(&disk, gib(json_object_get(f, "root_dir"), "free"), !i);
        widen(&clocks, fabs(v[i]->offset_ms), !i);
    }
    printf("%s, %.0f", machines, cores.least);
    if (cores.most > cores.least)
        printf("-%.0f", cores.most);
    printf(
        " cores (load up to %.1f), at least %.1f GiB memory and %.1f GiB disk free, clocks within "
        "%.0f ms",
        load.most, memory.least, disk.least, clocks.most);
    if (*blas)
        printf(", BLAS %s", blas);
    putchar('\n');
}

static int is_equal(const struct check_node *a, const struct check_node *b) {
    if (a->worst != b->worst || a->n_findings != b->n_findings || !a->facts != !b->facts)
        return 0;
    for (int k = 0; k < a->n_findings; k++) {
        const struct check_finding *x = &a->findings[k], *y = &b->findings[k];
        if (x->level != y->level || strcmp(x->text, y->text) || strcmp(x->hint, y->hint))
            return 0;
    }
    return 1;
}

/* Hosts with equal findings, which share a line. */
struct group {
    const struct check_node **v; /* a part of one array */
    size_t n;
    char *names; /* folded */
};

/* Sort the hosts into groups, in the order of the first host of each. `order` has room for n hosts,
 * `groups` for n groups. Returns the number of groups; 0: out of memory. */
static size_t make_groups(const struct check_node *v, size_t n, const struct check_node **order,
                          struct group *groups) {
    const char **names = pd_calloc(n, sizeof *names);
    char *taken = pd_calloc(n, 1);
    size_t n_groups = 0, at = 0, bad = !names || !taken;
    for (size_t i = 0; i < n && !bad; i++) {
        if (taken[i])
            continue;
        struct group *g = &groups[n_groups++];
        *g = (struct group){.v = order + at};
        for (size_t j = i; j < n; j++)
            if (!taken[j] && is_equal(&v[i], &v[j])) {
                taken[j] = 1;
                names[g->n] = v[j].name;
                g->v[g->n++] = &v[j];
            }
        at += g->n;
        bad = !(g->names = fold_hosts(names, g->n));
    }
    free(taken);
    free(names);
    return bad ? 0 : n_groups;
}

static void print_group(const struct group *g, const struct check_node *all, size_t n, int width) {
    const struct check_node *first = g->v[0];
    printf("%-*s  %-8s  ", width, g->names, levels[first->worst]);
    if (first->facts && g->n == 1)
        print_facts(first, address(all, n, (size_t)(first - all)));
    else if (first->facts)
        print_summary(g->v, g->n);
    else if (first->n_findings) /* without facts the first finding takes their place */
        printf("%s\n", first->findings[0].text);
    if (!first->facts && first->n_findings && *first->findings[0].hint)
        printf("%*s  -> %s\n", width + 10, "", first->findings[0].hint);
    print_findings(first, first->facts ? 0 : 1, width);
}

/* Print the hosts; without `verbose` those with equal findings share a line. */
static int print_hosts(const struct check_node *v, size_t n, int verbose) {
    const struct check_node **order = pd_calloc(n, sizeof *order);
    struct group *groups = pd_calloc(n, sizeof *groups);
    size_t n_groups = 0;
    int width = 4;
    if (order && groups && !verbose)
        n_groups = make_groups(v, n, order, groups);
    for (size_t i = 0; verbose && order && groups && i < n; i++) {
        order[i] = &v[i];
        groups[i] = (struct group){&order[i], 1, pd_strdup(v[i].name)};
        n_groups = groups[i].names ? i + 1 : n_groups;
    }
    for (size_t i = 0; i < n_groups; i++) {
        int w = (int)term_columns(groups[i].names, strlen(groups[i].names));
        width = w > width ? w < NAMES_WIDTH ? w : NAMES_WIDTH : width;
    }
    for (size_t i = 0; i < n_groups; i++)
        print_group(&groups[i], v, n, width);
    for (size_t i = 0; groups && i < n; i++)
        free(groups[i].names);
    free(groups);
    free(order);
    return n_groups ? 0 : PD_ENOMEM;
}

static void verdict(const struct check_node *v, size_t n) {
    size_t count[3] = {0};
    for (size_t i = 0; i < n; i++)
        count[v[i].worst]++;
    printf("%zu host%s ok", count[CHECK_NOTE], count[CHECK_NOTE] == 1 ? "" : "s");
    if (count[CHECK_WARNING])
        printf(", %zu warning%s", count[CHECK_WARNING], count[CHECK_WARNING] == 1 ? "" : "s");
    if (count[CHECK_BAD])
        printf(", %zu unusable", count[CHECK_BAD]);
    putchar('\n');
}

static json_t *json_host(const struct check_node *v, size_t n, size_t i) {
    static const char *const names[] = {"note", "warning", "unusable"};
    json_t *findings = json_array(), *o;
    for (int k = 0; k < v[i].n_findings; k++) {
        const struct check_finding *f = &v[i].findings[k];
        json_array_append_new(findings, json_pack("{s:s, s:s, s:s}", "level", names[f->level],
                                                  "text", f->text, "hint", f->hint));
    }
    o = json_pack("{s:i, s:s, s:s, s:o}", "node", (int)i, "host", v[i].name, "verdict",
                  v[i].worst == CHECK_NOTE ? "ok" : names[v[i].worst], "findings", findings);
    if (!v[i].facts)
        return o;
    json_object_set_new(o, "address", json_string(address(v, n, i)));
    json_object_set_new(o, "clock_offset_ms", json_real(v[i].offset_ms));
    json_object_set_new(o, "rtt_ms", json_real(v[i].rtt_ms));
    json_object_set_new(o, "login_ms", json_integer((json_int_t)v[i].login_ms));
    json_object_set_new(o, "login_printed", json_integer((json_int_t)v[i].login_printed));
    json_object_set(o, "facts", v[i].facts);
    if (v[i].reached)
        json_object_set(o, "reached", v[i].reached);
    return o;
}

struct check_cmd {
    int json, verbose;
};

static int check(void *arg, const struct pd_options *o, const char *want, struct pd_err *err) {
    const struct check_cmd *m = arg;
    (void)want;
    struct client_env c;
    struct utsname u;
    int status = 0, rc = client_env_init(&c, o, err);
    if (rc)
        return pd_code_exit_status(rc);
    size_t n = c.hosts.n;
    struct check_node *v = pd_calloc(n, sizeof *v);
    rc = v ? check_ask(&c, v, err) : pd_oom(err, "the report of a check");
    if (!rc) {
        check_findings(v, n, uname(&u) ? "" : u.machine);
        for (size_t i = 0; i < n; i++) {
            status = v[i].worst == CHECK_BAD ? 3 : status;
            if (m->json && cmd_print_json_line(json_host(v, n, i)))
                status = 1;
        }
        if (!m->json && print_hosts(v, n, m->verbose))
            rc = pd_oom(err, "the report of a check");
        if (!m->json)
            verdict(v, n);
    }
    if (v)
        check_release(v, n);
    free(v);
    client_env_release(&c);
    return rc > 0 ? pd_code_exit_status(PD_ECANCELED) : rc ? pd_code_exit_status(rc) : status;
}

int cmd_check(int argc, char **argv) {
    struct check_cmd m = {0};
    const struct pd_extra_option extra[] = {
        {"verbose", &m.verbose, NULL, "a line for each host, also for good ones"},
        {"json", &m.json, NULL, "print one JSON object per host, one per line"},
        {0},
    };
    const struct cmd_line line = {
        .usage =
            "paddlectl check [options]\n"
            "Tests all hosts at the same time: whether each can run a job, and if not, what "
            "to do. Hosts with equal findings share a line. Only the agent program stays in the "
            "cache of the hosts.",
        .about =
            "The command tests: name, connection, host key and log-in; the output and the run time "
            "of the login shell's start-up files; architecture; free space, free inodes and write "
            "access in root_dir, and that no two nodes share root_dir; memory, cores and load; the "
            "clock, compared with this machine's; the ports that a job would get; and the "
            "connections between the nodes. Each node connects to up to four others at all their "
            "addresses, from the port range of the job. The handshake is secret to this check, so "
            "a wrong machine behind an address does not pass. The line of a single host shows "
            "the address that worked.\n\n"
            "The output also shows the version of the C library, for programs of your own, and the "
            "kernels that OpenBLAS selects, since results may differ in bits between kernels.",
        .examples =
            "paddlectl check\tall hosts of conf.ini\n"
            "paddlectl check --hosts='node[1-8]' --root_dir=/data/paddle\twithout a conf.ini\n",
        .status = "0\tall hosts can run a job, possibly with warnings\n"
                  "2\twrong usage or configuration\n"
                  "3\tat least one host cannot run a job\n"
                  "130\tstopped by Ctrl-C\n",
        .extra = extra,
        .sections = "cluster ssh",
        .who = PD_LAUNCHER,
        .needs_conf = 1,
    };
    return cmd_main(&line, argc, argv, check, &m);
}
