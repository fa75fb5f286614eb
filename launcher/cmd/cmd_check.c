/* cmd_check.c - paddlectl check: tests whether the hosts can run a job. Prints one line per host,
 * each problem with its remedy, and a verdict. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/alloc.h"
#include "base/str.h"
#include "launcher/check/check.h"
#include "launcher/cmd/cmd.h"

static const char *const levels[] = {"ok", "warning", "UNUSABLE"};

static const char *text_of(const json_t *o, const char *name) {
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

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
                *text_of(r, "addr"))
                return text_of(r, "addr");
    }
    return "";
}

static void print_facts(const struct check_node *v, const char *addr) {
    const json_t *f = v->facts, *root = json_object_get(f, "root_dir"),
                 *ports = json_object_get(f, "ports");
    printf("%s %s, %lld cores (load %.1f), memory %.1f of %.1f GiB free, disk %.1f GiB free",
           text_of(f, "arch"), text_of(f, "libc"),
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
    if (*text_of(f, "blas"))
        printf(", BLAS %s", text_of(f, "blas"));
    putchar('\n');
}

static void print_host(const struct check_node *v, size_t n, size_t i, int width) {
    printf("%-*s  %-8s  ", width, v[i].name, levels[v[i].worst]);
    int k = 0;
    if (v[i].facts)
        print_facts(&v[i], address(v, n, i));
    else if (v[i].n_findings) /* without facts the first finding takes their place */
        printf("%s\n", v[i].findings[k].text);
    if (!v[i].facts && v[i].n_findings && *v[i].findings[0].hint)
        printf("%*s  -> %s\n", width + 10, "", v[i].findings[0].hint);
    for (k = v[i].facts ? 0 : 1; k < v[i].n_findings; k++) {
        printf("%*s  %s: %s\n", width, "",
               v[i].findings[k].level == CHECK_NOTE ? "note" : levels[v[i].findings[k].level],
               v[i].findings[k].text);
        if (*v[i].findings[k].hint)
            printf("%*s  -> %s\n", width + 10, "", v[i].findings[k].hint);
    }
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

static int check(void *arg, const struct pd_options *o, const char *want, struct pd_err *err) {
    const int json = *(int *)arg;
    (void)want;
    struct client_env c;
    struct utsname u;
    int width = 4, status = 0, rc = client_env_init(&c, o, err);
    if (rc)
        return pd_code_exit_status(rc);
    size_t n = c.hosts.n;
    struct check_node *v = pd_calloc(n, sizeof *v);
    rc = v ? check_ask(&c, v, err) : pd_oom(err, "the report of a check");
    if (!rc) {
        check_findings(v, n, uname(&u) ? "" : u.machine);
        for (size_t i = 0; i < n; i++) {
            int len = (int)strlen(v[i].name);
            width = len > width ? len : width;
            status = v[i].worst == CHECK_BAD ? 3 : status;
        }
        for (size_t i = 0; i < n; i++)
            if (!json)
                print_host(v, n, i, width);
            else if (cmd_print_json_line(json_host(v, n, i)))
                status = 1;
        if (!json)
            verdict(v, n);
    }
    if (v)
        check_release(v, n);
    free(v);
    client_env_release(&c);
    return rc > 0 ? pd_code_exit_status(PD_ECANCELED) : rc ? pd_code_exit_status(rc) : status;
}

int cmd_check(int argc, char **argv) {
    int json = 0;
    const struct pd_extra_option extra[] = {
        {"json", &json, NULL, "print one JSON object per host, one per line"},
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl check [options]\n"
                 "Tests all hosts at the same time: whether each can run a job, and if not, what "
                 "to do. Only the agent program stays in the cache of the hosts.",
        .about =
            "The command tests: name, connection, host key and log-in; the output and the run time "
            "of the login shell's start-up files; architecture; free space, free inodes and write "
            "access in root_dir, and that no two nodes share root_dir; memory, cores and load; the "
            "clock, compared with this machine's; the ports that a job would get; and the "
            "connections between the nodes. Each node connects to up to four others at all their "
            "addresses, from the port range of the job. The handshake is secret to this check, so "
            "a wrong machine behind an address does not pass. The line of a host shows the address "
            "that worked.\n\n"
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
    return cmd_main(&line, argc, argv, check, &json);
}
