/* SPDX-License-Identifier: Apache-2.0 */
/* process_tree.c - see process_tree.h.
 *
 * The kernel lists the children of each thread (/proc/PID/task/TID/children), so a search reads the
 * descendants only. A kernel without these lists (CONFIG_PROC_CHILDREN) needs the whole of /proc:
 * with many nodes on one machine, the time for it is quadratic. */
#include "agent/process/process_tree.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    ENVIRON_MAX = 4 << 20,
    CHILDREN_MAX = 4 << 20, /* bytes of a list of children */
    WALKS = 2,
    TURN_MS = 20,
    UNKILLABLE_MS = 2000
};

struct process_entry {
    pid_t pid, ppid;
    char state;
    unsigned long long start;      /* ticks since boot; start and pid identify a process */
    unsigned long long user, sys;  /* ticks of processor time */
    long long kids_user, kids_sys; /* the same, of children that were waited for */
    long threads, rss_pages;
    int below;
};

/* "pid (comm) state ppid ...". comm may contain any character, so the last ')' ends it. */
static int read_stat(pid_t pid, struct process_entry *e) {
    char path[40], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = 0;
    const char *s = strrchr(text, ')');
    int ppid;
    if (!s || sscanf(s + 1,
                     " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld %*d %*d %ld "
                     "%*d %llu %*u %ld",
                     &e->state, &ppid, &e->user, &e->sys, &e->kids_user, &e->kids_sys, &e->threads,
                     &e->start, &e->rss_pages) != 9)
        return -1;
    e->pid = pid;
    e->ppid = ppid;
    e->below = 0;
    return 0;
}

static int read_table(struct process_entry **out, size_t *n_out) {
    DIR *d = opendir("/proc");
    struct process_entry *v = NULL;
    size_t n = 0, cap = 0;
    struct dirent *de;
    if (!d)
        return -1;
    while ((de = readdir(d))) {
        int64_t pid;
        if (pd_parse_i64(de->d_name, 1, INT32_MAX, &pid))
            continue;
        if (pd_grow(v, cap, n + 1)) {
            closedir(d);
            free(v);
            return -1;
        }
        if (!read_stat((pid_t)pid, &v[n]))
            n++;
    }
    closedir(d);
    *out = v;
    *n_out = n;
    return 0;
}

static int by_pid(const void *a, const void *b) {
    pid_t x = ((const struct process_entry *)a)->pid, y = ((const struct process_entry *)b)->pid;
    return (x > y) - (x < y);
}

/* Marks the descendants of `top`, without `spare` (0: none) and its descendants. The loop repeats
 * until nothing changes, because a child's pid may be lower than its parent's. */
static void mark_below(struct process_entry *v, size_t n, pid_t top, pid_t spare) {
    qsort(v, n, sizeof *v, by_pid);
    for (int changed = 1; changed;) {
        changed = 0;
        for (size_t i = 0; i < n; i++) {
            if (v[i].below || v[i].pid == top || v[i].pid == spare)
                continue;
            const struct process_entry key = {.pid = v[i].ppid};
            const struct process_entry *p = bsearch(&key, v, n, sizeof *v, by_pid);
            if (v[i].ppid == top || (p && p->below))
                v[i].below = changed = 1;
        }
    }
}

static int is_listed(pid_t pid, const struct process_entry *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (v[i].pid == pid)
            return 1;
    return 0;
}

/* The child may have ended since its pid was read, and its pid may be another process's now: the
 * parent must be in the tree. */
static int add_process(pid_t top, pid_t pid, struct process_entry **v, size_t *n, size_t *cap) {
    if (is_listed(pid, *v, *n))
        return 0;
    if (pd_grow(*v, *cap, *n + 1))
        return -1;
    struct process_entry *e = &(*v)[*n];
    *n += !read_stat(pid, e) && (e->ppid == top || is_listed(e->ppid, *v, *n));
    return 0;
}

