/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_exec.c - paddlectl exec: runs a command on all hosts and shows equal outputs once. */
#include <sys/mman.h>

#include "launcher/link/shell_run.h"
#include "launcher/cmd/cmd.h"
#include "launcher/view/blocks.h"
#include "launcher/text/fold_lines.h"
#include "launcher/view/stream.h"

enum { MEMORY = 64 << 20, HOST_MEMORY_MAX = 256 << 10, HOST_MEMORY_MIN = 4 << 10 };

struct exec_cmd {
    const char *nodes, *timeout, *input;
    int no_fold, json;
    struct client_env c;
    struct shell_job job;
    const char **names;
    struct spool *spools; /* 2i: stdout of host i, 2i+1: its stderr; unused with --no-fold */
    struct stream_view *stream;
    struct pd_err *cut; /* per host: why its output is incomplete */
    void *mapped;
    size_t n_over, n_asked;
    int broken, interrupted;
};

static size_t host_memory(size_t n) {
    size_t m = MEMORY / (2 * n);
    return m > HOST_MEMORY_MAX ? HOST_MEMORY_MAX : m < HOST_MEMORY_MIN ? HOST_MEMORY_MIN : m;
}

/* --- output of the hosts --- */

static void on_output(void *arg, size_t host, enum shell_stream stream, const uint8_t *p,
                      size_t n) {
    struct exec_cmd *x = arg;
    if (x->stream)
        stream_view_put(x->stream, host, stream == SHELL_ERR, p, n, &x->cut[host]);
    else
        spool_put(&x->spools[2 * host + (stream == SHELL_ERR)], p, n, &x->cut[host]);
}

static void on_over(void *arg, size_t host) {
    struct exec_cmd *x = arg;
    x->n_over++;
    if (!x->stream)
        return;
    stream_view_end(x->stream, host);
    if (x->n_over == x->n_asked)
        stream_view_end_all(x->stream);
}

/* The reader of stdout is gone: end with the exit status of a program that SIGPIPE ended. */
static void on_broken(void *arg) {
    struct exec_cmd *x = arg;
    x->broken = 1;
    shell_stop(&x->job);
}

/* --- the report at the end --- */

static void describe(const struct exec_cmd *x, size_t i, char *out, size_t cap) {
    const struct shell_host *h = &x->job.hosts[i];
    *out = 0;
    if (h->err.code == PD_ECANCELED) /* the user pressed Ctrl-C: no message */
        return;
    if (h->err.code)
        snprintf(out, cap, "%s", h->err.msg);
    else if (*h->signal)
        snprintf(out, cap, "ended by signal %s", h->signal);
    else if (h->status)
        snprintf(out, cap, "exit status %d", h->status);
    if (x->cut[i].code) {
        size_t n = strlen(out);
        snprintf(out + n, cap - n, "%sits output is incomplete: %s", n ? "; " : "", x->cut[i].msg);
    }
}

/* Print lines "paddlectl: node[3,5]: exit status 2": hosts with the same reason share a line. */
static void print_failures(const struct exec_cmd *x) {
    size_t n = x->c.hosts.n, cap = 2 * sizeof x->cut[0].msg;
    struct fold_line *v = pd_calloc(n, sizeof *v);
    char *why = pd_malloc(n * cap);
    for (size_t i = 0; i < n && v && why; i++) {
        char *text = why + i * cap;
        describe(x, i, text, cap);
        if (x->job.hosts[i].asked && *text)
            v[i] = (struct fold_line){.before = "paddlectl: ", .name = x->names[i], .text = text};
    }
    if (v && why)
        fold_lines(v, n, fold_print, stderr);
    free(why);
    free(v);
}

static int show_folded(struct exec_cmd *x, struct pd_err *err) {
    size_t n = x->c.hosts.n, k = 0;
    struct block *v = pd_calloc(n, sizeof *v);
    int rc = v ? 0 : pd_oom(err, "a command for the hosts");
    for (int e = 0; e < 2 && !rc; e++) {
        k = 0;
        for (size_t i = 0; i < n; i++)
            if (x->job.hosts[i].asked)
                v[k++] = (struct block){.name = x->names[i], .text = &x->spools[2 * i + (size_t)e]};
        rc = blocks_show(v, k, e ? stderr : stdout, err);
    }
    free(v);
    return rc;
}

