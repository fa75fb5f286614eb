/* SPDX-License-Identifier: Apache-2.0 */
/* shard_replay.c - requests that a trainer repeats after its connection was lost, and the answers
 * that are kept for them. */
#include "ps/shard/shard_internal.h"

/* The bytes of a kept answer. The ring is large enough: a trainer has at most about 110 such
 * requests under way (64 reductions, and ps_step_end waits beyond 48), and it can only lack the
 * last answers. */
static uint8_t *kept_bytes(struct kept_answer *a) {
    return a->n <= sizeof a->small ? a->small : a->data;
}

int shard_answer_kept(struct ps_shard *s, uint32_t trainer, uint16_t type, uint64_t req,
                      const struct ps_body *b) {
    struct shard_member *m = &s->barrier.members[trainer];
    struct kept_answer *a = &m->answers[m->next_answer++ % SHARD_ANSWERS];
    const uint8_t *p = b->sec[0];
    const size_t n = b->len[0];
    struct iovec io = {(void *)(uintptr_t)p, n};
    if (b->head->failed)
        return PD_ENOMEM;
    a->req = 0;
    if (n > sizeof a->small && n > a->cap) {
        free(a->data);
        a->data = pd_malloc(n);
        a->cap = a->data ? n : 0;
    }
    /* Without memory the answer is sent once and not kept. */
    if (n <= sizeof a->small || n <= a->cap) {
        a->n = n;
        if (n)
            memcpy(kept_bytes(a), p, n);
        a->type = type;
        a->connection = m->connection;
        a->req = req;
    }
    s->ops.answer(s->arg, trainer, type, req, &io, 1, NULL, NULL);
    return 0;
}

int shard_answer(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                 const struct ps_body *b, struct pd_err *err) {
    struct iovec io[WIRE_SECTIONS];
    if (b->head->failed)
        return pd_fail(err, PD_ENOMEM, "no memory for an answer");
    for (uint32_t i = 0; i < b->n; i++)
        io[i] = (struct iovec){(void *)(uintptr_t)b->sec[i], b->len[i]};
    s->ops.answer(s->arg, trainer, f->type, f->req, io, b->n, NULL, NULL);
    return 0;
}

static struct kept_answer *find_kept(const struct shard_member *m, uint16_t type, uint64_t req) {
    for (uint32_t i = 0; i < SHARD_ANSWERS; i++)
        if (m->answers[i].req == req && req && m->answers[i].type == type)
            return &m->answers[i];
    return NULL;
}

static int is_pull(uint16_t type) {
    return type == WIRE_PS_PULL_DENSE || type == WIRE_PS_PULL_ROWS;
}

static void drop_waiting(struct ps_shard *s, uint32_t trainer, int pulls_only) {
    size_t kept = 0;
    for (size_t i = 0; i < s->barrier.n_waiting; i++)
        if (s->barrier.waiting[i].trainer == trainer &&
            (!pulls_only || is_pull(s->barrier.waiting[i].f->type)))
            wire_frame_free(s->barrier.waiting[i].f);
        else
            s->barrier.waiting[kept++] = s->barrier.waiting[i];
    s->barrier.n_waiting = kept;
}

void shard_forget_pulls(struct ps_shard *s, uint32_t trainer) { drop_waiting(s, trainer, 1); }
void shard_forget_waiting(struct ps_shard *s, uint32_t trainer) { drop_waiting(s, trainer, 0); }

static int is_waiting(const struct ps_shard *s, uint32_t trainer, uint64_t req) {
    for (size_t i = 0; i < s->barrier.n_waiting; i++)
        if (s->barrier.waiting[i].trainer == trainer && s->barrier.waiting[i].f->req == req)
            return 1;
    return 0;
}

/* A repeated request is one of these:
 * - A pull: done again.
 * - Answered: the kept answer is sent again.
 * - Taken and still under way: its answer will be sent. This includes a save or load that waits for
 *   a step, since the values to save exist only at that step.
 * - Failed, or its answer could not be kept for lack of memory: done again, unless it is too late.
 */
int shard_repeated(struct ps_shard *s, uint32_t trainer, struct wire_frame **f,
                   struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    struct kept_answer *a = find_kept(m, (*f)->type, (*f)->req);
    const uint16_t type = (*f)->type;
    s->stats.repeated++;
    if (a && a->connection == m->connection)
        return 0; /* answered while the repeated request was on its way */
    if (a) {
        a->connection = m->connection;
        struct iovec io = {kept_bytes(a), a->n};
        s->ops.answer(s->arg, trainer, a->type, a->req, &io, 1, NULL, NULL);
        return 0;
    }
    if (shard_is_about_models(type) && m->state == MEMBER_JOINED)
        return shard_models(s, trainer, *f, err);
    if (shard_is_saving(s, trainer, (*f)->req) ||
        (!is_pull(type) && is_waiting(s, trainer, (*f)->req)))
        return 0;
    if (!is_pull(type) && type != WIRE_PS_SAVE && type != WIRE_PS_COMMIT && type != WIRE_PS_LOAD &&
        type != WIRE_PS_DAY_END)
        return 0;
    const struct ps_body b = ps_body_of(*f);
    uint64_t after;
    (void)ps_get_after(&b, &after); /* shard_pull refuses a request that is cut short */
    if (type == WIRE_PS_SAVE && s->params.rule->barrier && after < s->barrier.step)
        return pd_fail(err, PD_EFAIL,
                       "the model after step %llu was not saved and no longer exists: step %llu",
                       (unsigned long long)after, (unsigned long long)s->barrier.step);
    if (m->state == MEMBER_JOINED)
        return shard_pull(s, trainer, f, err);
    return pd_fail(err, PD_EPROTO, "%s after PS_BYE", wire_msg_name(type));
}
