/* SPDX-License-Identifier: Apache-2.0 */
/* memory_use.c - see memory_use.h. */
#include "base/memory_use.h"

uint64_t pd_peak_memory(void) {
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    unsigned long long kb = 0;
    while (f && fgets(line, sizeof line, f) && sscanf(line, "VmHWM: %llu kB", &kb) != 1)
        ;
    if (f)
        fclose(f);
    return kb * 1024;
}

/* The number behind `key` in the file, in units of `unit`; with key "" the file's only number.
 * UINT64_MAX: there is none. */
static uint64_t number(const char *path, const char *key, uint64_t unit) {
    FILE *f = fopen(path, "re");
    char line[256];
    unsigned long long v;
    uint64_t found = UINT64_MAX;
    while (f && found == UINT64_MAX && fgets(line, sizeof line, f))
        if (pd_starts_with(line, key) && sscanf(line + strlen(key), " %llu", &v) == 1)
            found = v > UINT64_MAX / unit ? UINT64_MAX : v * unit;
    if (f)
        fclose(f);
    return found;
}

/* One cgroup's folder: its limit, and the rest of it. Page cache can be dropped, so it is free.
 * Shared memory (memfd, tmpfs) counts as page cache there, but cannot be dropped. */
static void apply_limit(const char *dir, int v2, uint64_t *left, uint64_t *total) {
    char path[PATH_MAX];
    const char *const name[] = {v2 ? "memory.max" : "memory.limit_in_bytes",
                                v2 ? "memory.current" : "memory.usage_in_bytes", "memory.stat",
                                "memory.stat"};
    const char *const key[] = {"", "", v2 ? "file " : "total_cache ",
                               v2 ? "shmem " : "total_shmem "};
    uint64_t v[4];
    for (int i = 0; i < 4; i++)
        v[i] =
            pd_fmt(path, sizeof path, "%s/%s", dir, name[i]) ? UINT64_MAX : number(path, key[i], 1);
    const uint64_t used = v[1] == UINT64_MAX ? 0 : v[1], shared = v[3] <= v[2] ? v[3] : 0,
                   cache = v[2] < used ? v[2] - shared : 0;
    if (v[0] < *total)
        *total = v[0];
    const uint64_t rest = v[0] > used - cache ? v[0] - (used - cache) : 0;
    if (v[0] != UINT64_MAX && rest < *left)
        *left = rest;
}

/* --- an allocation of Slurm --- */

/* The memory of the allocation on this node. UINT64_MAX: there is no limit. */
static uint64_t slurm_limit(void) {
    const char *node = getenv("SLURM_MEM_PER_NODE"), *cpu = getenv("SLURM_MEM_PER_CPU"),
               *cpus = getenv("SLURM_CPUS_ON_NODE");
    const uint64_t most = UINT32_MAX; /* of megabytes */
    uint64_t mb, n = 1;
    if (!getenv("SLURMD_NODENAME") || (!node && !cpu) || pd_parse_u64(node ? node : cpu, most, &mb))
        return UINT64_MAX;
    if (!node && (!cpus || pd_parse_u64(cpus, 1 << 20, &n)))
        return UINT64_MAX;
    return mb && n ? (mb * n) << 20 : UINT64_MAX; /* 0: all of the node */
}

/* stat(5): "12 (name) S 11 ...". 1: *parent is the number of the parent, no program of Slurm. */
static int parent_in_step(const char *root, const char *pid, char parent[24]) {
    char path[PATH_MAX], line[512] = "", name[32] = "";
    int up = 0;
    for (int i = 0; i < 2; i++) {
        FILE *f = pd_fmt(path, sizeof path, "%s/proc/%s/stat", root, i ? parent : pid)
                      ? NULL
                      : fopen(path, "re");
        const char *end = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
        if (f)
            fclose(f);
        if (!end)
            return 0;
        if (!i && (sscanf(end + 1, " %*c %d", &up) != 1 || up <= 1))
            return 0;
        if (!i)
            pd_fmt(parent, 24, "%d", up);
        else
            sscanf(line, "%*d (%31[^)]", name);
    }
    return !pd_starts_with(name, "slurm");
}

/* Adds what a process and those below it use. Shared memory counts once: the nodes of a job share
 * the same pages. */
