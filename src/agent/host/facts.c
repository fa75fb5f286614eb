/* SPDX-License-Identifier: Apache-2.0 */
/* facts.c - see facts.h; addresses are in addrs.c. */
#include "agent/host/facts.h"

#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "thread/cpus.h"
#include "math/hash.h"

static int usable_cores(void) {
    struct pd_cpuset set;
    return pd_cpuset_mine(&set) ? 1 : pd_cpuset_count(&set);
}

/* The free bytes for a folder. If the folder does not exist, its nearest existing parent counts. */
static json_int_t disk_free(const char *path) {
    struct statvfs fs;
    char p[PATH_MAX];
    if (pd_fmt(p, sizeof p, "%s", path))
        return -1;
    while (statvfs(p, &fs)) {
        char *slash = strrchr(p, '/');
        if (!slash || !p[1])
            return -1;
        slash[slash == p] = 0;
    }
    return (json_int_t)fs.f_bavail * (json_int_t)fs.f_frsize;
}

json_t *facts_node(const char *root) {
    struct utsname u;
    json_int_t free_bytes = disk_free(root);
    json_int_t mem = (json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE);
    return json_pack("{s:s, s:i, s:I, s:I}", "arch", uname(&u) ? "?" : u.machine, "cores",
                     usable_cores(), "mem_bytes", mem, "disk_free", free_bytes);
}

void facts_host(char out[HOST_NAME_MAX + 1]) {
    struct utsname u;
    snprintf(out, HOST_NAME_MAX + 1, "%s", uname(&u) ? "" : u.nodename);
}

void facts_machine(char out[96]) {
    char boot[64];
    struct pd_cpuset may = {{0}};
    uint64_t hash = 0;
    pd_boot_id(boot);
    (void)pd_cpuset_mine(&may);
    for (int i = 0; i < PD_CPU_WORDS; i++)
        hash = pd_mix64(hash ^ may.w[i]) + 1;
    snprintf(out, 96, "%.50s %016llx", boot, (unsigned long long)hash);
}

void facts_net_id(char out[96]) {
    char boot[64], ns[40] = "?";
    pd_boot_id(boot);
    ssize_t n = readlink("/proc/self/ns/net", ns, sizeof ns - 1);
    if (n > 0)
        ns[n] = 0;
    snprintf(out, 96, "%.50s %.40s", boot, ns);
}