static int json_host(struct exec_cmd *x, size_t i) {
    const struct shell_host *h = &x->job.hosts[i];
    json_t *name = json_string(x->names[i]), *why = json_string(h->err.msg),
           *cut = json_string(x->cut[i].msg);
    char *name_text = json_dumps(name, JSON_ENCODE_ANY),
         *why_text = json_dumps(why, JSON_ENCODE_ANY), *cut_text = json_dumps(cut, JSON_ENCODE_ANY);
    printf("{\"node\":%zu,\"host\":%s,\"status\":%d,\"ms\":%llu", i,
           name_text ? name_text : "\"?\"", h->status, (unsigned long long)h->ms);
    if (*h->signal)
        printf(",\"signal\":\"%s\"", h->signal);
    if (h->err.code)
        printf(",\"error\":%s", why_text ? why_text : "\"?\"");
    if (x->cut[i].code)
        printf(",\"incomplete\":%s", cut_text ? cut_text : "\"?\"");
    fputs(",\"stdout\":", stdout);
    int bad = blocks_json(&x->spools[2 * i], stdout);
    fputs(",\"stderr\":", stdout);
    bad |= blocks_json(&x->spools[2 * i + 1], stdout);
    puts("}");
    free(name_text);
    free(why_text);
    free(cut_text);
    json_decref(name);
    json_decref(why);
    json_decref(cut);
    return bad;
}

static int show_json(struct exec_cmd *x, struct pd_err *err) {
    int bad = 0;
    for (size_t i = 0; i < x->c.hosts.n && !bad; i++)
        if (x->job.hosts[i].asked)
            bad = json_host(x, i);
    return bad || fflush(stdout) ? pd_fail(err, PD_EIO, "the result cannot be written") : 0;
}

/* --- preparation --- */

/* Map the stdin of all hosts: a file, or a copy of paddlectl's own stdin up to its end. */
static int map_input(struct exec_cmd *x, struct pd_err *err) {
    struct stat st;
    int own = !strcmp(x->input, "-"), fd = own ? dup(0) : open(x->input, O_RDONLY | O_CLOEXEC),
        rc = 0;
    if (fd < 0 || fstat(fd, &st))
        rc = pd_fail_errno(err, PD_ENOENT, errno, "cannot read %s", own ? "stdin" : x->input);
    if (!rc && S_ISDIR(st.st_mode))
        rc = pd_fail(err, PD_EUSAGE, "--stdin: %s is a folder", own ? "stdin" : x->input);
    if (!rc && !S_ISREG(st.st_mode)) { /* a pipe: copy to an unnamed file */
        FILE *f = tmpfile();
        char buf[32768];
        ssize_t k = 0;
        while (f && (k = read(fd, buf, sizeof buf)) > 0 &&
               fwrite(buf, 1, (size_t)k, f) == (size_t)k)
            ;
        if (!f || k || fflush(f) || dup2(fileno(f), fd) < 0 || fstat(fd, &st))
            rc = pd_fail_errno(err, PD_EIO, errno, "cannot store the input from stdin");
        if (f)
            fclose(f);
    }
    if (!rc && st.st_size) {
        x->mapped = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (x->mapped == MAP_FAILED) {
            x->mapped = NULL;
            rc = pd_fail_errno(err, PD_EIO, errno, "cannot read %s", own ? "stdin" : x->input);
        } else {
            x->job.input = x->mapped;
            x->job.n_input = (size_t)st.st_size;
        }
    }
    pd_close(fd);
    return rc;
}

static char *join(const char *const *words, int n) {
    size_t len = 1;
    for (int i = 0; i < n; i++)
        len += strlen(words[i]) + 1;
    char *out = pd_malloc(len);
    for (size_t i = 0, at = 0; i < (size_t)n && out; at += strlen(out + at), i++)
        pd_fmt(out + at, len - at, "%s%s", i ? " " : "", words[i]);
    return out;
}

static int choose_hosts(struct exec_cmd *x, struct pd_err *err) {
    char *chosen = pd_calloc(x->c.hosts.n, 1);
    int rc = chosen ? 0 : pd_oom(err, "a command for the hosts");
    if (!rc && x->nodes)
        rc = hosts_filter(&x->c.hosts, x->nodes, x->c.opts, chosen, err);
    for (size_t i = 0; !rc && i < x->c.hosts.n; i++) {
        x->job.hosts[i].asked = !x->nodes || chosen[i];
        x->n_asked += (size_t)x->job.hosts[i].asked;
    }
    free(chosen);
    return rc;
}

static int prepare(struct exec_cmd *x, struct pd_err *err) {
    size_t n = x->c.hosts.n;
    double seconds = 0;
    if (x->timeout && pd_parse_f64(x->timeout, 0.001, 1e9, &seconds))
        return pd_fail(err, PD_EUSAGE, "--timeout must be a number of seconds, not '%s'",
                       x->timeout);
    x->job.timeout_ms = (uint64_t)(seconds * 1000);
    x->job.hosts = pd_calloc(n, sizeof *x->job.hosts);
    x->names = pd_calloc(n, sizeof *x->names);
    x->cut = pd_calloc(n, sizeof *x->cut);
    x->spools = pd_calloc(2 * n, sizeof *x->spools);
    if (!x->job.hosts || !x->names || !x->cut || !x->spools)
        return pd_oom(err, "a command for the hosts");
    for (size_t i = 0; i < n; i++)
        x->names[i] = x->c.hosts.v[i].label;
    for (size_t i = 0; i < 2 * n; i++)
        spool_init(&x->spools[i], host_memory(n));
    int rc = choose_hosts(x, err);
    if (!rc && x->input)
        rc = map_input(x, err);
    if (!rc && x->no_fold)
        rc =
            stream_view_new(&x->stream, &x->c.loop, x->names, n, host_memory(n), on_broken, x, err);
    return rc;
}

