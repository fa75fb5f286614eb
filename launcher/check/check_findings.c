/* SPDX-License-Identifier: Apache-2.0 */
/* check_findings.c - findings of check.h: what is wrong with a host, and what to do about it. Each
 * rule is a function of one host or of all hosts. A rule asks no host, so tests give it made-up
 * answers. */
#include "base/json_text.h"
#include "launcher/check/check.h"

enum {
    DISK_BAD = 64 << 20,
    DISK_LOW = 1 << 30,
    INODES_LOW = 10000,
    FILES_LOW = 1024,
    CLOCK_MS = 1000
};

static void add_finding(struct check_node *v, enum check_level level, const char *hint,
                        const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void add_finding(struct check_node *v, enum check_level level, const char *hint,
                        const char *fmt, ...) {
    if (level > v->worst)
        v->worst = level;
    if (v->n_findings == CHECK_FINDINGS_MAX)
        return;
    struct check_finding *f = &v->findings[v->n_findings++];
    va_list ap;
    f->level = level;
    snprintf(f->hint, sizeof f->hint, "%s", hint);
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
}

static int64_t int_of(const json_t *o, const char *name) {
    return json_integer_value(json_object_get(o, name));
}
static int has(const json_t *o, const char *name) { return json_object_get(o, name) != NULL; }

/* --- hosts that could not be asked --- */

/* The link's error message names the step; the hint says what usually helps. */
static const struct {
    const char *part, *hint;
} hints[] = {
    {"HOST KEY CHANGED", ""}, /* the message itself has the hint */
    {"is revoked", ""},
    {"cannot resolve the name",
     "is it spelled right? [host NAME] address = 10.0.0.7 tells its address"},
    {"Connection refused", "is sshd running there, on that port?"},
    {"No route to host",
     "is the machine on, and in this network? [ssh] proxy_jump goes through another host"},
    {"while connecting",
     "is the machine on? does a firewall drop port 22? [ssh] connect_timeout is the limit"},
    {"is not in",
     "ssh-keyscan, compare the key, add it to known_hosts; or host_key_policy = accept-new"},
    {"authentication failed",
     "ssh-copy-id USER@HOST; or [ssh] identity_file, user@ in hosts, an ssh agent"},
    {"while logging in",
     "a start-up file of the login shell (~/.bashrc, /etc/profile.d) waits or loops"},
    {"start-up in order", "a start-up file of the login shell prints without end"},
    {"cannot make the folder", "root_dir must be below a folder that the user may write to"},
    {"Permission denied",
     "root_dir must be below a folder that the user may write to, and not mounted noexec"},
    {"o space left",
     "free some room (paddlectl clean removes old jobs), or choose another root_dir"},
    {"is not built for it", "all nodes need the architecture of these programs"},
    {"Exec format error", "all nodes need the architecture of these programs"},
    {"before its greeting", "sshd has too many log-ins under way (MaxStartups)"},
};

static void find_error(struct check_node *v) {
    const char *hint = "";
    for (size_t i = 0; i < sizeof hints / sizeof hints[0] && !*hint; i++)
        if (strstr(v->err.msg, hints[i].part)) {
            hint = hints[i].hint;
            break;
        }
    add_finding(v, CHECK_BAD, hint, "%s", v->err.msg);
}

/* --- one host --- */

static void find_login(struct check_node *v) {
    if (v->login_printed)
        add_finding(v, CHECK_WARNING,
                    "start-up files should print only in interactive shells: case $- in *i*) ;; *) "
                    "return;; esac",
                    "the login shell's start-up files print %zu bytes", v->login_printed);
    if (v->login_ms > CHECK_SLOW_LOGIN_MS)
        add_finding(
            v, CHECK_WARNING,
            "every command waits for them: put slow parts below the test for interactive shells",
            "the login shell's start-up files take %.1f s", (double)v->login_ms / 1000);
}

static void find_root(struct check_node *v) {
    const json_t *r = json_object_get(v->facts, "root_dir");
    if (*pd_json_text(r, "error")) {
        add_finding(v, CHECK_BAD, "root_dir must be a folder that the user may write to",
                    "root_dir: %s", pd_json_text(r, "error"));
        return;
    }
    int64_t left = int_of(r, "free"), inodes = int_of(r, "inodes_free");
    if (left < DISK_LOW)
        add_finding(v, left < DISK_BAD ? CHECK_BAD : CHECK_WARNING,
                    "free some room (paddlectl clean removes old jobs), or choose another root_dir",
                    "only %.0f MiB are free in root_dir (%s)", (double)left / 1048576,
                    pd_json_text(r, "path"));
    if (int_of(r, "inodes") && inodes < INODES_LOW) /* some file systems do not count inodes */
        add_finding(v, inodes < 100 ? CHECK_BAD : CHECK_WARNING,
                    "the file system lacks inodes, not space: remove many small files",
                    "only %lld inodes are free in root_dir (%s)", (long long)inodes,
                    pd_json_text(r, "path"));
}

static void find_machine(struct check_node *v, const char *own_arch) {
    const char *arch = pd_json_text(v->facts, "arch");
    if (strcmp(arch, own_arch))
        add_finding(v, CHECK_BAD, "all nodes need the architecture of these programs",
                    "its architecture is %s, but these programs are for %s", arch, own_arch);
    int64_t cores = int_of(v->facts, "cores"), all = int_of(v->facts, "mem_bytes"),
            left = int_of(v->facts, "mem_available");
    double load = json_number_value(json_object_get(v->facts, "load"));
    if (cores > 0 && load > (double)cores) /* without a figure: hosts share a line */
        add_finding(v, load > 2 * (double)cores ? CHECK_WARNING : CHECK_NOTE, "",
                    "it is busy: its load is above %s",
                    load > 2 * (double)cores ? "two a core" : "one a core");
    if (left > 0 && left < all / 20)
        add_finding(v, CHECK_WARNING, "", "only %.0f MiB of memory are available",
                    (double)left / 1048576);
    if (has(v->facts, "open_files") && int_of(v->facts, "open_files") >= 0 &&
        int_of(v->facts, "open_files") < FILES_LOW)
        add_finding(v, CHECK_WARNING, "raise nofile in /etc/security/limits.conf",
                    "a process may open only %lld files",
                    (long long)int_of(v->facts, "open_files"));
}

static void find_clock(struct check_node *v) {
    double off = fabs(v->offset_ms);
    if (v->n_clocks && off - v->rtt_ms / 2 > CLOCK_MS)
        add_finding(v, CHECK_WARNING,
                    "logs are merged by time: run chrony, ntpd or systemd-timesyncd there",
                    "its clock is %.1f s %s this machine's", off / 1000,
                    v->offset_ms > 0 ? "ahead of" : "behind");
}

static void find_net(struct check_node *v) {
    if (*pd_json_text(v->facts, "nic_error"))
        add_finding(v, CHECK_BAD,
                    "nic is an interface's name or a subnet; empty: probing finds the address",
                    "%s", pd_json_text(v->facts, "nic_error"));
    if ((int)json_array_size(json_object_get(v->facts, "ports")) < v->needed)
        add_finding(v, CHECK_BAD, "choose another port in [cluster]",
                    "only %zu of the %d ports that a job needs are free",
                    json_array_size(json_object_get(v->facts, "ports")), v->needed);
    else if (!v->port && !*pd_json_text(v->facts, "nic_error"))
        add_finding(v, CHECK_BAD, "choose another port in [cluster]",
                    "no port could be opened for the other nodes");
}

/* --- among hosts --- */

/* Name the hosts that tried to reach `who` and failed. The user judges which side of a failed
 * connection is to blame. */
static void find_unreached(struct check_node *v, size_t n, size_t who) {
    char names[300] = "", first[300] = "";
    size_t tried = 0, failed = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k;
        json_t *r;
        json_array_foreach (v[i].reached, k, r) {
            if ((size_t)int_of(r, "node") != who)
                continue;
            tried++;
            if (*pd_json_text(r, "addr"))
                continue;
            if (!failed++)
                snprintf(first, sizeof first, "%s", pd_json_text(r, "why"));
            size_t len = strlen(names);
            snprintf(names + len, sizeof names - len, "%s%s", len ? ", " : "", v[i].name);
        }
    }
    if (failed)
        add_finding(
            &v[who], CHECK_BAD,
            "a firewall between the nodes? nic = names the interface or subnet between them",
            "%zu of %zu nodes that tried could not reach it: %s (%s)", failed, tried, names, first);
}

