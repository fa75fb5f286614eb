/* SPDX-License-Identifier: Apache-2.0 */
/* roles.c - see roles.h. */
#include "agent/core/roles.h"

const char *const role_names[N_ROLES] = {"pserver", "trainer"};

int role_of(const char *name) {
    for (int r = 0; r < N_ROLES; r++)
        if (!strcmp(name, role_names[r]))
            return r;
    return -1;
}

int roles_init(struct roles *s, enum role r) {
    size_t bytes = (size_t)s->n_nodes * sizeof(int);
    s->nodes[r] = pd_calloc(1, bytes);
    s->rank[r] = pd_malloc(bytes);
    if (!s->nodes[r] || !s->rank[r])
        return -1;
    memset(s->rank[r], 0xff, bytes);
    return 0;
}

int roles_copy(struct roles *out, const struct roles *s) {
    *out = (struct roles){.n_nodes = s->n_nodes};
    for (int r = 0; r < N_ROLES; r++) {
        if (roles_init(out, (enum role)r)) {
            roles_release(out);
            return -1;
        }
        for (int i = 0; i < s->n[r]; i++)
            roles_add(out, (enum role)r, s->nodes[r][i]);
    }
    return 0;
}

void roles_release(struct roles *s) {
    for (int r = 0; r < N_ROLES; r++) {
        free(s->nodes[r]);
        free(s->rank[r]);
    }
    *s = (struct roles){0};
}

void roles_add(struct roles *s, enum role r, int node) {
    s->rank[r][node] = s->n[r];
    s->nodes[r][s->n[r]++] = node;
}

int roles_rank(const struct roles *s, enum role r, int node) { return s->rank[r][node]; }

static int n_roles_of(const struct roles *s, int node) {
    int n = 0;
    for (int r = 0; r < N_ROLES; r++)
        n += s->rank[r][node] >= 0;
    return n;
}

int roles_any(const struct roles *s, int node) { return n_roles_of(s, node) > 0; }

/* -1: every live node has the role. */
static int least_busy_without(const struct roles *s, enum role r, const char *gone) {
    int best = -1;
    for (int i = 0; i < s->n_nodes; i++)
        if (!gone[i] && s->rank[r][i] < 0 && (best < 0 || n_roles_of(s, i) < n_roles_of(s, best)))
            best = i;
    return best;
}

/* A live node without a role, which can take over all roles of a lost node; -1: none. */
static int spare(const struct roles *s, const char *gone) {
    for (int i = 0; i < s->n_nodes; i++)
        if (!gone[i] && !n_roles_of(s, i))
            return i;
    return -1;
}

static void drop(struct roles *s, enum role r, int rank) {
    s->n[r]--;
    for (int i = rank; i < s->n[r]; i++) {
        s->nodes[r][i] = s->nodes[r][i + 1];
        s->rank[r][s->nodes[r][i]] = i;
    }
}

void roles_leave(struct roles *s, int node, const char *gone, int to[N_ROLES]) {
    int whole = spare(s, gone);
    for (int r = 0; r < N_ROLES; r++) {
        int rank = s->rank[r][node];
        to[r] = -2;
        if (rank < 0)
            continue;
        s->rank[r][node] = -1;
        to[r] = whole >= 0 ? whole : least_busy_without(s, (enum role)r, gone);
        if (to[r] < 0) {
            drop(s, (enum role)r, rank);
        } else {
            s->nodes[r][rank] = to[r];
            s->rank[r][to[r]] = rank;
        }
    }
}
