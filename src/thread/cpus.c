/* SPDX-License-Identifier: Apache-2.0 */
/* cpus.c - see cpus.h. */
#include "thread/cpus.h"

#include <sched.h>

enum { WORD_BITS = 8 * sizeof(unsigned long), FILE_MAX_BYTES = 65536 };

/* --- sets --- */

void pd_cpuset_add(struct pd_cpuset *s, int cpu) {
    s->w[cpu / WORD_BITS] |= 1ul << (cpu % WORD_BITS);
}

int pd_cpuset_has(const struct pd_cpuset *s, int cpu) {
    return cpu >= 0 && cpu < PD_CPUS_MAX && (s->w[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1);
}

int pd_cpuset_count(const struct pd_cpuset *s) {
    int n = 0;
    for (int i = 0; i < PD_CPU_WORDS; i++)
        n += __builtin_popcountl(s->w[i]);
    return n;
}

static int parse_number(const char **s, int *out) {
    int v = 0;
    if (**s < '0' || **s > '9')
        return -1;
    for (; **s >= '0' && **s <= '9'; ++*s)
        if ((v = v * 10 + (**s - '0')) >= PD_CPUS_MAX)
            return -1;
    *out = v;
    return 0;
}

int pd_cpuset_parse(struct pd_cpuset *s, const char *list) {
    memset(s, 0, sizeof *s);
    while (*list && *list != '\n') {
        int lo, hi;
        if (parse_number(&list, &lo))
            return -1;
        hi = lo;
        if (*list == '-' && (list++, parse_number(&list, &hi) || hi < lo))
            return -1;
        for (int i = lo; i <= hi; i++)
            pd_cpuset_add(s, i);
        if (*list == ',' && list[1] >= '0' && list[1] <= '9')
            list++;
        else if (*list && *list != '\n')
            return -1;
    }
    return 0;
}

void pd_cpuset_text(const struct pd_cpuset *s, char *out, size_t cap) {
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < PD_CPUS_MAX; i++) {
        if (!pd_cpuset_has(s, i))
            continue;
        int hi = i;
        char item[32];
        while (pd_cpuset_has(s, hi + 1))
            hi++;
        snprintf(item, sizeof item, hi > i ? "%s%d-%d" : "%s%d", at ? "," : "", i, hi);
        if (at + strlen(item) + 4 > cap) { /* keep room for the dots */
            snprintf(out + at, cap - at, "...");
            return;
        }
        at += (size_t)snprintf(out + at, cap - at, "%s", item);
        i = hi;
    }
}

int pd_cpuset_mine(struct pd_cpuset *s) {
    memset(s, 0, sizeof *s);
    return sched_getaffinity(0, sizeof s->w, (cpu_set_t *)s->w);
}

/* --- the machine --- */

/* Reads a small file of sysfs into `b` as text; -1: not readable. */
__attribute__((format(printf, 3, 0))) static int vslurp(struct pd_buf *b, const char *dir,
                                                        const char *fmt, va_list ap) {
    char name[80], path[PATH_MAX];
    vsnprintf(name, sizeof name, fmt, ap);
    pd_buf_init(b);
    if (pd_fmt(path, sizeof path, "%s/%s", dir, name) ||
        pd_read_file(path, FILE_MAX_BYTES, b, NULL)) {
        pd_buf_release(b);
        return -1;
    }
    return 0;
}

__attribute__((format(printf, 3, 4))) static int slurp(struct pd_buf *b, const char *dir,
                                                       const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int rc = vslurp(b, dir, fmt, ap);
    va_end(ap);
    return rc;
}

__attribute__((format(printf, 3, 4))) static int read_set(struct pd_cpuset *s, const char *dir,
                                                          const char *fmt, ...) {
    struct pd_buf b;
    va_list ap;
    va_start(ap, fmt);
    int rc = vslurp(&b, dir, fmt, ap);
    va_end(ap);
    if (rc)
        return -1;
    rc = pd_cpuset_parse(s, b.len ? (char *)b.data : "");
    pd_buf_release(&b);
    return rc;
}