static void find_shared(struct check_node *v, size_t n, size_t who) {
    const json_t *mine = json_object_get(v[who].facts, "root_dir");
    for (size_t i = 0; i < n; i++) {
        if (i == who || !v[i].facts)
            continue;
        const json_t *theirs = json_object_get(v[i].facts, "root_dir");
        int same = 0;
        size_t k;
        json_t *e;
        json_array_foreach (v[who].shared, k, e)
            same |= (size_t)json_integer_value(e) == i;
        /* A folder that does not exist yet holds no marks. Then compare the machines (boot id) and
         * paths, or the file itself. */
        if (*pd_json_text(v[i].facts, "boot") &&
            !strcmp(pd_json_text(v[i].facts, "boot"), pd_json_text(v[who].facts, "boot")) &&
            !strcmp(pd_json_text(mine, "path"), pd_json_text(theirs, "path")) &&
            !strcmp(pd_json_text(mine, "device"), pd_json_text(theirs, "device")))
            same = 1;
        if (!same)
            continue;
        add_finding(&v[who], CHECK_BAD,
                    "%n in root_dir is the node's id: root_dir = ~/paddle/node%n",
                    "it shares root_dir %s with %s", pd_json_text(mine, "path"), v[i].name);
        return;
    }
}

/* The most frequent value; of a tie the first. "" if no host has facts. */
static const char *majority(const struct check_node *v, size_t n, const char *name) {
    const char *best = "";
    size_t best_count = 0;
    for (size_t i = 0; i < n; i++) {
        size_t count = 0;
        for (size_t j = 0; j < n; j++)
            count += v[j].facts &&
                     !strcmp(pd_json_text(v[i].facts, name), pd_json_text(v[j].facts, name));
        if (v[i].facts && count > best_count) {
            best_count = count;
            best = pd_json_text(v[i].facts, name);
        }
    }
    return best;
}

