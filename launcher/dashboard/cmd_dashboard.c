/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_dashboard.c - paddlectl dashboard: runs as a page that stays up to date. */
#include <sodium.h>

#include "launcher/cmd/cmd.h"
#include "launcher/dashboard/dashboard.h"

struct dashboard_cmd {
    const char *port, *token_file;
    int no_hosts;
};

static void make_token(char token[DASHBOARD_TOKEN + 1]) {
    uint8_t bytes[DASHBOARD_TOKEN / 2];
    randombytes_buf(bytes, sizeof bytes);
    pd_hex(token, bytes, sizeof bytes);
}

/* The token in the file; the first time it is made. */
static int read_token(const char *path, char token[DASHBOARD_TOKEN + 1], struct pd_err *err) {
    struct stat st;
    uint8_t bytes[DASHBOARD_TOKEN / 2];
    if (stat(path, &st) && errno == ENOENT) {
        char line[DASHBOARD_TOKEN + 2];
        make_token(token);
        pd_fmt(line, sizeof line, "%s\n", token);
        return pd_write_file_atomic(path, line, DASHBOARD_TOKEN + 1, 0600, err);
    }
    const int fd = pd_open_regular(path, O_RDONLY, 0, &st);
    if (fd < 0)
        return pd_fail_errno(err, PD_EIO, errno, "%s", path);
    if ((st.st_mode & 077) || st.st_uid != geteuid()) {
        pd_close(fd);
        return pd_fail(err, PD_ECONF, "%s: others can read or write it: chmod 600", path);
    }
    char line[DASHBOARD_TOKEN + 8];
    const ssize_t n = read(fd, line, sizeof line);
    pd_close(fd);
    if (n < 0)
        return pd_fail(err, PD_EIO, "%s cannot be read", path);
    size_t len = (size_t)n;
    while (len && isspace((unsigned char)line[len - 1]))
        len--;
    if (len != DASHBOARD_TOKEN)
        len = 0;
    memcpy(token, line, len);
    token[len] = 0;
    return pd_unhex(bytes, sizeof bytes, token)
               ? pd_fail(err, PD_ECONF,
                         "%s: a token has %d hexadecimal digits; remove the file, and it is made "
                         "anew",
                         path, DASHBOARD_TOKEN)
               : 0;
}

/* Without hosts the page has the records only, and says why. */
static void ask_hosts(const struct dashboard_cmd *p, struct dashboard_jobs *jobs,
                      const struct pd_options *o) {
    struct pd_err err = {0};
    if (p->no_hosts)
        return;
    if (!*o->hosts)
        pd_fail(&err, PD_ECONF, "there is no conf.ini that names hosts");
    if (err.code || dashboard_hosts_start(&jobs->asks, o, &err)) {
        pd_fmt(jobs->why_not, sizeof jobs->why_not, "%.290s", err.msg);
        fprintf(stderr, "paddlectl: the hosts are not asked for jobs: %s\n", err.msg);
    }
}

static int serve(void *arg, const struct pd_options *o, const char *word, struct pd_err *err) {
    const struct dashboard_cmd *p = arg;
    struct dashboard_jobs jobs = {0};
    struct dashboard_http *http = NULL;
    char token[DASHBOARD_TOKEN + 1];
    int64_t wanted = 0;
    sigset_t set, before;
    int rc = 0, got;
    (void)word;
    if (p->port && pd_parse_i64(p->port, 0, 65535, &wanted))
        return pd_fail(err, PD_EUSAGE, "--port=%.40s: give a port", p->port);
    if (pd_fmt(jobs.outputs, sizeof jobs.outputs, "%s", o->outputs))
        return pd_fail(err, PD_EUSAGE, "%s: the path is too long", o->outputs);
    if (!p->token_file)
        make_token(token);
    else if ((rc = read_token(p->token_file, token, err)))
        return rc;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, &before); /* in the server's thread, too */
    uint16_t port = (uint16_t)wanted;
    ask_hosts(p, &jobs, o);
    rc = dashboard_http_start(&http, &jobs, token, &port, err);
    if (!rc) {
        printf("http://127.0.0.1:%u/%s/\n", port, token);
        fflush(stdout);
        fprintf(stderr, "paddlectl: Ctrl-C ends the dashboard; the runs go on\n");
        while (sigwait(&set, &got))
            ;
    }
    dashboard_http_stop(http);
    dashboard_hosts_stop(jobs.asks);
    dashboard_jobs_release(&jobs);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int cmd_dashboard(int argc, char **argv) {
    struct dashboard_cmd p = {0};
    static const int without_conf = 1;
    const struct pd_extra_option extra[] = {
        {"port=PORT", NULL, &p.port, "of 127.0.0.1; default: 0, any free one"},
        {"token-file=FILE", NULL, &p.token_file,
         "keep the token of the address in FILE, so that it stays the same; default: a new one"},
        {"no-hosts", &p.no_hosts, NULL, "ask no host: show the records only"},
        {0}};
    const struct cmd_line line = {
        .usage = "paddlectl dashboard [options]\n"
                 "Shows runs in a browser while they go on: the page of 'paddlectl report', which "
                 "brings itself up to date. Prints the address, and serves it until Ctrl-C.",
        .about =
            "The page has all runs that a paddlectl of this machine follows, and the newest "
            "ones, from their records. A table has the jobs on the hosts of conf.ini, also those "
            "that another user or folder has started: state, nodes, owner, pass, metrics, "
            "speed. The hosts are asked as by 'paddlectl ps', while somebody looks at the "
            "page; their jobs do not notice. It changes "
            "nothing, except that hosts without paddle_agent receive it.\n\n"
            "Only this machine can reach the address, and only somebody who knows its token. "
            "From another machine: ssh -L PORT:127.0.0.1:PORT. ADDRESS/metrics has the "
            "figures for Prometheus.\n",
        .examples = "paddlectl dashboard\tprints the address of the page\n"
                    "paddlectl dashboard --port=8080 --token-file=token\tan address that stays "
                    "the same\n",
        .extra = extra,
        .sections = "cluster.hosts cluster.root_dir ssh job.outputs",
        .who = PD_LAUNCHER,
        .needs_conf = 1,
        .without_conf = &without_conf,
    };
    return cmd_main(&line, argc, argv, serve, &p);
}
