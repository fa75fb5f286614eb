/* facts.c - see facts.h. Addresses are IPv4: the static node programs resolve no names and the conf's hosts are
 * reached over whatever ssh uses, but peers talk IPv4. */
#include "agent/facts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/str.h"

static int usable_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set))
        return 1;
    return CPU_COUNT(&set);
}

/* Of the folder, or of the one in which it would be made. */
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
    return json_pack("{s:s, s:i, s:I, s:I}", "arch", uname(&u) ? "?" : u.machine, "cores", usable_cores(), "mem_bytes",
                     mem, "disk_free", free_bytes);
}

static void add_unique(json_t *list, const char *addr) {
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v)
        if (!strcmp(json_string_value(v), addr))
            return;
    json_array_append_new(list, json_string(addr));
}

struct subnet {
    int valid;
    uint32_t net, mask;
};

static struct subnet parse_subnet(const char *s) {
    char ip[32];
    const char *slash = strchr(s, '/');
    uint64_t bits;
    struct in_addr a;
    if (!slash || (size_t)(slash - s) >= sizeof ip || pd_parse_u64(slash + 1, 32, &bits))
        return (struct subnet){0};
    memcpy(ip, s, (size_t)(slash - s));
    ip[slash - s] = 0;
    if (inet_pton(AF_INET, ip, &a) != 1)
        return (struct subnet){0};
    uint32_t mask = bits ? 0xffffffffu << (32 - bits) : 0;
    return (struct subnet){1, ntohl(a.s_addr) & mask, mask};
}

/* SSH_CONNECTION is "client port server port"; the server's address is one that is known to be reachable. */
static void ssh_addr(char out[INET_ADDRSTRLEN]) {
    const char *s = getenv("SSH_CONNECTION");
    char text[200], *save, *tok;
    struct in_addr a;
    *out = 0;
    if (!s || pd_fmt(text, sizeof text, "%s", s))
        return;
    tok = strtok_r(text, " ", &save);
    for (int i = 0; i < 2 && tok; i++)
        tok = strtok_r(NULL, " ", &save);
    if (tok && inet_pton(AF_INET, tok, &a) == 1)
        inet_ntop(AF_INET, &a, out, INET_ADDRSTRLEN);
}

static int selected(const char *nic, const struct subnet *net, const char *name, uint32_t addr) {
    if (!nic || !*nic)
        return 1;
    return net->valid ? (addr & net->mask) == net->net : !strcmp(nic, name);
}

int facts_addrs(const char *nic, json_t **out, struct pd_err *err) {
    struct subnet net = parse_subnet(nic ? nic : "");
    struct ifaddrs *list;
    char ssh[INET_ADDRSTRLEN], seen[400] = "";
    if (getifaddrs(&list))
        return pd_fail(err, PD_EHOST, "cannot list the network interfaces");
    json_t *addrs = json_array();
    ssh_addr(ssh);
    if (*ssh && (!nic || !*nic))
        add_unique(addrs, ssh);
    for (int loopback = 0; loopback < 2; loopback++)
        for (struct ifaddrs *i = list; i; i = i->ifa_next) {
            if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP) ||
                !(i->ifa_flags & IFF_LOOPBACK) != !loopback)
                continue;
            struct in_addr a = ((struct sockaddr_in *)i->ifa_addr)->sin_addr;
            char text[INET_ADDRSTRLEN];
            inet_ntop(AF_INET, &a, text, sizeof text);
            size_t n = strlen(seen);
            snprintf(seen + n, sizeof seen - n, "%s%s %s", n ? ", " : "", i->ifa_name, text);
            if (!selected(nic, &net, i->ifa_name, ntohl(a.s_addr)))
                continue;
            if (*ssh && !strcmp(ssh, text))
                json_array_insert_new(addrs, 0, json_string(text));
            else
                add_unique(addrs, text);
        }
    freeifaddrs(list);
    if (!json_array_size(addrs)) {
        json_decref(addrs);
        if (nic && *nic)
            return pd_fail(err, PD_EHOST, "no interface or address here matches nic = %.60s; there are: %s", nic, seen);
        return pd_fail(err, PD_EHOST, "this host has no IPv4 address");
    }
    *out = addrs;
    return 0;
}

void facts_boot_id(char out[64]) {
    struct pd_buf b;
    pd_buf_init(&b);
    strcpy(out, "?");
    if (!pd_read_file("/proc/sys/kernel/random/boot_id", 64, &b, NULL) && b.len)
        snprintf(out, 64, "%.*s", (int)strcspn((char *)b.data, "\n"), (char *)b.data);
    pd_buf_release(&b);
}

void facts_machine(char out[96]) {
    char boot[64];
    struct pd_cpuset may = {{0}};
    uint64_t hash = 0;
    facts_boot_id(boot);
    (void)pd_cpuset_mine(&may);
    for (int i = 0; i < PD_CPU_WORDS; i++)
        hash = pd_mix64(hash ^ may.w[i]) + 1;
    snprintf(out, 96, "%.50s %016llx", boot, (unsigned long long)hash);
}

void facts_net_id(char out[96]) {
    char boot[64], ns[40] = "?";
    facts_boot_id(boot);
    ssize_t n = readlink("/proc/self/ns/net", ns, sizeof ns - 1);
    if (n > 0)
        ns[n] = 0;
    snprintf(out, 96, "%.50s %.40s", boot, ns);
}
