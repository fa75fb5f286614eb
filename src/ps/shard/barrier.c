/* SPDX-License-Identifier: Apache-2.0 */
/* barrier.c - see barrier.h. */
#include "ps/shard/barrier.h"

int shard_barrier_init(struct barrier *b, uint32_t n_trainers) {
    b->n_trainers = n_trainers;
    b->members = pd_calloc(n_trainers, sizeof *b->members);
    b->order = pd_calloc(n_trainers, sizeof *b->order);
    return b->members && b->order ? 0 : PD_ENOMEM;
}

void shard_barrier_join(struct barrier *b, uint32_t trainer, struct ps_range streams) {
    uint32_t at = b->n_joined++;
    while (at && b->members[b->order[at - 1]].streams.lo > streams.lo) {
        b->order[at] = b->order[at - 1];
        at--;
    }
    b->order[at] = trainer;
    b->members[trainer].streams = streams;
}

int shard_barrier_is_complete(const struct barrier *b) {
    return b->n_joined && b->n_joined + b->n_absent >= b->n_trainers;
}

uint64_t shard_barrier_pass_ms(const struct barrier *b) {
    return b->pass_began_ns ? (pd_mono_ns() - b->pass_began_ns) / 1000000u : 0;
}

int shard_barrier_step_ready(const struct barrier *b) {
    int any = 0;
    for (uint32_t i = 0; i < b->n_joined; i++) {
        const struct shard_member *m = &b->members[b->order[i]];
        if (m->in_pass && m->step <= b->step)
            return 0;
        any |= m->step > b->step;
    }
    return any;
}

int shard_barrier_pass_over(const struct barrier *b) {
    int any = 0;
    for (uint32_t i = 0; i < b->n_joined; i++) {
        const struct shard_member *m = &b->members[b->order[i]];
        if (m->in_pass || m->step > b->step || (m->state == MEMBER_JOINED && !m->pass_req))
            return 0;
        any |= m->state == MEMBER_JOINED;
    }
    return any;
}

uint64_t shard_barrier_furthest(const struct barrier *b) {
    uint64_t most = b->step;
    for (uint32_t i = 0; i < b->n_joined; i++)
        if (b->members[b->order[i]].step > most)
            most = b->members[b->order[i]].step;
    return most;
}

uint64_t shard_barrier_slowest(const struct barrier *b) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < b->n_joined; i++) {
        const struct shard_member *m = &b->members[b->order[i]];
        if (m->in_pass && m->step < least)
            least = m->step;
    }
    return least == UINT64_MAX ? shard_barrier_furthest(b) : least;
}

int shard_barrier_steps_under_way(const struct barrier *b) {
    int any = b->n_waiting > b->n_answering;
    for (uint32_t i = 0; i < b->n_joined; i++) {
        const struct shard_member *m = &b->members[b->order[i]];
        any |= m->step > b->step;
        for (uint32_t k = 0; m->ring && k < SHARD_RING; k++)
            any |= m->ring[k].n_parts > 0;
    }
    return any;
}

/* --- texts for messages --- */

uint32_t shard_barrier_absent(const struct barrier *b, char *text, size_t cap) {
    enum { NAMED = 8, ROOM = 40 };
    uint32_t n = 0, named = 0;
    size_t at = 0;
    for (uint32_t i = 0; i < b->n_trainers; i++) {
        if (b->members[i].state != MEMBER_ABSENT)
            continue;
        n++;
        if (!text || named == NAMED || at + ROOM > cap)
            continue;
        at += (size_t)snprintf(text + at, cap - at, "%s %u", named++ ? "," : "trainer", i);
    }
    if (text && n > named)
        snprintf(text + at, cap - at, " and %u more", n - named);
    return n;
}

/* 1: the member has done its part and waits for others. */
static int is_waiting(const struct barrier *b, const struct shard_member *m, int reduce) {
    return reduce ? m->n_reduces > 0 : m->in_pass ? m->step > b->step : m->pass_req != 0;
}

/* The reason why members wait, or NULL if none waits. *reduce: they wait in a reduction. */
static const char *wait_reason(const struct barrier *b, int *reduce) {
    *reduce = 0;
    int out = 0, ahead = b->n_waiting > 0;
    for (uint32_t i = 0; i < b->n_joined; i++) {
        const struct shard_member *m = &b->members[b->order[i]];
        *reduce |= m->n_reduces > 0;
        out |= m->state == MEMBER_JOINED && !m->in_pass;
        ahead |= m->step > b->step;
    }
    return *reduce ? "in a reduction" : ahead || out ? "in step" : NULL;
}

int shard_barrier_waiting(const struct barrier *b, char *text, size_t cap) {
    int reduce;
    const char *what = wait_reason(b, &reduce);
    if (!what)
        return 0;
    size_t n = (size_t)snprintf(text, cap, "waiting for");
    uint32_t named = 0, missing = 0;
    for (uint32_t t = 0; t < b->n_trainers; t++) {
        const struct shard_member *m = &b->members[t];
        if (m->state == MEMBER_LEFT || (m->state == MEMBER_JOINED && (is_waiting(b, m, reduce))))
            continue;
        missing++;
        if (named == 8 || n + 100 > cap)
            continue;
        named++;
        if (m->state == MEMBER_ABSENT)
            n += (size_t)snprintf(text + n, cap - n, "%s trainer %u (not here yet)",
                                  named > 1 ? "," : "", t);
        else
            n += (size_t)snprintf(text + n, cap - n, "%s trainer %u (streams %u-%u%s)",
                                  named > 1 ? "," : "", t, m->streams.lo, m->streams.hi - 1,
                                  m->attached ? "" : "; it has no connection");
    }
    if (missing > named)
        n += (size_t)snprintf(text + n, cap - n, " and %u more", missing - named);
    if (reduce)
        snprintf(text + n, cap - n, " %s", what);
    else
        snprintf(text + n, cap - n, " %s %llu", what, (unsigned long long)b->step);
    return missing > 0;
}
