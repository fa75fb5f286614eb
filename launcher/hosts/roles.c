/* SPDX-License-Identifier: Apache-2.0 */
/* roles.c - which nodes run a parameter server, which a trainer: hosts_parse_roles of hosts.h. */
#include "launcher/hosts/hosts.h"

static int add_id(int *ids, size_t *n, char *seen, uint64_t id) {
    if (seen[id])
        return -1;
    seen[id] = 1;
    ids[(*n)++] = (int)id;
    return 0;
}

/* "0-3,7" */
static int role_list(int *ids, size_t *n, char *seen, char *list, size_t n_nodes, const char *what,
                     const char *where, struct pd_err *err) {
    for (char *save = NULL, *s = strtok_r(list, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
        uint64_t lo, hi;
        s = pd_trim(s);
        char *dash = strchr(s, '-');
        if (dash)
            *dash = 0;
        if (pd_parse_u64(pd_trim(s), UINT32_MAX, &lo) ||
            pd_parse_u64(dash ? pd_trim(dash + 1) : s, UINT32_MAX, &hi) || hi < lo)
            return pd_fail(err, PD_ECONF, "%s: %s: write all, none, a number, or nodes 0-3,7",
                           where, what);
        if (hi >= n_nodes)
            return n_nodes == 1
                       ? pd_fail(err, PD_ECONF,
                                 "%s: %s: there is no node %llu, the only host is node 0", where,
                                 what, (unsigned long long)hi)
                       : pd_fail(err, PD_ECONF,
                                 "%s: %s: there is no node %llu, the %zu hosts are nodes 0 to %zu",
                                 where, what, (unsigned long long)hi, n_nodes, n_nodes - 1);
        for (uint64_t id = lo; id <= hi; id++)
            if (add_id(ids, n, seen, id))
                return pd_fail(err, PD_ECONF, "%s: %s: node %llu is given twice", where, what,
                               (unsigned long long)id);
    }
    return *n ? 0 : pd_fail(err, PD_ECONF, "%s: %s: no nodes", where, what);
}

int hosts_parse_roles(int **out, size_t *n_out, const char *text, size_t n_nodes, const char *what,
                      const char *where, struct pd_err *err) {
    int *ids = pd_malloc(n_nodes * sizeof *ids), rc = 0;
    char *seen = pd_calloc(n_nodes, 1), *copy = pd_strdup(text);
    size_t n = 0;
    uint64_t count = n_nodes;
    if (!ids || !seen || !copy) {
        rc = pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
        goto out;
    }
    char *s = pd_trim(copy);
    if (pd_starts_with(s, "nodes")) {
        rc = role_list(ids, &n, seen, s + 5, n_nodes, what, where, err);
        goto out;
    }
    if (!strcmp(s, "none"))
        count = 0;
    else if (strcmp(s, "all") && pd_parse_u64(s, UINT32_MAX, &count))
        rc = pd_fail(err, PD_ECONF, "%s: %s: write all, none, a number, or nodes 0-3,7, not '%s'",
                     where, what, s);
    else if (count > n_nodes)
        rc = pd_fail(
            err, PD_ECONF,
            "%s: %s: %llu nodes wanted, the list has %zu host%s: add hosts, or write %s = all",
            where, what, (unsigned long long)count, n_nodes, n_nodes == 1 ? "" : "s", what);
    for (uint64_t i = 0; !rc && i < count; i++)
        add_id(ids, &n, seen, i);
out:
    free(seen);
    free(copy);
    if (rc) {
        free(ids);
        return rc;
    }
    *out = ids;
    *n_out = n;
    return 0;
}
