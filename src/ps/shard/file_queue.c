/* SPDX-License-Identifier: Apache-2.0 */
/* file_queue.c - data = queue: which trainer reads which file of the pass.
 *
 *     waiting ──asked for──▶ held by a trainer ──its next request says so──▶ done
 *        ▲                        │
 *        └── back ◀───────────────┘  the trainer is lost, or leaves the pass too early
 *
 * Files are handed out in the order of the job's list; returned files come first. If a trainer's
 * node has only some files, the trainer first gets its own files (file i belongs to trainer i mod
 * n), then the files of others in order. The answer names the trainer's probable next file, so that
 * its node can prefetch it; other trainers get that file last. When no file is left, a request
 * waits until a file is returned, or until all are done and the pass ends for all trainers at once.
 * Trainers ask only the first dense thread of the first server.
 */
#include "ps/shard/shard_internal.h"

enum {
    TASK_LEFT = 0,
    TASK_BACK = UINT32_MAX - 2,
    TASK_DONE = UINT32_MAX - 1
}; /* any other value: the trainer that reads the file, counted from 1 */

void shard_queue_release(struct ps_shard *s) {
    free(s->files.owner);
    memset(&s->files, 0, sizeof s->files);
}

void shard_queue_give_back(struct ps_shard *s, uint32_t trainer) {
    struct shard_member *m = &s->barrier.members[trainer];
    m->task_req = 0;
    if (!m->task)
        return;
    pd_info(s->opts.log,
            "file %llu of pass %llu is handed out again: trainer %u has not read all of it",
            (unsigned long long)m->task - 1, (unsigned long long)s->barrier.pass + 1, trainer);
    s->files.owner[m->task - 1] = TASK_BACK;
    s->files.n_back++;
    s->files.n_again++;
    m->task = 0;
}

/* Logs how the files of the pass were read, then clears the queue. */
void shard_queue_end_pass(struct ps_shard *s) {
    if (s->files.owner) {
        char text[500];
        size_t n = 0;
        for (uint32_t i = 0; i < s->opts.n_trainers && n < sizeof text; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, ", trainer %u: %llu", i,
                                  (unsigned long long)s->barrier.members[i].n_tasks);
        pd_info(s->opts.log, "pass %llu: %llu of %llu files read (%s), %llu handed out again",
                (unsigned long long)s->barrier.pass + 1, (unsigned long long)s->files.n_done,
                (unsigned long long)s->files.n, text + 2, (unsigned long long)s->files.n_again);
    }
    for (uint32_t i = 0; i < s->opts.n_trainers; i++)
        s->barrier.members[i].n_tasks = s->barrier.members[i].task =
            s->barrier.members[i].own_next = s->barrier.members[i].hint = 0;
    shard_queue_release(s);
}

static void answer_request(struct ps_shard *s, uint32_t trainer, enum ps_task what, uint64_t file) {
    struct shard_member *m = &s->barrier.members[trainer];
    const struct ps_msg_task_given given = {.what = what,
                                            .file = file,
                                            .n_done = s->files.n_done,
                                            .furthest = shard_barrier_furthest(&s->barrier),
                                            .next = m->hint};
    const uint64_t req = m->task_req;
    struct ps_body b = shard_body(s);
    ps_put_task_given(&b, &given);
    m->task_req = 0;
    s->stats.progress++;
    shard_answer_kept(s, trainer, WIRE_PS_TASK, req, &b);
}

static int is_unassigned(const struct ps_shard *s, uint64_t file) {
    return s->files.owner[file] == TASK_LEFT;
}

static int expected_by_others(const struct ps_shard *s, uint32_t trainer, uint64_t file) {
    for (uint32_t i = 0; i < s->opts.n_trainers; i++)
        if (i != trainer && s->barrier.members[i].state == MEMBER_JOINED &&
            s->barrier.members[i].hint == file + 1)
            return 1;
    return 0;
}