/* The kernel has no such file for a CPU that cannot go offline. */
static int is_online(const char *dir, int cpu) {
    struct pd_buf b;
    if (slurp(&b, dir, "cpu/cpu%d/online", cpu))
        return 1;
    int on = !b.len || *b.data != '0';
    pd_buf_release(&b);
    return on;
}

static int core_of(const char *dir, int cpu) {
    struct pd_cpuset s;
    if ((read_set(&s, dir, "cpu/cpu%d/topology/thread_siblings_list", cpu) &&
         read_set(&s, dir, "cpu/cpu%d/topology/core_cpus_list", cpu)) ||
        !pd_cpuset_has(&s, cpu))
        return cpu;
    int first = 0;
    while (!pd_cpuset_has(&s, first))
        first++;
    return first;
}

static void read_nodes(struct pd_cpus *c, const char *dir) {
    char path[PATH_MAX];
    struct dirent *e;
    DIR *d = pd_fmt(path, sizeof path, "%s/node", dir) ? NULL : opendir(path);
    while (d && (e = readdir(d))) {
        int64_t node;
        struct pd_cpuset s;
        if (!pd_starts_with(e->d_name, "node") ||
            pd_parse_i64(e->d_name + 4, 0, PD_CPUS_MAX - 1, &node) ||
            read_set(&s, dir, "node/node%d/cpulist", (int)node))
            continue;
        for (int i = 0; i < c->n; i++)
            if (pd_cpuset_has(&s, c->v[i].id))
                c->v[i].node = (int)node;
    }
    pd_closedir(d);
    if (read_set(&c->memory, dir, "node/has_memory") &&
        read_set(&c->memory, dir, "node/has_normal_memory"))
        memset(&c->memory, 0, sizeof c->memory);
    c->n_memory = pd_cpuset_count(&c->memory);
}

static int by_place(const void *a, const void *b) {
    const struct pd_cpu *x = a, *y = b;
    return x->node != y->node   ? x->node - y->node
           : x->core != y->core ? x->core - y->core
                                : x->id - y->id;
}

int pd_cpus_read(struct pd_cpus *out, const char *dir, const struct pd_cpuset *may,
                 struct pd_err *err) {
    struct pd_cpus c = {0};
    int count = pd_cpuset_count(may);
    if (!(c.v = pd_calloc((size_t)count + 1, sizeof *c.v)))
        return pd_oom(err, "the list of CPUs");
    for (int i = 0; i < PD_CPUS_MAX; i++)
        if (pd_cpuset_has(may, i) && is_online(dir, i))
            c.v[c.n++] = (struct pd_cpu){.id = i, .core = core_of(dir, i)};
    if (!c.n) {
        free(c.v);
        return pd_fail(err, PD_EHOST, "none of the CPUs that this process may use is online");
    }
    read_nodes(&c, dir);
    qsort(c.v, (size_t)c.n, sizeof *c.v, by_place);
    *out = c;
    return 0;
}

void pd_cpus_release(struct pd_cpus *c) {
    free(c->v);
    memset(c, 0, sizeof *c);
}

int pd_pin_thread(const struct pd_cpus *c, unsigned i) {
    struct pd_cpuset s = {{0}};
    unsigned n_cores = 0, k = 0;
    for (int j = 0; j < c->n; j++)
        n_cores += !j || c->v[j].core != c->v[j - 1].core;
    if (!n_cores) {
        errno = EINVAL;
        return -1;
    }
    for (int j = 0; j < c->n; j++) {
        k += j && c->v[j].core != c->v[j - 1].core;
        if (k == i % n_cores)
            pd_cpuset_add(&s, c->v[j].id);
    }
    return sched_setaffinity(0, sizeof s.w, (cpu_set_t *)s.w);
}
