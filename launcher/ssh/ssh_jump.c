/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_jump.c - jump hosts: one connection to each carries the connections to all hosts behind it.
 *
 * The key of a jump host is the chain that leads to it ("first,second"). The session of the last
 * link goes through the jump host of the chain before it. sshd's MaxSessions does not count the
 * channels that a jump host carries. The connection lasts until the pool's last session has ended.
 * After a loss, the next session that needs the jump host connects again.
 */
#include "launcher/ssh/ssh_jump.h"

const char *jump_name(const struct ssh_jump *j) {
    const char *comma = strrchr(j->spec, ',');
    return comma ? comma + 1 : j->spec;
}

const char *jump_failure(const struct session *s) {
    return s->via && s->via->down ? s->via->why.msg : NULL;
}

void jump_dropped(struct ssh_jump *j, const struct pd_err *why) {
    /* In another step the session only connects again. */
    if (!j->down && why->code && j->s && j->s->step == STEP_CLOSING) {
        j->down = 1;
        pd_fail(&j->why, why->code == PD_ECLOSED ? PD_EHOST : why->code, "jump host %s: %s",
                jump_name(j), why->msg);
    }
    jump_forwards_drop(j);
}

static void on_up(void *arg) {
    struct ssh_jump *j = arg;
    j->up = 1;
    wait_wake_all(&j->waiters);
}

static void on_close(const struct pd_err *why, void *arg) {
    struct ssh_jump *j = arg;
    struct ssh_pool *pool = j->pool;
    if (!j->down) {
        j->down = 1;
        pd_fail(&j->why, why->code ? why->code : PD_ECLOSED, "jump host %s: %s", jump_name(j),
                why->code ? why->msg : "the connection was closed");
    }
    j->s = NULL;
    wait_wake_all(&j->waiters);
    ssh_pool_background(pool, -1);
}

static const struct transport_events events = {.on_open = on_up,
                                               .on_close = on_close}; /* it runs no command */

/* "[user@]host[:port]", also "[::1]:22" and "ssh://user@host:port", for one link of a chain. */
static int parse_link(struct host *h, char *text, struct pd_err *err) {
    int64_t port = 0;
    char *s = pd_trim(text), *at, *colon;
    memset(h, 0, sizeof *h);
    s += pd_starts_with(s, "ssh://") ? 6 : 0;
    if ((at = strrchr(s, '@'))) {
        *at = 0;
        h->user = s;
        s = at + 1;
    }
    if (*s == '[' && strchr(s, ']')) {
        char *end = strchr(++s, ']');
        *end = 0;
        colon = end[1] == ':' ? end + 1 : NULL;
    } else {
        colon = strchr(s, ':');
        if (colon && strchr(colon + 1, ':'))
            colon = NULL; /* an IPv6 address */
    }
    if (colon) {
        *colon = 0;
        if (pd_parse_i64(colon + 1, 1, 65535, &port))
            return pd_fail(err, PD_ECONF, "proxy_jump: port is 1..65535, not '%s'", colon + 1);
    }
    h->addr = s;
    h->port = (int)port;
    return *s ? 0 : pd_fail(err, PD_ECONF, "proxy_jump: a host is missing");
}

static int jump_open(struct ssh_jump *j, int depth, struct pd_err *err) {
    struct host h;
    size_t before = (size_t)(jump_name(j) - j->spec);
    char *chain = before ? pd_strdup(j->spec) : NULL, *link = pd_strdup(jump_name(j));
    int rc = !link || (before && !chain) ? pd_oom(err, "a jump host") : parse_link(&h, link, err);
    if (chain)
        chain[before - 1] = 0;
    if (!rc)
        rc = ssh_session_open(&j->s, j->pool, &h, NULL, &events, j, err);
    free(link);
    if (rc) {
        free(chain);
        return rc;
    }
    j->s->jump = j;
    j->s->depth = depth;
    j->s->given_jump = chain;
    j->pool->n_sessions--; /* it counts as background */
    ssh_pool_background(j->pool, 1);
    return 0;
}

/* Does `j` go through `other`, or will it? */
static int goes_through(const struct ssh_jump *j, const struct ssh_jump *other) {
    for (; j; j = j->s ? j->s->via : NULL)
        if (j == other)
            return 1;
    return 0;
}

int ssh_jump_get(struct ssh_jump **out, struct session *s, const char *spec, struct pd_err *err) {
    struct ssh_pool *pool = s->pool;
    for (struct ssh_jump *j = pool->jumps; j; j = j->next)
        if (!j->down && !strcmp(j->spec, spec)) {
            if (s->jump && goes_through(j, s->jump))
                return pd_fail(err, PD_ECONF,
                               "jump hosts in a circle: %s is reached by way of itself", spec);
            *out = j;
            return 0;
        }
    int depth = s->depth + 1;
    if (depth > SSH_JUMPS_MAX)
        return pd_fail(err, PD_ECONF, "more than %d jump hosts behind each other, up to %s",
                       SSH_JUMPS_MAX, spec);
    struct ssh_jump *j = pd_calloc(1, sizeof *j);
    if (!j || !(j->spec = pd_strdup(spec))) {
        free(j);
        return pd_oom(err, "a jump host");
    }
    j->pool = pool;
    int rc = jump_open(j, depth, err);
    if (rc) {
        free(j->spec);
        free(j);
        return rc;
    }
    j->next = pool->jumps;
    pool->jumps = j;
    *out = j;
    return 0;
}

enum ssh_step run_jump(struct session *s) {
    struct ssh_jump *j = s->via;
    if (j->down)
        return session_fail(s, j->why.code, "%s", j->why.msg);
    if (!j->up)
        wait_add(&j->waiters, s);
    return j->up ? STEP_TURN : STEP_JUMP;
}

void ssh_jumps_close(struct ssh_pool *pool) {
    for (struct ssh_jump *j = pool->jumps; j; j = j->next)
        if (j->s)
            transport_close(&j->s->base);
}

void ssh_jumps_free(struct ssh_pool *pool) {
    while (pool->jumps) {
        struct ssh_jump *j = pool->jumps;
        pool->jumps = j->next;
        free(j->spec);
        free(j);
    }
}