/* Adds the children of one thread. -1: no memory, or the kernel has no such lists. */
static int add_children_of(const char *task, const char *tid, pid_t top, pid_t spare,
                           struct process_entry **v, size_t *n, size_t *cap) {
    char thread[80], path[100];
    struct pd_buf b = {0};
    pd_fmt(thread, sizeof thread, "%s/%s", task, tid);
    pd_fmt(path, sizeof path, "%s/children", thread);
    int rc = pd_read_file(path, CHILDREN_MAX, &b, NULL) && !access(thread, F_OK) ? -1 : 0;
    for (char *s = b.len ? (char *)b.data : NULL, *end; s && !rc; s = end) {
        const long pid = strtol(s, &end, 10);
        if (pid <= 0 || pid > INT32_MAX)
            break;
        if (pid != spare)
            rc = add_process(top, (pid_t)pid, v, n, cap);
    }
    pd_buf_release(&b);
    return rc;
}

static int add_children(pid_t pid, pid_t top, pid_t spare, struct process_entry **v, size_t *n,
                        size_t *cap) {
    char task[40];
    const struct dirent *de;
    int rc = 0;
    pd_fmt(task, sizeof task, "/proc/%d/task", (int)pid);
    DIR *d = opendir(task); /* NULL: it has ended */
    while (d && !rc && (de = readdir(d)))
        if (*de->d_name != '.')
            rc = add_children_of(task, de->d_name, top, spare, v, n, cap);
    pd_closedir(d);
    return rc;
}

/* The pid may be another process's now: then its children do not count. */
static int add_children_of_listed(size_t i, pid_t top, pid_t spare, struct process_entry **v,
                                  size_t *n, size_t *cap) {
    const struct process_entry e = (*v)[i];
    const size_t before = *n;
    struct process_entry now;
    const int rc = add_children(e.pid, top, spare, v, n, cap);
    if (!rc && !read_stat(e.pid, &now) && now.start != e.start)
        *n = before;
    return rc;
}

/* A list may lack a process while another one ends: its parent has died, and it now belongs to a
 * sub-reaper that was read before. So the tree is read twice. */
static int walk_below(pid_t top, pid_t spare, struct process_entry **v, size_t *n) {
    size_t cap = 0;
    int rc = 0;
    for (int k = 0; k < WALKS && !rc; k++) {
        rc = add_children(top, top, spare, v, n, &cap);
        for (size_t i = 0; i < *n && !rc; i++)
            rc = add_children_of_listed(i, top, spare, v, n, &cap);
    }
    return rc;
}

/* The descendants of `top`, without `spare` (0: none) and its descendants. */
static int read_below(pid_t top, pid_t spare, struct process_entry **out, size_t *n_out) {
    struct process_entry *v = NULL;
    size_t n = 0, all = 0;
    int rc = walk_below(top, spare, &v, &n);
    if (rc) {
        free(v);
        v = NULL;
        rc = read_table(&v, &all);
        if (!rc)
            mark_below(v, all, top, spare);
        for (size_t i = n = 0; i < all; i++)
            if (v[i].below)
                v[n++] = v[i];
    }
    *out = v;
    *n_out = n;
    return rc;
}

/* Sends the signal through a pidfd, and only if the pid still belongs to the listed process. */
static int signal_one(const struct process_entry *e, int sig) {
    struct process_entry now;
    int fd = (int)syscall(SYS_pidfd_open, e->pid, 0);
    if (fd < 0 && errno != ENOSYS)
        return 0;
    int ok = !read_stat(e->pid, &now) && now.start == e->start;
    if (ok)
        ok = !(fd >= 0 ? (int)syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) : kill(e->pid, sig));
    pd_close(fd);
    return ok;
}

int process_tree_stopped(pid_t pid) {
    struct process_entry e;
    return !read_stat(pid, &e) && e.state == 'T';
}

int process_tree_signal_below(pid_t top, pid_t spare, int sig) {
    struct process_entry *v;
    size_t n;
    int count = 0;
    if (read_below(top, spare, &v, &n))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (v[i].state != 'Z')
            count += signal_one(&v[i], sig);
    free(v);
    return count;
}

static void read_cpus(pid_t pid, char *out, size_t cap) {
    static const char key[] = "\nCpus_allowed_list:\t";
    char path[40], text[8192];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : pd_read_full(fd, text, sizeof text - 1);
    pd_close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *s = strstr(text, key);
    snprintf(out, cap, "%.*s", s ? (int)strcspn(s + sizeof key - 1, "\n") : 0,
             s ? s + sizeof key - 1 : "");
}

