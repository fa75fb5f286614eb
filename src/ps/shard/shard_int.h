/* shard_int.h - the shard's inside. A shard has four parts, and messages around them:
 *
 *     barrier.h   who waits for whom          params.h    what the thread holds, and its scratch
 *     saves       parts of models that are written         tasks   files of the pass (data = queue)
 *
 *     shard.c         declaration, pass, reduction, dispatch     shard_step.c    contributions
 *     shard_apply.c   steps that are complete                    shard_pull.c    answers to pulls
 *     shard_member.c  members that are lost or come back         shard_replay.c   what comes twice
 *     shard_save.c, shard_part.c, delta_files.c, shard_load.c, shard_models.c    models
 *     file_queue.c    files that are handed out
 */
#ifndef PD_PS_SHARD_INT_H
#define PD_PS_SHARD_INT_H

#include <limits.h>

#include "base/buf.h"
#include "model/model.h"
#include "ps/plan/message.h"
#include "ps/shard/barrier.h"
#include "ps/shard/params.h"
#include "ps/shard/shard.h"
#include "wire/msg.h"

enum { SHARD_WAITING = 1024 /* requests of a member */ };

/* The files on which the next save of changes can build: the file of all rows, and the files of
 * changes above it. */
struct delta_files {
    char *folder; /* of the last one, which links to the files of the others; NULL: none */
    int full;     /* with the optimizer's state */
    struct delta_layer {
        struct model_part part;
        uint64_t dev, ino;
    } * layer; /* [n], the lowest first */
    uint32_t n;
    const struct ps_saving *latest; /* rows are watched since its cut */
};

/* Parts of models on their way to the disk. */
struct saves {
    struct ps_saving *under_way;
    struct delta_files delta;
    char *staged; /* folder of a save that is not committed: removed when the shard ends */
};

struct ps_shard {
    struct ps_shard_opts opts;
    struct ps_shard_ops ops;
    void *arg;
    struct ps_params params;
    struct barrier barrier;
    struct saves saves;

    struct {                      /* data = queue: the files of the pass; see file_queue.c */
        uint32_t *owner;          /* [n] NULL: nobody has asked */
        uint64_t n, next, n_done; /* next: none before it is left; */
        uint64_t n_left;          /* that have never been handed out */
        uint64_t n_back, n_again; /* given back: not handed out since; in all */
    } files;

    struct pd_buf head; /* section 0 of the answer being made; ANSWER_ROOM bytes are always there */
    struct pd_err failed;
    struct ps_shard_stats stats;
};

/* For ps_put_*: section 0 is written to s->head. */
static inline struct ps_body shard_body(struct ps_shard *s) {
    return (struct ps_body){.head = &s->head};
}
int shard_answer(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                 const struct ps_body *b, struct pd_err *err);

int shard_advance(struct ps_shard *s,
                  struct pd_err *err); /* whatever is complete happens, and is answered */

/* Handlers get the frame by reference: one that keeps it sets *f to NULL. */

/* shard_member.c */
/* Is this the same trainer on another connection, or in another process in its place? It then is a
 * member as before. 1, 0, or an error: it takes itself for one. */
int shard_comes_back(struct ps_shard *s, uint32_t trainer, const char *addr,
                     const struct ps_declare_sender *d, const struct ps_declaration *job,
                     struct pd_err *err);
void shard_keep_reduced(struct ps_shard *s, const double *sum, uint32_t n);
int shard_reduce_again(struct ps_shard *s, uint32_t trainer, uint32_t n, uint64_t req,
                       struct pd_err *err);
void shard_forget_reduced(struct ps_shard *s);

/* shard_replay.c */
int shard_repeated(struct ps_shard *s, uint32_t trainer, struct wire_frame **f,
                   struct pd_err *err); /* its id is not above the last */
/* Of section 0 alone; kept until it is known to have arrived. Without memory for the body:
 * PD_ENOMEM. */
int shard_answer_kept(struct ps_shard *s, uint32_t trainer, uint16_t type, uint64_t req,
                      const struct ps_body *b);
void shard_forget_pulls(struct ps_shard *s, uint32_t trainer); /* that wait: it will ask again */
void shard_forget_waiting(struct ps_shard *s,
                          uint32_t trainer); /* and all else that waits: nobody will ask */

/* shard_step.c */
int shard_member_init(struct ps_shard *s, struct shard_member *m);
void shard_member_release(struct ps_shard *s, struct shard_member *m);
int shard_push_dense(struct ps_shard *s, uint32_t trainer, struct wire_frame **f,
                     struct pd_err *err);
int shard_push_rows(struct ps_shard *s, uint32_t trainer, struct wire_frame **f,
                    struct pd_err *err);
int shard_step_end(struct ps_shard *s, uint32_t trainer, struct wire_frame **f, struct pd_err *err);
/* Table known, keys sorted, unique and ours. */
int shard_keys(const struct ps_shard *s, const char *what, uint32_t table, uint64_t n,
               const uint64_t *keys, size_t n_keys, struct pd_err *err);
/* The key list of that number; NULL: it is not known (any more). */
struct known_list *shard_known(struct shard_member *m, uint32_t table, uint32_t id);
void shard_step_clear(struct ps_shard *s, struct member_step *p);

/* shard_apply.c */
int shard_apply(struct ps_shard *s, struct pd_err *err); /* step barrier.step is complete */
/* Without a barrier: this member's step m->step is. */
int shard_apply_one(struct ps_shard *s, struct shard_member *m, struct pd_err *err);

/* shard_pull.c */
int shard_pull(struct ps_shard *s, uint32_t trainer, struct wire_frame **f,
               struct pd_err *err); /* save and load too */
void shard_answer_waiting(struct ps_shard *s);

/* file_queue.c */
int shard_queue_request(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
                        struct pd_err *err);
void shard_queue_give_back(struct ps_shard *s,
                           uint32_t trainer); /* what it holds, and its request */
void shard_queue_hand_out(struct ps_shard *s);
void shard_queue_end_pass(struct ps_shard *s); /* the pass is */
void shard_queue_release(struct ps_shard *s);

/* shard_save.c: answered by itself, when the part is written */
int shard_save(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
               struct pd_err *err);
int shard_is_saving(const struct ps_shard *s, uint32_t trainer, uint64_t req);
void shard_savings_release(struct ps_shard *s);
int shard_commit(struct ps_shard *s, const struct wire_frame *f, struct pd_err *err);
int shard_note(struct ps_shard *s, uint32_t trainer, const struct wire_frame *f,
               struct pd_err *err);
void shard_part_name(const struct ps_shard *s, char file[MODEL_FILE_MAX + 1]);

/* delta_files.c */
void shard_delta_drop(struct ps_shard *s); /* the next save has all rows; rows are not watched */
int shard_delta_changes(const struct ps_shard *s,
                        uint32_t id); /* of this table the changed rows are enough */
/* 1: the files that a save of changes lies on are in `folder` now; 0: it has to be a base. */
int shard_delta_go_on(struct ps_shard *s, const char *folder, int full);
/* The n layers are what the next save may lie on, and will be in `folder`; takes both. */
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
/* Where the folder that a trainer names is on this node. `name` may be changed. */
int shard_folder(const struct ps_shard *s, char name[PATH_MAX], char out[PATH_MAX],
                 struct pd_err *err);

#endif
