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

/* One cgroup's folder: its limit, and the rest of it. Page cache can be dropped, so it is free. */
static void apply_limit(const char *dir, int v2, uint64_t *left, uint64_t *total) {
    char path[PATH_MAX];
    const char *const name[] = {v2 ? "memory.max" : "memory.limit_in_bytes",
                                v2 ? "memory.current" : "memory.usage_in_bytes", "memory.stat"};
    uint64_t v[3];
    for (int i = 0; i < 3; i++)
        v[i] = pd_fmt(path, sizeof path, "%s/%s", dir, name[i]) ? UINT64_MAX
                                                                : number(path,
                                                                         i < 2 ? ""
                                                                         : v2  ? "file "
                                                                               : "total_cache ",
                                                                         1);
    const uint64_t used = v[1] == UINT64_MAX ? 0 : v[1], cache = v[2] < used ? v[2] : 0;
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