static void release(struct exec_cmd *x) {
    if (x->stream)
        stream_view_free(x->stream);
    for (size_t i = 0; x->spools && i < 2 * x->c.hosts.n; i++)
        spool_release(&x->spools[i]);
    if (x->mapped)
        munmap(x->mapped, x->job.n_input);
    free(x->spools);
    free(x->cut);
    free(x->names);
    free(x->job.hosts);
    client_env_release(&x->c);
}

static int highest_status(const struct exec_cmd *x) {
    int status = 0;
    if (x->broken)
        return 128 + SIGPIPE;
    for (size_t i = 0; i < x->c.hosts.n; i++) {
        const struct shell_host *h = &x->job.hosts[i];
        int s = h->status ? h->status : x->cut[i].code != 0;
        if (h->asked && s > status)
            status = s;
    }
    return x->interrupted ? pd_code_exit_status(PD_ECANCELED) : status;
}

static int run(struct exec_cmd *x, const struct pd_options *o, struct pd_err *err) {
    static const struct shell_events ev = {.on_output = on_output, .on_over = on_over};
    int rc = client_env_init_plain(&x->c, o, err);
    if (rc)
        return rc;
    rc = prepare(x, err);
    if (!rc) {
        x->interrupted = shell_run(&x->c, &x->job, &ev, x);
        rc = x->broken ? 0 : x->json ? show_json(x, err) : x->stream ? 0 : show_folded(x, err);
        if (!x->json && !x->broken)
            print_failures(x);
    }
    int status = rc ? pd_code_exit_status(rc) : highest_status(x);
    release(x);
    return status;
}

int cmd_exec(int argc, char **argv) {
    struct exec_cmd x = {0};
    const struct pd_extra_option extra[] = {
        {"node=LIST", NULL, &x.nodes,
         "run only on these hosts: ids (0-3,7) or names (gpu-[01-04], gpu-1*, @GROUP)"},
        {"no_fold", &x.no_fold, NULL, "show each line when it arrives, after the name of its host"},
        {"timeout=SECONDS", NULL, &x.timeout,
         "end the command on hosts where it takes longer; exit status 124"},
        {"stdin=FILE", NULL, &x.input,
         "the stdin of the command on every host; - is paddlectl's own stdin; default: empty"},
        {"json", &x.json, NULL,
         "print one JSON object per host, one per line: node, host, status, signal, error, ms, "
         "stdout, stderr"},
        {0},
    };
    const struct cmd_line line = {
        .usage = "paddlectl exec [options] [--] COMMAND...\n"
                 "Runs a command on all hosts at the same time, as 'ssh HOST COMMAND...' does: the "
                 "words are joined by blanks and passed to the user's shell there. When all hosts "
                 "have finished, paddlectl shows equal outputs once, with the names of their "
                 "hosts. Options of paddlectl must precede the command.",
        .about =
            "When paddlectl ends, for any reason, the command ends too: the processes of its "
            "session on the hosts get TERM, and KILL one second later. Background processes of a "
            "command that ends by itself keep running.\n\n"
            "Output that does not fit into memory is stored in an unnamed file in $TMPDIR or /tmp.",
        .examples = "paddlectl exec uptime\ton all hosts of conf.ini\n"
                    "paddlectl exec --node=0-3 'nproc; free -g'\ton the first four\n"
                    "paddlectl exec --no-fold tail -f /var/log/syslog\tline by line, until Ctrl-C\n"
                    "paddlectl exec --stdin=setup.sh sh -s -- --quick\ta script from here, with an "
                    "argument\n",
        .status = "0\tthe command ended with 0 on all hosts\n"
                  "1..\tthe highest exit status of the command; 128 + N if signal N ended it\n"
                  "2\twrong usage or configuration; nothing was done\n"
                  "124\tthe command was ended after --timeout\n"
                  "130\tstopped by Ctrl-C\n"
                  "255\ta host could not be reached\n",
        .extra = extra,
        .who = PD_LAUNCHER | PD_UP_TO_WORD,
        .max_rest = CMD_REST_MAX,
        .needs_conf = 1,
    };
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    char *command = join(rest, n_rest);
    x.job.command = command;
    if (!command)
        rc = pd_code_exit_status(pd_oom(&err, "a command for the hosts"));
    else if (!n_rest)
        rc = pd_code_exit_status(
            pd_fail(&err, PD_EUSAGE, "no command given; see 'paddlectl exec --help'"));
    else if (x.json && x.no_fold)
        rc = pd_code_exit_status(pd_fail(
            &err, PD_EUSAGE,
            "--json reports each host separately; --json and --no-fold exclude each other"));
    else
        rc = run(&x, &o, &err);
    free(command);
    pd_options_release(&o);
    return err.code ? cmd_fail(&err) : rc;
}