/* Chooses a file for this trainer that was never handed out. Such a file must exist. */
static uint64_t choose_file(struct ps_shard *s, uint32_t trainer) {
    struct shard_member *m = &s->barrier.members[trainer];
    while (!is_unassigned(s, s->files.next))
        s->files.next++;
    if (!m->own_first)
        return s->files.next;
    if (m->hint && is_unassigned(s, m->hint - 1))
        return m->hint - 1;
    if (!m->own_next)
        m->own_next = trainer;
    while (m->own_next < s->files.n && !is_unassigned(s, m->own_next))
        m->own_next += s->opts.n_trainers;
    if (m->own_next < s->files.n)
        return m->own_next;
    for (uint64_t i = s->files.next; i < s->files.n; i++)
        if (is_unassigned(s, i) && !expected_by_others(s, trainer, i))
            return i;
    return s->files.next;
}

static uint64_t next_file(struct ps_shard *s, uint32_t trainer) {
    uint64_t i = 0;
    if (!s->files.n_back) {
        s->files.n_left--;
        return choose_file(s, trainer);
    }
    while (s->files.owner[i] != TASK_BACK)
        i++;
    s->files.n_back--;
    return i;
}

static void hand_out_to(struct ps_shard *s, uint32_t trainer) {
    struct shard_member *m = &s->barrier.members[trainer];
    uint64_t file = next_file(s, trainer);
    s->files.owner[file] = trainer + 1;
    m->task = file + 1;
    m->hint = 0;
    if (m->own_first && s->files.n_left)
        m->hint = choose_file(s, trainer) + 1;
    answer_request(s, trainer, PS_TASK_FILE, file);
}

void shard_queue_hand_out(struct ps_shard *s) {
    for (uint32_t i = 0; i < s->opts.n_trainers && s->files.owner; i++) {
        struct shard_member *m = &s->barrier.members[i];
        if (m->state != MEMBER_JOINED || !m->task_req)
            continue;
        if (!m->in_pass) {
            /* The trainer's earlier process had ended the pass. */
            answer_request(s, i, PS_TASK_OVER, 0);
        } else if (s->files.n_back || s->files.n_left) {
            hand_out_to(s, i);
        } else if (s->files.n_done == s->files.n) {
            answer_request(s, i, PS_TASK_OVER, 0);
        } else if (s->params.rule->bounded && m->step < shard_barrier_furthest(&s->barrier)) {
            /* ssp: a trainer behind the furthest one must not wait here, since others wait for its
             * steps. */
            answer_request(s, i, PS_TASK_LATER, 0);
        }
    }
}

int shard_queue_request(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                        struct pd_err *err) {
    struct shard_member *m = &s->barrier.members[trainer];
    const struct ps_body b = ps_body_of(f);
    struct ps_msg_task t;
    if (ps_get_task(&b, &t, err))
        return PD_EPROTO;
    const uint64_t n = t.n_files, done = t.done;
    if (t.epoch != s->opts.epoch || t.pass != s->barrier.pass || (!m->in_pass && m->pass_req) ||
        m->task_req)
        return pd_fail(err, PD_EPROTO, "PS_TASK of pass %llu does not fit: pass %llu%s",
                       (unsigned long long)t.pass, (unsigned long long)s->barrier.pass,
                       m->task_req  ? ", and one is under way"
                       : m->in_pass ? ""
                                    : ", which this trainer has ended");
    if (s->params.rule->barrier)
        return pd_fail(
            err, PD_ECONF,
            "files are not handed out under update = %s: trainers would not have the same steps",
            s->params.rule->name);
    if (n < 1 || (s->files.owner && n != s->files.n))
        return pd_fail(err, PD_EPROTO, "PS_TASK of %llu files, others have %llu; at most %d",
                       (unsigned long long)n, (unsigned long long)s->files.n, PS_TASKS_MAX);
    if (done != m->task)
        return pd_fail(err, PD_EPROTO, "PS_TASK: file %lld is done, but %lld was handed out",
                       (long long)done - 1, (long long)m->task - 1);
    if (!s->files.owner) {
        if (!(s->files.owner = pd_calloc(n, sizeof *s->files.owner)))
            return pd_fail(err, PD_ENOMEM, "no memory for a list of %llu files",
                           (unsigned long long)n);
        s->files.n = s->files.n_left = n;
    }
    m->own_first = t.own_first != 0;
    if (done) {
        s->files.owner[done - 1] = TASK_DONE;
        s->files.n_done++;
        m->n_tasks++;
        m->task = 0;
    }
    m->task_req = f->req;
    return 0;
}