static void find_different(struct check_node *v, size_t n) {
    const char *blas = majority(v, n, "blas");
    for (size_t i = 0; i < n; i++)
        if (v[i].facts && strcmp(pd_json_text(v[i].facts, "blas"), blas))
            add_finding(
                &v[i], CHECK_NOTE, "PADDLE_BLAS_CORETYPE in [env] makes them equal",
                "OpenBLAS uses %s kernels here, %s on most hosts: results may differ in the last "
                "bits",
                pd_json_text(v[i].facts, "blas"), blas);
}

static int worst_first(const void *a, const void *b) {
    const struct check_finding *x = a, *y = b;
    return (y->level > x->level) - (y->level < x->level);
}

void check_findings(struct check_node *v, size_t n, const char *own_arch) {
    for (size_t i = 0; i < n; i++) {
        v[i].n_findings = 0;
        v[i].worst = CHECK_NOTE;
        if (v[i].err.code)
            find_error(&v[i]);
        if (!v[i].facts)
            continue;
        find_root(&v[i]);
        find_machine(&v[i], own_arch);
        find_net(&v[i]);
        find_shared(v, n, i);
        find_unreached(v, n, i);
        find_login(&v[i]);
        find_clock(&v[i]);
    }
    find_different(v, n);
    for (size_t i = 0; i < n; i++)
        qsort(v[i].findings, (size_t)v[i].n_findings, sizeof v[i].findings[0], worst_first);
}
