/* SPDX-License-Identifier: Apache-2.0 */
/* job_files.c - between the data files of a job (agent/files) and its head and nodes. */
#include "agent/job_internal.h"
#include "wire/msg.h"

enum { FEW_MS = 1000 };

static void answer_file(struct ag_job *j, int node, const struct wire_frame *f) {
    struct pd_err err = {0};
    struct object_id id;
    json_t *body;
    int rc = j->data ? file_on_asked(j->data, node, f, &body, &id, &err) : 1;
    if (!rc)
        peer_link_send_with(j->link, node, f->type, f->req, body, id.b, OBJECT_ID);
    else if (rc < 0)
        peer_link_refuse(j->link, node, f->type, f->req, &err);
}

int ag_job_file_message(struct ag_job *j, int node, const struct wire_frame *f, const json_t *body,
                        const struct pd_err *refused) {
    if (f->type != WIRE_HD_FILE && f->type != WIRE_HD_FILE_HERE && f->type != WIRE_HD_FILE_COPY)
        return 0;
    if (node != PEER_HEAD)
        answer_file(j, node, f);
    else if (j->data && f->type == WIRE_HD_FILE)
        file_on_holders(j->data, f, body, refused);
    else if (j->data && f->type == WIRE_HD_FILE_COPY && !refused)
        file_on_copy(j->data, f);
    return 1;
}

/* --- the file service asks the head and the job --- */

static void ask_head(void *arg, uint16_t type, uint64_t req, const void *p, size_t n) {
    peer_link_send_with(((struct ag_job *)arg)->link, PEER_HEAD, type, req, json_object(), p, n);
}

static int is_head(void *arg) { return ag_job_is_head(arg); }
static int is_joined(void *arg) { return peer_link_is_joined(((struct ag_job *)arg)->link); }

static json_t *peer_of(void *arg, int node) {
    const struct ag_job *j = arg;
    struct job_peer peer;
    if (!j->head || wire_get(&wire_job_peer, &peer, json_array_get(j->peers, (size_t)node), NULL))
        return NULL;
    json_t *addrs = head_addrs(j->head, node);
    json_t *o =
        wire_put(&wire_file_holder, &(struct file_holder){.node = node,
                                                          .name = peer.name,
                                                          .addrs = addrs,
                                                          .port = peer.port,
                                                          .lost = !head_has(j->head, node)});
    json_decref(addrs);
    return o;
}

static const json_t *lost_nodes(void *arg) {
    const struct ag_job *j = arg;
    return j->head ? head_lost_nodes(j->head) : NULL;
}

static int is_here(void *arg, int node) {
    const struct ag_job *j = arg;
    return j->head && head_has(j->head, node);
}

static void ask_copy(void *arg, int node, const char *path) {
    peer_link_send_with(((struct ag_job *)arg)->link, node, WIRE_HD_FILE_COPY, 0, json_object(),
                        path, strlen(path));
}

static void few_changed(void *arg) { ((struct ag_job *)arg)->few_due = 1; }

const struct file_fetch_io ag_job_file_io = {ask_head,   is_joined, is_head,  peer_of,
                                             lost_nodes, is_here,   ask_copy, few_changed};

/* --- files with fewer copies than asked --- */

struct file_few ag_job_few(const struct ag_job *j) {
    return file_few_copies(j ? j->data : NULL);
}

void ag_job_few_tick(struct ag_job *j) {
    const int any = ag_job_few(j).files > 0;
    const uint64_t now = pd_mono_ns();
    if (!j->few_due || (any && now - j->few_ns < FEW_MS * UINT64_C(1000000)) || !j->head)
        return;
    j->few_due = 0;
    j->few_ns = now;
    ag_job_save_state(j);
    if (any != j->few_told && !j->result)
        head_tell_state(j->head);
    j->few_told = any;
}
