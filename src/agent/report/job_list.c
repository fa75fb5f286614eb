/* SPDX-License-Identifier: Apache-2.0 */
/* job_list.c - see job_list.h. */
#include "agent/report/job_list.h"

#include "agent/report/job_turn.h"
#include "wire/client_bodies.h"
#include "wire/msg.h"

static int on_list(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err) {
    struct ag_list m;
    if (wire_get(&wire_ag_list, &m, body, err))
        return err->code;
    int orphans = 0;
    json_t *jobs = status_list(client_core(c)->paths.root, (int)m.progress, &orphans);
    json_t *others = m.others ? job_turn_jobs() : NULL;
    const int rc = client_answer(
        c, f,
        wire_put(&wire_ag_list_answer, &(struct ag_list_answer){.jobs = jobs, .others = others}),
        err);
    json_decref(jobs);
    json_decref(others);
    return rc;
}

static int on_status(struct client *c, const struct wire_frame *f, const json_t *body,
                     struct pd_err *err) {
    const struct status_source *from = client_context(c, &job_list_service);
    struct status_now now = {.clients = client_others(c)};
    (void)body;
    from->now(from->arg, &now);
    return client_answer(c, f, status_full(client_core(c), &now), err);
}

static const struct client_request requests[] = {
    {WIRE_AG_LIST, 0, 1, on_list, NULL},
    {WIRE_AG_STATUS, 1, 0, on_status, NULL},
    {0},
};

const struct client_service job_list_service = {.name = "list", .requests = requests};
