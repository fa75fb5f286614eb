/* node_filter.c - the hosts that --node names: hosts_filter of hosts.h, and its parts. */
#include <fnmatch.h>

#include "launcher/hosts/hosts.h"

enum { NODE_ID_MAX = 65536 };

int host_ids(const char *s, int64_t *lo, int64_t *hi) {
    char first[16];
    size_t n = strcspn(s, "-");
    if (n >= sizeof first)
        return 0;
    memcpy(first, s, n);
    first[n] = 0;
    if (pd_parse_i64(first, 0, NODE_ID_MAX, lo))
        return 0;
    *hi = *lo;
    return !s[n] || !pd_parse_i64(s + n + 1, *lo, NODE_ID_MAX, hi);
}

int host_matches(const struct host *h, const char *text) {
    struct host_parts p;
    char name[300];
    if (!fnmatch(text, h->label, 0) || !strcmp(text, h->spec))
        return 1;
    if (host_split(text, &p, 1, "--node", NULL) ||
        pd_fmt(name, sizeof name, "%.*s", (int)p.n_addr, p.addr))
        return 0;
    return h->addr && !fnmatch(name, h->addr, 0) && (!p.port || p.port == h->port);
}

int hosts_filter(const struct hosts *h, const char *list, const struct pd_options *opts,
                 char *chosen, struct pd_err *err) {
    struct expanded x;
    int rc = expand_hosts(&x, list, "--node", opts, NULL, 1, err);
    if (rc)
        return rc;
    for (size_t k = 0; k < x.n && !rc; k++) {
        int64_t lo = 0, hi = 0;
        int ids = host_ids(x.v[k].text, &lo, &hi), n = 0;
        for (size_t i = 0; i < h->n; i++)
            if (ids ? (int64_t)i >= lo && (int64_t)i <= hi : host_matches(&h->v[i], x.v[k].text)) {
                chosen[i] = 1;
                n++;
            }
        if (!n)
            rc = pd_fail(err, PD_EUSAGE,
                         "--node: there is no %s%s; 'paddlectl conf --nodes' shows the hosts",
                         ids ? "node " : "host ", x.v[k].text);
    }
    expanded_release(&x);
    return rc;
}