static void add_use(const char *root, const char *pid, int depth, uint64_t *own, uint64_t *shared) {
    enum { DEPTH_MAX = 12 };
    char path[PATH_MAX], children[4096] = "";
    uint64_t v[2] = {0};
    for (int i = 0; i < 2; i++)
        if (!pd_fmt(path, sizeof path, "%s/proc/%s/status", root, pid))
            v[i] = number(path, i ? "RssShmem:" : "RssAnon:", 1024);
    *own += v[0] == UINT64_MAX ? 0 : v[0];
    if (v[1] != UINT64_MAX && v[1] > *shared)
        *shared = v[1];
    FILE *f = pd_fmt(path, sizeof path, "%s/proc/%s/task/%s/children", root, pid, pid)
                  ? NULL
                  : fopen(path, "re");
    if (f && !fgets(children, sizeof children, f))
        *children = 0;
    if (f)
        fclose(f);
    for (char *save, *s = strtok_r(children, " \n", &save); s && depth < DEPTH_MAX;
         s = strtok_r(NULL, " \n", &save))
        add_use(root, s, depth + 1, own, shared);
}

/* Slurm without cgroups ends a job that uses more, but only after some seconds. The processes of
 * this node are below the first process of the step. */
static void apply_slurm(const char *root, uint64_t *left, uint64_t *total) {
    const uint64_t limit = slurm_limit();
    char top[24] = "self", parent[24];
    uint64_t own = 0, shared = 0;
    if (limit == UINT64_MAX)
        return;
    for (int i = 0; i < 16 && parent_in_step(root, top, parent); i++)
        memcpy(top, parent, sizeof top);
    add_use(root, top, 0, &own, &shared);
    const uint64_t rest = limit > own + shared ? limit - own - shared : 0;
    if (limit < *total)
        *total = limit;
    if (rest < *left)
        *left = rest;
}

uint64_t pd_memory_available(const char *root, uint64_t *total) {
    char path[PATH_MAX], line[PATH_MAX];
    *total = UINT64_MAX;
    if (pd_fmt(path, sizeof path, "%s/proc/meminfo", root))
        return UINT64_MAX;
    uint64_t left = number(path, "MemAvailable:", 1024), swap = number(path, "SwapFree:", 1024);
    *total = number(path, "MemTotal:", 1024);
    if (left != UINT64_MAX && swap != UINT64_MAX)
        left += swap;
    FILE *f = pd_fmt(path, sizeof path, "%s/proc/self/cgroup", root) ? NULL : fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) { /* "0::/a/b" or "4:memory:/a/b" */
        char *s = strchr(line, ':'), *below = s ? strchr(s + 1, ':') : NULL;
        if (!below)
            continue;
        *below++ = 0;
        const int v2 = !s[1];
        below[strcspn(below, "\n")] = 0;
        if (!v2 && strcmp(s + 1, "memory"))
            continue;
        for (char *end = below + strlen(below); end; end = strrchr(below, '/')) {
            *end = 0; /* the group, then those above it */
            if (!pd_fmt(path, sizeof path, "%s/sys/fs/cgroup%s%s", root, v2 ? "" : "/memory",
                        below))
                apply_limit(path, v2, &left, total);
        }
    }
    if (f)
        fclose(f);
    apply_slurm(root, &left, total);
    return left;
}

static uint64_t available(uint64_t *total) {
    const uint64_t left = pd_memory_available("", total);
    return pd_fault("memory.room") ? 0 : left;
}

int pd_memory_fits(double bytes) {
    uint64_t total;
    const uint64_t left = available(&total);
    return left == UINT64_MAX || bytes + (double)total / 64 <= (double)left;
}

const char *pd_memory_text(char out[PD_MEMORY_TEXT]) {
    char host[HOST_NAME_MAX + 1] = "this machine";
    uint64_t total;
    const uint64_t left = pd_memory_available("", &total);
    (void)gethostname(host, sizeof host - 1);
    snprintf(out, PD_MEMORY_TEXT, "%s, which has %.4g GB, %.4g GB of them available", host,
             (double)total / 1e9, (double)left / 1e9);
    return out;
}

int pd_memory_admit(double bytes, struct pd_err *err, const char *what, ...) {
    char text[PD_MEMORY_TEXT], need[600];
    va_list ap;
    if (pd_memory_fits(bytes))
        return 0;
    va_start(ap, what);
    vsnprintf(need, sizeof need, what, ap);
    va_end(ap);
    return pd_fail(err, PD_ENOMEM, "%s need %.4g GB on %s", need, bytes / 1e9,
                   pd_memory_text(text));
}
