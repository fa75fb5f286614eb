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
