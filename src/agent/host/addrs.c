/* SPDX-License-Identifier: Apache-2.0 */
/* addrs.c - the addresses of this node (facts.h). The static node programs resolve no names: all
 * addresses are numbers. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "agent/host/facts.h"

enum { V6_TABLE_MAX = 1 << 20 };

/* An IPv4 or IPv6 address or subnet. `bits`: the length of the prefix. */
struct ip {
    int family, bits;
    uint8_t b[16];
};

static int parse_ip(const char *text, struct ip *out) {
    *out = (struct ip){.family = AF_INET, .bits = 32};
    if (inet_pton(AF_INET, text, out->b) == 1)
        return 0;
    *out = (struct ip){.family = AF_INET6, .bits = 128};
    return inet_pton(AF_INET6, text, out->b) == 1 ? 0 : -1;
}

/* "10.0.0.0/8", "2001:db8::/32" */
static int parse_subnet(const char *s, struct ip *out) {
    char text[64];
    const char *slash = strchr(s, '/');
    uint64_t bits;
    if (!slash || pd_fmt(text, sizeof text, "%.*s", (int)(slash - s), s) || parse_ip(text, out) ||
        pd_parse_u64(slash + 1, (uint64_t)out->bits, &bits))
        return -1;
    out->bits = (int)bits;
    return 0;
}

static int lies_in(const struct ip *a, const struct ip *net) {
    int whole = net->bits / 8, rest = net->bits % 8;
    if (a->family != net->family || memcmp(a->b, net->b, (size_t)whole))
        return 0;
    return !rest || !((a->b[whole] ^ net->b[whole]) >> (8 - rest));
}

/* 1: a peer can use this address. Link-local IPv6 addresses, for example, are valid only with an
 * interface. */
static int usable(const struct ifaddrs *i, struct ip *out) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
        return 0;
    if (i->ifa_addr->sa_family == AF_INET) {
        *out = (struct ip){.family = AF_INET, .bits = 32};
        memcpy(out->b, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, 4);
        return 1;
    }
    if (i->ifa_addr->sa_family != AF_INET6)
        return 0;
    const struct in6_addr *a = &((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
    *out = (struct ip){.family = AF_INET6, .bits = 128};
    memcpy(out->b, a, 16);
    return !IN6_IS_ADDR_LINKLOCAL(a) && !IN6_IS_ADDR_MULTICAST(a) && !IN6_IS_ADDR_UNSPECIFIED(a) &&
           !IN6_IS_ADDR_V4MAPPED(a);
}

/* "fd770000000000000000000000000001 02 40 00 80     eth0" */
enum facts_v6 facts_v6_of(const char *table, const uint8_t addr[16]) {
    enum {
        TEMPORARY = 0x01,
        OPTIMISTIC = 0x04,
        DADFAILED = 0x08,
        DEPRECATED = 0x20,
        TENTATIVE = 0x40
    };
    char hex[33];
    unsigned flags;
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", addr[i]);
    for (const char *s = table; s && *s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL) {
        if (strncmp(s, hex, 32) || sscanf(s + 32, " %*x %*x %*x %x", &flags) != 1)
            continue;
        if (flags & DADFAILED || (flags & TENTATIVE && !(flags & OPTIMISTIC)))
            return FACTS_V6_UNUSABLE;
        return flags & (TEMPORARY | DEPRECATED) ? FACTS_V6_FLEETING : FACTS_V6_LASTING;
    }
    return FACTS_V6_LASTING;
}

/* SSH_CONNECTION is "client port server port". The server's address is reachable, because the
 * client has reached it. */
static void ssh_addr(char out[INET6_ADDRSTRLEN]) {
    const char *s = getenv("SSH_CONNECTION");
    char text[200], *save, *tok;
    struct ip a;
    *out = 0;
    if (!s || pd_fmt(text, sizeof text, "%s", s))
        return;
    tok = strtok_r(text, " ", &save);
    for (int i = 0; i < 2 && tok; i++)
        tok = strtok_r(NULL, " ", &save);
    if (tok && !parse_ip(tok, &a))
        inet_ntop(a.family, a.b, out, INET6_ADDRSTRLEN);
}

static void add_unique(json_t *list, const char *addr) {
    size_t i;
    json_t *v;
    json_array_foreach (list, i, v)
        if (!strcmp(json_string_value(v), addr))
            return;
    json_array_append_new(list, json_string(addr));
}

/* The meaning of `nic`: an interface's name, a subnet, or (if empty) every address. */
struct addr_filter {
    const char *nic;
    int is_subnet;
    struct ip net;
};

static int selected(const struct addr_filter *w, const char *name, const struct ip *a) {
    return !*w->nic || (w->is_subnet ? lies_in(a, &w->net) : !strcmp(w->nic, name));
}

struct kind {
    int loopback, family;
    enum facts_v6 v6; /* of AF_INET6 only */
};

static int is_kind(const struct ifaddrs *i, const struct ip *a, const struct kind *k,
                   const char *v6_table) {
    return a->family == k->family && !(i->ifa_flags & IFF_LOOPBACK) == !k->loopback &&
           (a->family == AF_INET || facts_v6_of(v6_table, a->b) == k->v6);
}

/* Adds the addresses of one kind. Appends every usable address to the text in `seen`. */
static void add_kind(json_t *addrs, const struct ifaddrs *list, const struct addr_filter *w,
                     const struct kind *kind, const char *v6_table, const char *ssh,
                     char seen[400]) {
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        struct ip a;
        char text[INET6_ADDRSTRLEN];
        if (!usable(i, &a) || !is_kind(i, &a, kind, v6_table))
            continue;
        inet_ntop(a.family, a.b, text, sizeof text);
        size_t n = strlen(seen);
        snprintf(seen + n, 400 - n, "%s%s %s", n ? ", " : "", i->ifa_name, text);
        if (!selected(w, i->ifa_name, &a))
            continue;
        if (!strcmp(ssh, text))
            json_array_insert_new(addrs, 0, json_string(text));
        else
            add_unique(addrs, text);
    }
}

int facts_addrs(const char *nic, json_t **out, struct pd_err *err) {
    struct addr_filter w = {.nic = nic ? nic : ""};
    struct ifaddrs *list;
    struct pd_buf b = {0};
    char ssh[INET6_ADDRSTRLEN], seen[400] = "";
    w.is_subnet = !parse_subnet(w.nic, &w.net);
    if (getifaddrs(&list))
        return pd_fail(err, PD_EHOST, "cannot list the network interfaces");
    json_t *addrs = json_array();
    ssh_addr(ssh);
    if (*ssh && !*w.nic)
        add_unique(addrs, ssh);
    const char *v6_table =
        !pd_read_file("/proc/net/if_inet6", V6_TABLE_MAX, &b, NULL) && b.len ? (char *)b.data : "";
    for (int loopback = 0; loopback < 2; loopback++) {
        const struct kind kinds[] = {{loopback, AF_INET, 0},
                                     {loopback, AF_INET6, FACTS_V6_LASTING},
                                     {loopback, AF_INET6, FACTS_V6_FLEETING}};
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            add_kind(addrs, list, &w, &kinds[k], v6_table, ssh, seen);
    }
    pd_buf_release(&b);
    freeifaddrs(list);
    if (!json_array_size(addrs)) {
        json_decref(addrs);
        if (*w.nic)
            return pd_fail(err, PD_EHOST,
                           "no interface or address here matches nic = %.60s; there are: %s", nic,
                           seen);
        return pd_fail(err, PD_EHOST, "this host has no address");
    }
    *out = addrs;
    return 0;
}
