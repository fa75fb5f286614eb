/* SPDX-License-Identifier: Apache-2.0 */
/* machine_jobs.c - see machine_jobs.h. */
#include "agent/host/machine_jobs.h"

#include <sys/socket.h>
#include <sys/un.h>

enum { BACKLOG = 64, LINE = 512, ORDER_DIGITS = 16, REALM_MAX = 16, PREFIX_MAX = 32 };

struct machine_ticket {
    uv_poll_t poll;
    int fd;
};

static void prefix_of(char out[PREFIX_MAX]) {
    /* For tests: jobs under different values do not see each other. */
    const char *realm = getenv("PADDLE_MACHINE");
    const int own = realm && *realm && strlen(realm) <= REALM_MAX && !strpbrk(realm, "/ \t\n");
    snprintf(out, PREFIX_MAX, "paddlectl/%s/", own ? realm : "1");
}

/* The address of an abstract name. 0, or -1: too long. */
static int address_of(const char *name, struct sockaddr_un *a, socklen_t *len) {
    const size_t n = strlen(name);
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n + 1 > sizeof a->sun_path)
        return -1;
    memcpy(a->sun_path + 1, name, n);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
    return 0;
}

/* --- the tickets of others --- */

/* The kernel's word of who listens there. 0; -1: nobody does. */
static int ask_kernel(const char *name, struct machine_job *j) {
    struct sockaddr_un a;
    struct ucred who;
    socklen_t len, n = sizeof who;
    int fd = address_of(name, &a, &len)
                 ? -1
                 : socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    j->uid = (uid_t)-1;
    j->pid = 0;
    int rc = connect(fd, (struct sockaddr *)&a, len);
    if (!rc && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n)) {
        j->uid = who.uid;
        j->pid = who.pid > 0 ? who.pid : 0;
    }
    rc = rc && errno != EAGAIN ? -1 : 0; /* EAGAIN: too many ask at once */
    close(fd);
    return rc;
}

static int is_name(const char *s, size_t n) {
    if (!n || n >= MACHINE_JOB_NAME || *s == '.' || *s == '-')
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.", s[i]))
            return 0;
    return 1;
}

/* "<r|w>/<order>/<job>/<pid>" */
static int parse(const char *s, struct machine_job *j) {
    char order[ORDER_DIGITS + 1], *end;
    *j = (struct machine_job){.kind = s[0] == MACHINE_RUNS ? MACHINE_RUNS : MACHINE_WAITS};
    if ((s[0] != MACHINE_RUNS && s[0] != MACHINE_WAITS) || s[1] != '/' ||
        strspn(s + 2, "0123456789abcdef") != ORDER_DIGITS || s[2 + ORDER_DIGITS] != '/')
        return -1;
    memcpy(order, s + 2, ORDER_DIGITS);
    order[ORDER_DIGITS] = 0;
    j->order = strtoull(order, &end, 16);
    s += 3 + ORDER_DIGITS;
    const size_t n = strcspn(s, "/");
    if (!is_name(s, n) || s[n] != '/')
        return -1;
    memcpy(j->job, s, n);
    return 0;
}

size_t machine_jobs_list(const char *own, struct machine_job *out, size_t max) {
    FILE *f = fopen("/proc/net/unix", "re");
    char line[LINE], name[LINE], prefix[PREFIX_MAX];
    size_t n = 0;
    unsigned flags;
    prefix_of(prefix);
    /* Num: RefCount Protocol Flags Type St Inode Path; flag 0x10000: it listens */
    while (f && n < max && fgets(line, sizeof line, f))
        if (sscanf(line, "%*s %*s %*s %x %*s %*s %*s @%511s", &flags, name) == 2 &&
            flags & 0x10000 && pd_starts_with(name, prefix) &&
            !parse(name + strlen(prefix), &out[n]) && strcmp(out[n].job, own) &&
            !ask_kernel(name, &out[n]))
            n++;
    if (f)
        fclose(f);
    return n;
}

/* --- the own ticket --- */

/* Accepts and closes: another agent has connected only to learn this process's user and id. */
static void on_connection(uv_poll_t *p, int status, int events) {
    struct machine_ticket *t = p->data;
    int fd;
    (void)status;
    (void)events;
    while ((fd = accept4(t->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        close(fd);
}

static void on_closed(uv_handle_t *h) { free(h->data); }

int machine_ticket_new(struct machine_ticket **out, uv_loop_t *loop, enum machine_job_kind kind,
                       uint64_t order, const char *job, struct pd_err *err) {
    struct machine_ticket *t = pd_calloc(1, sizeof *t);
    char name[sizeof((struct sockaddr_un *)0)->sun_path], prefix[PREFIX_MAX];
    struct sockaddr_un a;
    socklen_t len;
    if (!t)
        return pd_oom(err, "a job's ticket");
    prefix_of(prefix);
    t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    t->poll.data = t;
    if (t->fd >= 0 &&
        !pd_fmt(name, sizeof name, "%s%c/%016llx/%s/%d", prefix, kind, (unsigned long long)order,
                job, (int)getpid()) &&
        !address_of(name, &a, &len) && !bind(t->fd, (struct sockaddr *)&a, len) &&
        !listen(t->fd, BACKLOG) && !uv_poll_init(loop, &t->poll, t->fd)) {
        uv_poll_start(&t->poll, UV_READABLE, on_connection);
        uv_unref((uv_handle_t *)&t->poll);
        *out = t;
        return 0;
    }
    int e = errno;
    pd_close(t->fd);
    free(t);
    return pd_fail_errno(err, PD_EIO, e, "cannot make the job's ticket on this machine");
}

void machine_ticket_free(struct machine_ticket *t) {
    if (!t)
        return;
    uv_poll_stop(&t->poll);
    close(t->fd);
    uv_close((uv_handle_t *)&t->poll, on_closed);
}
