/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - see check.h: the facts. A fact that can't be determined is left out or empty. */
#include "agent/report/check.h"

#include <glob.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "agent/host/facts.h"
#include "agent/core/msg.h"
#include "agent/host/ports.h"
#include "wire/client_bodies.h"
#include "wire/msg.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { LIBC_MAX = 16 << 20, PROC_MAX = 256 << 10 };

/* --- CPU --- */

/* The name of the kernels that OpenBLAS 0.3.21 selects on this CPU by default: "SkylakeX", for
 * example. "": unknown.
 *
 * OpenBLAS looks at family and model first. Among CPUs with AVX, however, only the instruction sets
 * make a difference: AVX-512 with bfloat16, AVX-512, AVX2, AVX. Source: driver/others/dynamic.c of
 * 0.3.21. */
static const char *blas_core(void) {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0, xcr0 = 0, a7 = 0, b7 = 0, c7 = 0, d7 = 0, a71 = 0, ignored;
    if (!__get_cpuid(0, &a, &b, &c, &d))
        return "";
    int amd = b == 0x68747541 || b == 0x6f677948; /* Auth(enticAMD), Hygo(nGenuine) */
    __get_cpuid(1, &a, &b, &c, &d);
    if (c & (1u << 27))
        __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(ignored) : "c"(0));
    int avx = (c & (1u << 28)) && (xcr0 & 6) == 6;
    if (__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7) && a7)
        __get_cpuid_count(7, 1, &a71, &ignored, &ignored, &ignored);
    int avx512 = avx && (b7 & (1u << 16)) && (b7 & (1u << 31)) && (xcr0 & 0xe0) == 0xe0;
    if (avx512)
        return a71 & (1u << 5) ? "Cooperlake" : "SkylakeX";
    if (avx && (b7 & (1u << 5)))
        return amd ? "Zen" : "Haswell";
    return avx ? amd ? "Bulldozer" : "Sandybridge" : amd ? "Barcelona" : "Nehalem";
#else
    return "";
#endif
}

static int read_text(const char *path, struct pd_buf *b) {
    pd_buf_init(b);
    return pd_read_file(path, PROC_MAX, b, NULL) || !b->len;
}

/* The value after "name" in a file of "name: value" lines; "" without one. */
static void line_value(const char *path, const char *name, char *out, size_t cap) {
    struct pd_buf b;
    *out = 0;
    if (!read_text(path, &b)) {
        const char *s = strstr((char *)b.data, name);
        s = s ? strchr(s, ':') : NULL;
        if (s) {
            s += 1 + strspn(s + 1, " \t");
            snprintf(out, cap, "%.*s", (int)strcspn(s, "\n"), s);
        }
    }
    pd_buf_release(&b);
}

static json_int_t kib_of(const char *name) {
    char text[64];
    line_value("/proc/meminfo", name, text, sizeof text);
    return (json_int_t)strtoll(text, NULL, 10) * 1024;
}

static double load(void) {
    double v[1] = {0};
    return getloadavg(v, 1) == 1 ? v[0] : 0;
}

/* --- C library --- */

int check_glibc_version(const uint8_t *p, size_t n, char out[16]) {
    static const char mark[] = "stable release version ";
    const uint8_t *s = memmem(p, n, mark, sizeof mark - 1);
    size_t k = 0;
    if (!s)
        return -1;
    s += sizeof mark - 1;
    while (s + k < p + n && k < 15 && ((s[k] >= '0' && s[k] <= '9') || s[k] == '.'))
        k++;
    while (k && s[k - 1] == '.')
        k--;
    memcpy(out, s, k);
    out[k] = 0;
    return k ? 0 : -1;
}

/* Only users' own programs need the node's C library; ours are static. No external tool is run,
 * because it may be missing. */
static void libc_name(char out[40]) {
    static const char *const places[] = {
        "/lib/*-linux-gnu*/libc.so.6",     "/lib64/libc.so.6",   "/usr/lib64/libc.so.6",
        "/usr/lib/*-linux-gnu*/libc.so.6", "/usr/lib/libc.so.6", "/lib/libc.so.6"};
    char version[16];
    *out = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !*out; i++) {
        glob_t g;
        struct pd_buf b = {0};
        if (glob(places[i], 0, NULL, &g))
            continue;
        if (!pd_read_file(g.gl_pathv[0], LIBC_MAX, &b, NULL) &&
            !check_glibc_version(b.data, b.len, version))
            snprintf(out, 40, "glibc %s", version);
        pd_buf_release(&b);
        globfree(&g);
    }
    glob_t g;
    if (!*out && !glob("/lib/ld-musl-*.so.1", 0, NULL, &g)) {
        pd_fmt(out, 40, "musl");
        globfree(&g);
    }
}

/* --- root_dir --- */

