/* shard.h - what one server thread is: its dense segments, its parts of the tables, and the
 * barrier. No sockets here: frames go in, answers come out through callbacks; the server thread,
 * the client's local mode and the fuzzer call it alike.
 *
 *     DECLARE          from every trainer (ps_shard_frame): the trainer becomes a member
 *     PUSH, STEP_END   contribution of a member to its step; frames are kept, not copied
 *                      all members of the pass have ended step s: reduce in the fixed tree, apply
 *                      once, s + 1, answer the pulls
 *     PASS_END         the member leaves the barrier until all have left; then all are in again
 *
 * That is the synchronous rule; under the others (update_rule.h) a contribution is applied when its
 * STEP_END comes.
 *
 * A push is identified by (epoch, the trainer's incarnation, streams, step, part); a part is a
 * parameter or a table. A repeated push, or a push of a step that has ended, is dropped and
 * counted. Any other invalid frame is an error: the caller answers with the error, closes the
 * connection and calls ps_shard_gone.
 *
 * A member whose connection breaks stays a member (ps_shard_detach): the trainer declares again on
 * another connection, is told the id of its last request that was taken, and repeats the requests
 * without an answer. The id of a repeated request is not above that id. Such a request is not done
 * again: it is answered from the kept answers. Only pulls are done again.
 *
 * A member that is gone for good: enum ps_lost, chosen with the option on_trainer_lost.
 */
#ifndef PD_PS_SHARD_H
#define PD_PS_SHARD_H

#include <sys/uio.h>

#include "base/err.h"
#include "base/log.h"
#include "net/shm/region.h"
#include "ps/plan/declaration.h"
#include "thread/workers.h"
#include "wire/frame.h"

struct ps_shard;
struct ps_saving;
struct model_part;

/* Called from inside ps_shard_frame, ps_shard_gone and ps_shard_fail; they must not call back into
 * the shard. */
struct ps_shard_ops {
    /* `release` says when the sections are free again; NULL: they are only valid during the call.
     */
    void (*answer)(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                   const struct iovec *sec, uint32_t n_sec, void (*release)(void *),
                   void *release_arg);
    void (*fail)(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                 const struct pd_err *why);
    /* A part is to be written: ps_saving_image in a child of fork, ps_saving_rest in another
     * thread, then ps_shard_saved here. Or PD_E*. NULL: at once, by the shard. */
    int (*save)(void *arg, struct ps_saving *j, struct pd_err *err);
    /* Does it read its answers too slowly to be given more now? Its pulls then wait until
     * ps_shard_drained. NULL: never. */
    int (*congested)(void *arg, uint32_t trainer);
    /* Where the rows of this pull go, floats in all, when the trainer is in this process; the
     * answer then points there. NULL, or NULL from it: into memory of the shard. */
    float *(*place)(void *arg, uint64_t req, size_t floats);
};

/* The first half of writing a part: with the shard's memory as it is now. Takes and frees none, so
 * that a child of fork may do it. A part without tables is then written, and *part is set. */
int ps_saving_image(const struct ps_saving *j, struct model_part *part, struct pd_err *err);
/* The second half, in any thread of the shard's process while the shard goes on: a part with tables
 * is written, and *part is set. */
int ps_saving_rest(struct ps_saving *j, struct model_part *part, struct pd_err *err);
void ps_saving_stop(
    struct ps_saving *j); /* from any thread: the second half ends soon, with PD_EFAIL */
int ps_saving_fd(const struct ps_saving *j); /* the file's */

/* What a member that is gone means; the names of the option in this order. */
enum ps_lost {
    PS_LOST_FAIL, /* the shard fails: all who wait are answered with that reason, and so is every
                     later frame */
    PS_LOST_WAIT, /* all wait until it is started again; another process then takes its place, at
                     the step that it was at */
    PS_LOST_CONTINUE, /* its streams leave the barrier; what it had given to a step that it had not
                         ended is dropped */
};

struct ps_shard_opts {
    enum ps_lost on_lost;
    uint32_t kind;          /* enum ps_kind */
    uint32_t n_trainers;    /* that will come */
    uint64_t epoch;         /* of the barrier: this start of the server */
    const char *output_dir; /* where the folder "output" of a save or load really is, on this node;
                               NULL: as it says */
    const struct pd_log *log;
    struct pd_pool *pool;   /* memory of answers; outlives the shard; may be NULL */
    int lends;              /* to trainers of this machine: its values are in memory that they map
                               (ps_shard_region) */
    struct pd_workers crew; /* updates large dense parameters; changes no bit of them */
};

int ps_shard_new(struct ps_shard **out, const struct ps_shard_opts *opts,
                 const struct ps_shard_ops *ops, void *arg);
void ps_shard_free(struct ps_shard *s); /* every `release` must have been called */
/* For the connections: what answers are lent from, once a trainer has declared; NULL: nothing. It
 * goes with the shard. */
const struct net_region *ps_shard_region(const struct ps_shard *s);

/* Takes the frame, whatever it returns. The first one of a trainer must be PS_DECLARE; `addr` is
 * for messages. */
int ps_shard_frame(struct ps_shard *s, uint32_t trainer, const char *addr, struct wire_frame *f,
                   struct pd_err *err);

/* Of a trainer in this process: the values of dense parameter `id`, all of which must be here. They
 * are the shard's: another place after a load, other values after a step. */
const float *ps_shard_dense(const struct ps_shard *s, uint32_t id);

/* Of a trainer in this process: what it has pushed to a step that it has not ended is copied, so
 * that its memory is its own again. 0 or PD_ENOMEM. */
int ps_shard_copy_pushes(struct ps_shard *s);

/* The end of what ops.save began: the part, or NULL and why not. Frees j. */
void ps_shard_saved(struct ps_shard *s, struct ps_saving *j, const struct model_part *part,
                    const struct pd_err *why);
void ps_shard_drained(struct ps_shard *s); /* a member that was congested is not any more */

/* A member's connection is closed. 1: it may come back; 0: it has left. */
int ps_shard_detach(struct ps_shard *s, uint32_t trainer);

/* A member is gone for good. Returns an error and the reason when that ends the job; 0: it had said
 * PS_BYE, or the job goes on. */
int ps_shard_gone(struct ps_shard *s, uint32_t trainer, const struct pd_err *why,
                  struct pd_err *err);
void ps_shard_fail(struct ps_shard *s, const struct pd_err *why);
int ps_shard_has_failed(const struct ps_shard *s);

int ps_shard_has_lost(const struct ps_shard *s,
                      uint32_t trainer);          /* this process of it may not come back */
int ps_shard_all_left(const struct ps_shard *s);  /* every trainer has said PS_BYE, or is lost */
int ps_shard_all_known(const struct ps_shard *s); /* and has the answer to it */

/* How many trainers have never declared, and the first of them: "trainer 1, 3, 4 and 7 more".
 * `text` may be NULL. */
uint32_t ps_shard_absent(const struct ps_shard *s, char *text, size_t cap);
/* Who keeps whom waiting: 1 and "waiting for trainer 2 (streams 2-2) in step 17", or 0. */
int ps_shard_waiting(const struct ps_shard *s, char *text, size_t cap);

struct ps_shard_stats {
    uint64_t progress; /* changes whenever a wait of somebody ends */
    uint64_t steps, duplicates, stale, lagged, rows;
    uint64_t repeated; /* requests that came a second time and were answered again */
};
void ps_shard_stats(const struct ps_shard *s, struct ps_shard_stats *out);

#endif
