/* SPDX-License-Identifier: Apache-2.0 */
/* node_filter.c - the hosts that --node names: hosts_filter of hosts.h, and its parts. */
#include <fnmatch.h>

#include "launcher/hosts/hosts.h"

enum { NODE_ID_MAX = 65536 };

static int read_ids(struct host_item *item, const char *s) {
    char first[16];
    size_t n = strcspn(s, "-");
    if (n >= sizeof first)
        return 0;
    memcpy(first, s, n);
    first[n] = 0;
    if (pd_parse_i64(first, 0, NODE_ID_MAX, &item->lo))
        return 0;
    item->hi = item->lo;
    return !s[n] || !pd_parse_i64(s + n + 1, item->lo, NODE_ID_MAX, &item->hi);
}

void host_item_read(struct host_item *item, const char *text) {
    struct host_parts p;
    *item = (struct host_item){.text = text, .has_globs = strpbrk(text, "*?[\\") != NULL};
    item->is_ids = read_ids(item, text);
    if (item->is_ids || host_split(text, &p, 1, "--node", NULL) ||
        pd_fmt(item->addr, sizeof item->addr, "%.*s", (int)p.n_addr, p.addr))
        return;
    item->port = p.port;
}

static int same(const struct host_item *item, const char *pattern, const char *name) {
    return item->has_globs ? !fnmatch(pattern, name, 0) : !strcmp(pattern, name);
}

int host_item_matches(const struct host_item *item, const struct host *h, int64_t node) {
    if (item->is_ids)
        return node >= item->lo && node <= item->hi;
    return same(item, item->text, h->label) || !strcmp(item->text, h->spec) ||
           (*item->addr && h->addr && same(item, item->addr, h->addr) &&
            (!item->port || item->port == h->port));
}

int hosts_filter(const struct hosts *h, const char *list, const struct pd_options *opts,
                 char *chosen, struct pd_err *err) {
    struct expanded x;
    int rc = expand_hosts(&x, list, "--node", opts, NULL, 1, err);
    if (rc)
        return rc;
    for (size_t k = 0; k < x.n && !rc; k++) {
        struct host_item item;
        int n = 0;
        host_item_read(&item, x.v[k].text);
        for (size_t i = 0; i < h->n; i++)
            if (host_item_matches(&item, &h->v[i], (int64_t)i)) {
                chosen[i] = 1;
                n++;
            }
        if (!n)
            rc = pd_fail(err, PD_EUSAGE,
                         "--node: there is no %s%s; 'paddlectl conf --nodes' shows the hosts",
                         item.is_ids ? "node " : "host ", x.v[k].text);
    }
    expanded_release(&x);
    return rc;
}
