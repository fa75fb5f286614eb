/* SPDX-License-Identifier: Apache-2.0 */
/* agent_main.c - main of paddle_agent: parses options, assembles, runs, exits. */
#include <getopt.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "agent/callback/callback.h"
#include "agent/daemon.h"
#include "agent/report/orphans.h"
#include "agent/core/msg.h"
#include "agent/relay.h"
#include "thread/malloc_tune.h"
#include "base/version.h"
#include "wire/msg.h"

enum {
    LINGER_MS = 2000,
    EXIT_USAGE = 2,
    ENDING_US = 20000, /* between two looks at an agent that is ending */
    ENDING_TRIES = 250
};

static const char usage[] =
    "usage: paddle_agent relay --root=DIR [--build=HASH] [--job=ID "
    "[--start [--node=N] [--lease=MS] [--leave]]]\n"
    "       paddle_agent callback --to=ADDRESS,... --port=N --node=N [--size=N] [--wait=MS]\n"
    "       paddle_agent --version\n"
    "The agent of paddlectl on a node. paddlectl starts it and talks to it on stdin and stdout "
    "by the protocol of docs/protocol.md.\n";

struct options {
    const char *root, *job, *build;
    char *to;
    int start, leave, callback;
    int64_t node, lease_ms, size, wait_ms, port;
};

static int parse(int argc, char **argv, struct options *o) {
    static const struct option known[] = {
        {"root", required_argument, NULL, 'r'},  {"job", required_argument, NULL, 'j'},
        {"start", no_argument, NULL, 's'},       {"leave", no_argument, NULL, 'L'},
        {"node", required_argument, NULL, 'n'},  {"lease", required_argument, NULL, 'l'},
        {"build", required_argument, NULL, 'b'}, {"to", required_argument, NULL, 't'},
        {"port", required_argument, NULL, 'p'},  {"size", required_argument, NULL, 'z'},
        {"wait", required_argument, NULL, 'w'},  {NULL, 0, NULL, 0},
    };
    *o = (struct options){.node = -1, .wait_ms = 60000};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        int64_t *number = c == 'n'   ? &o->node
                          : c == 'l' ? &o->lease_ms
                          : c == 'p' ? &o->port
                          : c == 'z' ? &o->size
                                     : &o->wait_ms;
        if (c == 'r')
            o->root = optarg;
        else if (c == 'j')
            o->job = optarg;
        else if (c == 'b')
            o->build = optarg;
        else if (c == 't')
            o->to = optarg;
        else if (c == 's')
            o->start = 1;
        else if (c == 'L')
            o->leave = 1;
        else if (!strchr("nlpzw", c) || pd_parse_i64(optarg, 0,
                                                     c == 'p'          ? 65535
                                                     : strchr("nz", c) ? 1 << 20
                                                                       : 86400000,
                                                     number))
            return -1;
    }
    if (argc - optind != 1)
        return -1;
    o->callback = !strcmp(argv[optind], "callback");
    if (o->callback)
        return o->to && o->port && o->node >= 0 ? 0 : -1;
    return !strcmp(argv[optind], "relay") && o->root && (!o->start || o->job) ? 0 : -1;
}

/* Its errors go to the standard error of the command that has started it. */
static int call_back(const struct options *o) {
    struct callback_opts c = {.addrs = o->to,
                              .port = (int)o->port,
                              .node = (int)o->node,
                              .n = (int)o->size,
                              .enrol_ms = (uint64_t)o->wait_ms};
    struct pd_err err = {0};
    if (sodium_init() < 0)
        pd_fail(&err, PD_EFAIL, "cannot set up cryptography");
    else
        callback_run(&c, &err);
    if (err.code)
        fprintf(stderr, "paddle_agent: rank %d: %s\n", c.node, err.msg);
    return err.code != 0;
}

/* 1: the agent has closed this connection without AG_HELLO, with which it begins: it is ending. */
static int is_ending(int sock) {
    struct pollfd p[] = {{.fd = sock, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    char c;
    while (poll(p, 2, -1) < 0 && errno == EINTR)
        ;
    if (!p[0].revents) /* the client has gone, or sends something */
        return 0;
    const ssize_t n = recv(sock, &c, 1, MSG_PEEK | MSG_DONTWAIT);
    return !n || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* A connection to the agent of the job; -1: there is none. */
static int connect_agent(const struct node_paths *p) {
    int fd = node_paths_connect(p);
    for (int i = 0; fd >= 0 && is_ending(fd); i++) {
        pd_close(fd);
        usleep(ENDING_US);
        fd = i < ENDING_TRIES ? node_paths_connect(p) : -1;
    }
    return fd;
}

static int relay(const struct options *o, struct pd_err *err) {
    struct node_paths p;
    struct stat st;
    char join[64];
    int rc = node_paths_init(&p, o->root, o->job, err);
    if (!rc)
        rc = node_paths_check_private(p.root, 0, err);
    if (rc)
        return rc;
    orphans_reap(p.root);
    if (!o->job) {
        rc = agent_run_stdio(&p, AGENT_TOOL, o->build, join);
        if (rc || !*join)
            return rc;
        if ((rc = node_paths_init(&p, o->root, join, err)))
            return rc;
    }
    if (o->start && (rc = daemon_start(&p, (int)o->node, (unsigned)o->lease_ms, o->build, err)))
        return rc;
    if (o->start && o->leave) /* a client on this machine reaches the agent's socket itself */
        return 0;
    int fd = o->start ? node_paths_connect(&p) : connect_agent(&p);
    if (fd >= 0)
        return relay_run(0, 1, fd, LINGER_MS)
                   ? pd_fail_errno(err, PD_EIO, errno, "the relay failed")
                   : 0;
    if (o->start)
        return pd_fail(err, PD_EHOST, "the agent in %s ended at once; see its log", p.dir);
    if (lstat(p.dir, &st))
        return pd_fail(err, PD_ENOENT, "there is no job %s in %s", p.job, p.root);
    return agent_run_stdio(&p, AGENT_OVER, o->build, NULL);
}

int main(int argc, char **argv) {
    struct options o;
    struct pd_err err = {0};
    pd_hide_process();
    pd_malloc_keep_freed();
    pd_fault_arm(getenv("PADDLE_AGENT_FAULT"));
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        puts("paddle_agent " PD_VERSION);
        return 0;
    }
    if (parse(argc, argv, &o)) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    if (o.callback)
        return call_back(&o);
    if (sodium_init() < 0)
        pd_fail(&err, PD_EFAIL, "cannot set up cryptography");
    int rc = err.code ? err.code : relay(&o, &err);
    if (err.code) /* the client reads frames, not stderr */
        msg_write_error(STDOUT_FILENO, WIRE_AG_HELLO, &err);
    return rc ? 1 : 0;
}
