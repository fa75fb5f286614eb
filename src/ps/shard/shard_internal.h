/* SPDX-License-Identifier: Apache-2.0 */
/* shard_internal.h - the private part of a shard. A shard has four parts, with messages around
 * them:
 *
 *     barrier.h   members and steps           params.h    parameters of the thread, scratch
 *     saves       parts of models that are written         files   files of the pass (data = queue)
 *
 *     shard.c         declaration, pass, reduction, dispatch     shard_step.c    contributions
 *     shard_apply.c   steps that are complete                    shard_pull.c    answers to pulls
 *     shard_member.c  members that are lost or come back         shard_replay.c  repeated requests
 *     shard_save.c, shard_part.c, delta_files.c, shard_load.c, shard_models.c    models
 *     file_queue.c    files that are handed out */
#pragma once

#include "model/model.h"
#include "ps/plan/message.h"
#include "ps/shard/barrier.h"
#include "ps/shard/params.h"
#include "ps/shard/shard.h"
#include "wire/msg.h"

enum { SHARD_WAITING = 1024 /* waiting requests of a member */ };

/* The files on which the next delta save can build: the file of all rows, and the delta files above
 * it. */
struct delta_files {
    char *folder; /* folder of the last file, with links to the others; NULL: there is no base */
    int full;     /* 1: with the optimizer's state */
    struct delta_layer {
        struct model_part part;
        uint64_t dev, ino;
    } * layer; /* [n], the lowest first */
    uint32_t n;
    const struct ps_saving *latest; /* the save whose snapshot began the current tracking of rows */
};

/* Parts of models that are being written. */
struct saves {
    struct ps_saving *under_way;
    struct delta_files delta;
    char *staged; /* folder of a save that is not committed; removed when the shard ends */
};

struct ps_shard {
    struct ps_shard_opts opts;
    struct ps_shard_ops ops;
    void *arg;
    struct ps_params params;
    struct barrier barrier;
    struct saves saves;

    struct {                      /* data = queue: the files of the pass; see file_queue.c */
        uint32_t *owner;          /* [n], state of each file; NULL: no request in this pass yet */
        uint64_t n, next, n_done; /* next: all files before it were handed out */
        uint64_t n_left;          /* files that were never handed out */
        uint64_t n_back, n_again; /* files returned and not handed out since; all returned files */
    } files;

    struct pd_buf head; /* section 0 of the current answer; at least ANSWER_ROOM bytes */
    struct pd_err failed;
    struct ps_shard_stats stats;
};

/* A body whose section 0 a ps_put_* function writes to s->head. */
static inline struct ps_body shard_body(struct ps_shard *s) {
    return (struct ps_body){.head = &s->head};
}
int shard_answer(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                 const struct ps_body *b, struct pd_err *err);

/* Does and answers all that is complete: steps, reductions, passes, waiting requests. */
int shard_advance(struct ps_shard *s, struct pd_err *err);

/* Handlers get the frame by reference. A handler that keeps the frame sets *f to NULL. */

/* shard_member.c */
/* Returns 1 if this is a known trainer on another connection, or another process in its place; the
 * trainer is then a member as before. Returns 0 if it is not, and an error if it must not come
 * back. */
int shard_comes_back(struct ps_shard *s, uint32_t trainer, const char *addr,
                     const struct ps_declare_sender *d, const struct ps_declaration *job,
                     struct pd_err *err);
void shard_keep_reduced(struct ps_shard *s, const double *sum, uint32_t n);
int shard_reduce_again(struct ps_shard *s, uint32_t trainer, uint32_t n, uint64_t req,
                       struct pd_err *err);
void shard_forget_reduced(struct ps_shard *s);

/* shard_replay.c */
/* Handles a repeated request, whose id is not above the last id taken. */
int shard_repeated(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err);
/* Sends an answer of section 0 alone, and keeps it for a repeated request. Returns 0, or PD_ENOMEM
 * if the body could not be built. */
int shard_answer_kept(struct ps_shard *s, uint32_t trainer, uint16_t type, uint64_t req,
                      const struct ps_body *b);