static void add_usage(const struct process_entry *e, unsigned long long *ticks,
                      struct process_tree_usage *u) {
    *ticks += e->user + e->sys + (unsigned long long)(e->kids_user + e->kids_sys);
    u->rss_bytes += (uint64_t)e->rss_pages * (uint64_t)sysconf(_SC_PAGESIZE);
    u->threads += (unsigned)e->threads;
}

int process_tree_usage(pid_t top, struct process_tree_usage *u) {
    struct process_entry *v, e;
    size_t n;
    unsigned long long ticks = 0;
    *u = (struct process_tree_usage){0};
    if (read_stat(top, &e) || read_below(top, 0, &v, &n))
        return -1;
    add_usage(&e, &ticks, u);
    for (size_t i = 0; i < n; i++)
        add_usage(&v[i], &ticks, u);
    free(v);
    u->cpu_ms = ticks * 1000 / (unsigned long long)sysconf(_SC_CLK_TCK);
    read_cpus(top, u->cpus, sizeof u->cpus);
    return 0;
}

int process_tree_become_subreaper(void) { return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

void process_tree_end_all(unsigned grace_ms) {
    uint64_t start = pd_mono_ns();
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    for (int told = 0;; told = 1) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0 && errno == ECHILD)
            return;
        if (!told) {
            process_tree_signal_below(getpid(), 0, SIGTERM);
            /* a stopped process does not see TERM */
            process_tree_signal_below(getpid(), 0, SIGCONT);
        } else if (pd_mono_ns() - start >= (uint64_t)grace_ms * 1000000u) {
            process_tree_signal_below(getpid(), 0, SIGKILL);
        }
        const struct timespec turn = {0, TURN_MS * 1000000};
        sigtimedwait(&chld, NULL, &turn);
    }
}

uint64_t process_tree_start_ticks(pid_t pid) {
    struct process_entry e;
    return pid <= 0 || read_stat(pid, &e) || e.state == 'Z' ? 0 : e.start;
}

/* In /proc, the files of another user's process do not belong to us, and those of a protected
 * process belong to root. */
static int is_ours(pid_t pid) {
    char path[40];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    return !stat(path, &st) && st.st_uid == geteuid();
}

static int has_marks(pid_t pid, const char *const *marks, int n_marks) {
    char path[40];
    struct pd_buf b = {0};
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    if (!pd_read_file(path, ENVIRON_MAX, &b, NULL)) /* pd_read_file adds a NUL */
        for (int i = 0; i < n_marks; i++)
            for (const char *s = (char *)b.data, *end = s + b.len; s < end; s += strlen(s) + 1)
                if (!strcmp(s, marks[i])) {
                    found++;
                    break;
                }
    pd_buf_release(&b);
    return n_marks > 0 && found == n_marks;
}

static int signal_marked(const char *const *marks, int n_marks, uint64_t since, int sig) {
    struct process_entry *v;
    size_t n;
    int count = 0;
    if (read_table(&v, &n))
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (v[i].start < since || v[i].state == 'Z' || v[i].pid == getpid() || !is_ours(v[i].pid) ||
            !has_marks(v[i].pid, marks, n_marks))
            continue;
        count++;
        if (sig)
            signal_one(&v[i], sig);
        if (sig == SIGTERM)
            signal_one(&v[i], SIGCONT); /* a stopped process does not see TERM */
    }
    free(v);
    return count;
}

int process_tree_end_marked(const char *const *marks, int n_marks, uint64_t since,
                            unsigned grace_ms) {
    const uint64_t start = pd_mono_ns();
    const struct timespec turn = {0, TURN_MS * 1000000};
    int most = signal_marked(marks, n_marks, since, SIGTERM);
    for (int left = most; left;) {
        nanosleep(&turn, NULL);
        const uint64_t ms = (pd_mono_ns() - start) / 1000000u;
        left = signal_marked(marks, n_marks, since, ms >= grace_ms ? SIGKILL : 0);
        if (left > most)
            most = left;
        if (ms >= grace_ms + UNKILLABLE_MS)
            break;
    }
    return most;
}