/* Finds the folder, or its nearest existing parent. Creates no folder. */
static int existing(const char *root, char out[PATH_MAX]) {
    struct stat st;
    if (pd_fmt(out, PATH_MAX, "%s", root))
        return -1;
    while (stat(out, &st)) {
        char *slash = strrchr(out, '/');
        if (errno != ENOENT || !slash || !out[1])
            return -1;
        slash[slash == out] = 0;
    }
    return 0;
}

/* Creates and removes a file in the folder. `why` becomes "" or the reason of a failure. */
static void try_write(const char *dir, char *why, size_t cap) {
    char path[PATH_MAX], text[4096];
    memset(text, 'x', sizeof text);
    *why = 0;
    if (pd_fmt(path, sizeof path, "%s/.paddlectl-check-XXXXXX", dir)) {
        snprintf(why, cap, "its path is too long");
        return;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0 || pd_write_all(fd, text, sizeof text) || fsync(fd))
        snprintf(why, cap, "cannot write in %s: %s", dir, strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
}

static json_t *root_facts(const char *root) {
    char dir[PATH_MAX], why[PATH_MAX + 200];
    struct statvfs fs;
    struct stat st;
    if (existing(root, dir) || stat(dir, &st) || statvfs(dir, &fs)) {
        snprintf(why, sizeof why, "cannot use %s: %s", root, strerror(errno));
        return json_pack("{s:o}", "error", wire_text(why, strlen(why)));
    }
    if (!S_ISDIR(st.st_mode))
        snprintf(why, sizeof why, "%s is no folder", dir);
    else
        try_write(dir, why, sizeof why);
    char device[48];
    snprintf(device, sizeof device, "%llx:%llx", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    return json_pack("{s:o, s:b, s:s, s:I, s:I, s:I, s:o}", "path", wire_text(root, strlen(root)),
                     "exists", !strcmp(dir, root), "device", device, "free",
                     (json_int_t)fs.f_bavail * (json_int_t)fs.f_frsize, "inodes",
                     (json_int_t)fs.f_files, "inodes_free", (json_int_t)fs.f_favail, "error",
                     wire_text(why, strlen(why)));
}

/* --- ports --- */

/* The ports that a job would get now. They are bound together, as a job does, and released. */
static json_t *free_ports(int from, int n) {
    int fds[WIRE_MAX_PORTS], got = 0, port = from;
    json_t *list = json_array();
    struct pd_err err = {0};
    for (; got < n && (fds[got] = ports_bind(net_any_ip(), from, &port, NULL, &err)) >= 0; got++) {
        json_array_append_new(list, json_integer(port));
        from = from ? port + 1 : 0;
        if (from > 65535)
            break;
    }
    while (got-- > 0)
        close(fds[got]);
    return list;
}

/* --- the request --- */

static int on_check(struct client *c, const struct wire_frame *f, const json_t *body,
                    struct pd_err *err) {
    const char *root = client_core(c)->paths.root;
    json_t *o, *addrs = NULL;
    struct pd_err no_addrs = {0};
    struct utsname u;
    struct rlimit files = {0};
    char model[200], libc[40], net[96], machine[96], boot[64], host[256] = "";
    struct ag_check m;
    if (wire_get(&wire_ag_check, &m, body, err))
        return err->code;
    if (m.clock)
        return client_answer(c, f, json_pack("{s:I}", "now_us", (json_int_t)pd_wall_us()), err);
    if (facts_addrs(m.nic, &addrs, &no_addrs))
        addrs = json_array();
    line_value("/proc/cpuinfo", "model name", model, sizeof model);
    libc_name(libc);
    facts_net_id(net);
    facts_machine(machine);
    pd_boot_id(boot);
    gethostname(host, sizeof host - 1);
    getrlimit(RLIMIT_NOFILE, &files);
    o = facts_node(root);
    json_t *more =
        json_pack("{s:o, s:s, s:s, s:s, s:s, s:I, s:f, s:I, s:o, s:o, s:s, s:s, s:s, s:o, s:o}",
                  "hostname", wire_text(host, strlen(host)), "kernel", uname(&u) ? "?" : u.release,
                  "libc", libc, "cpu", model, "blas", blas_core(), "mem_available",
                  kib_of("MemAvailable"), "load", load(), "open_files", (json_int_t)files.rlim_cur,
                  "root_dir", root_facts(root), "addrs", addrs, "net_id", net, "machine", machine,
                  "boot", boot, "nic_error", wire_text(no_addrs.msg, strlen(no_addrs.msg)), "ports",
                  free_ports((int)m.port, (int)m.needed));
    if (o && more)
        json_object_update(o, more);
    json_decref(more);
    return client_answer(c, f, o, err);
}

static const struct client_request requests[] = {{WIRE_AG_CHECK, 0, 1, on_check, NULL}, {0}};

const struct client_service check_service = {.name = "check", .requests = requests};