/* Drops waiting pulls: the trainer will send them again. */
void shard_forget_pulls(struct ps_shard *s, uint32_t trainer);
void shard_forget_waiting(struct ps_shard *s, uint32_t trainer); /* drops all waiting requests */

/* shard_step.c */
int shard_member_init(struct ps_shard *s, struct shard_member *m);
void shard_member_release(struct ps_shard *s, struct shard_member *m);
int shard_push_dense(struct ps_shard *s, uint32_t trainer, struct wire_frame **f,
                     struct pd_err *err);
int shard_push_rows(struct ps_shard *s, uint32_t trainer, struct wire_frame **f,
                    struct pd_err *err);
int shard_step_end(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err);
/* Checks that the table exists and that the keys are sorted, unique and of this thread. `what`: the
 * message's name. Returns 0 or PD_EPROTO. */
int shard_keys(const struct ps_shard *s, const char *what, uint32_t table, uint64_t n,
               const uint64_t *keys, size_t n_keys, struct pd_err *err);
/* Returns the key list with that number, or NULL: not known, or no longer known. */
struct known_list *shard_known(struct shard_member *m, uint32_t table, uint32_t id);
void shard_step_clear(struct ps_shard *s, struct member_step *p);

/* shard_apply.c */
/* Applies step barrier.step, which is complete. */
int shard_apply(struct ps_shard *s, struct pd_err *err);
/* Without a barrier: applies this member's step m->step. */
int shard_apply_one(struct ps_shard *s, struct shard_member *m, struct pd_err *err);

/* shard_pull.c */
/* Handles pulls, and other requests that wait for a step: save, commit, load, end of a day. */
int shard_pull(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err);
void shard_answer_waiting(struct ps_shard *s);

/* file_queue.c */
int shard_queue_request(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                        struct pd_err *err);
/* Returns its file and drops its request. */
void shard_queue_give_back(struct ps_shard *s, uint32_t trainer);
void shard_queue_hand_out(struct ps_shard *s);
void shard_queue_end_pass(struct ps_shard *s); /* call at the end of a pass */
void shard_queue_release(struct ps_shard *s);

/* shard_save.c; shard_save answers when the part is written */
int shard_save(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
               struct pd_err *err);
int shard_is_saving(const struct ps_shard *s, uint32_t trainer, uint64_t req);
void shard_savings_release(struct ps_shard *s);
int shard_commit(struct ps_shard *s, const struct wire_frame *f, struct pd_err *err);
int shard_note(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
               struct pd_err *err);
void shard_part_name(const struct ps_shard *s, char file[MODEL_FILE_MAX + 1]);

/* delta_files.c */
/* The next save writes all rows, and changes are no longer tracked. */
void shard_delta_drop(struct ps_shard *s);
/* 1: a delta save writes only the changed rows of this table. */
int shard_delta_changes(const struct ps_shard *s, uint32_t id);
/* Links the files on which a delta save builds into `folder`. Returns 1, or 0: the save must be a
 * base. */
int shard_delta_go_on(struct ps_shard *s, const char *folder, int full);
/* Sets the n layers on which the next delta save builds and their final folder. Takes both. */
void shard_delta_set(struct ps_shard *s, char *folder, int full, struct delta_layer *layer,
                     uint32_t n);

/* shard_models.c */
int shard_models(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                 struct pd_err *err);
int shard_is_about_models(uint16_t type);

/* shard_load.c */
int shard_day_end(struct ps_shard *s, const struct wire_frame *f, struct ps_body *answer,
                  struct pd_err *err);
int shard_load(struct ps_shard *s, const struct wire_frame *f, struct ps_body *answer,
               struct pd_err *err);

/* shard_folder.c */
enum shard_access { SHARD_READS, SHARD_WRITES };
/* Sets `out` to the path on this node of the folder `name` that a trainer sent. Returns 0, PD_EIO,
 * or PD_ECONF: the job has no such folder. */
int shard_folder(const struct ps_shard *s, enum shard_access access, const char *name,
                 char out[PATH_MAX], struct pd_err *err);
