/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - the state of one server thread: its dense segments, its parts of the tables, and the
 * barrier. It has no sockets: frames go in, and callbacks take the answers. The server thread, the
 * client's local mode and the fuzzer call it alike.
 *
 *     DECLARE          from every trainer (ps_shard_frame): the trainer becomes a member
 *     PUSH, STEP_END   contribution of a member to its step; frames are kept, not copied
 *                      all members of the pass have ended step s: reduce in the fixed tree, apply
 *                      once, s + 1, answer the pulls
 *     PASS_END         the member leaves the barrier until all have left; then all are in again
 *
 * This is the synchronous rule. Under other rules (update_rule.h) a contribution is applied when
 * its STEP_END arrives.
 *
 * A push is identified by (epoch, the trainer's incarnation, streams, step, part); a part is a
 * parameter or a table. A repeated push, or a push of a step that has ended, is dropped and
 * counted. Any other invalid frame is an error: the caller answers with the error, closes the
 * connection and calls ps_shard_gone.
 *
 * A member whose connection breaks stays a member (ps_shard_detach). The trainer declares again on
 * another connection and gets the id of its last request that was taken. Then it repeats the
 * requests without an answer. The id of a repeated request is not above that id. Such a request is
 * not done again: it is answered from the kept answers. Only pulls are done again.
 *
 * enum ps_lost, set by the option on_trainer_lost, says what happens when a member is gone for
 * good. */
#pragma once

#include <sys/uio.h>

#include "net/shm/region.h"
#include "ps/plan/declaration.h"
#include "thread/workers.h"
#include "wire/frame.h"

struct ps_shard;
struct ps_saving;
struct model_part;

/* ps_shard_frame, ps_shard_gone and ps_shard_fail call these functions. They must not call back
 * into the shard. */
struct ps_shard_ops {
    /* The sections stay valid until `release` is called. `release` NULL: they are valid only during
     * the call. */
    void (*answer)(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                   const struct iovec *sec, uint32_t n_sec, void (*release)(void *),
                   void *release_arg);
    void (*fail)(void *arg, uint32_t trainer, uint16_t type, uint64_t req,
                 const struct pd_err *why);
    /* Starts to write a part: ps_saving_image in a forked child, then ps_saving_rest in another
     * thread, then ps_shard_saved in the shard's thread. Returns 0 or PD_E*. NULL: the shard writes
     * the part at once. */
    int (*save)(void *arg, struct ps_saving *j, struct pd_err *err);
    /* Returns 1 while the trainer reads its answers too slowly. Its pulls then wait until
     * ps_shard_drained. NULL: never. */
    int (*congested)(void *arg, uint32_t trainer);
    /* For a trainer in this process: returns where the rows of this pull go, `floats` floats. The
     * answer then points there. If `place` or its result is NULL, the rows go to memory of the
     * shard. */
    float *(*place)(void *arg, uint64_t req, size_t floats);
};

/* The first half of writing a part, with the shard's memory as it is now. It neither allocates nor
 * frees memory, so a forked child may call it. A part without tables is then written, and *part is
 * set. */
int ps_saving_image(const struct ps_saving *j, struct model_part *part, struct pd_err *err);
/* The second half, in any thread of the shard's process while the shard continues. Writes a part
 * with tables and sets *part. */
int ps_saving_rest(struct ps_saving *j, struct model_part *part, struct pd_err *err);
/* From any thread: makes the second half end soon with PD_EFAIL. */
void ps_saving_stop(struct ps_saving *j);
int ps_saving_fd(const struct ps_saving *j); /* the file that is written */

/* The reaction to the loss of a member for good; the option's names are in this order. */
enum ps_lost {
    PS_LOST_FAIL, /* the shard fails: all waiting requests and all later frames are answered with
                     the reason */
    PS_LOST_WAIT, /* all members wait for a restarted process, which takes the lost one's place at
                     its current step */
    PS_LOST_CONTINUE, /* the member's streams leave the barrier; its contributions to the step that
                         it had not ended are dropped */
};

/* The folders in which trainers may let a server read and write: lists that end with NULL. Each is
 * named as a trainer names it: relative to the working folder, or absolute. */
struct ps_folders {
    const char *const *write; /* and read */
    const char *const *read;
};

struct ps_shard_opts {
    enum ps_lost on_lost;
    uint32_t kind;          /* enum ps_kind */
    uint32_t n_trainers;    /* number of trainers in the job */
    uint64_t epoch;         /* identifies this start of the server */
    const char *output_dir; /* path of the folder "output" on this node, for saves and loads; NULL:
                               paths are used as given */
    const struct ps_folders *folders; /* NULL: all, for a server in the trainer's own process */
    const struct pd_log *log;
    struct pd_pool *pool; /* memory of answers; must outlive the shard; may be NULL */
    int lends; /* 1: the values lie in memory that trainers of this machine map (ps_shard_region) */
    struct pd_workers crew; /* threads that update large dense parameters; the results have the same
                               bits without them */
};

int ps_shard_new(struct ps_shard **out, const struct ps_shard_opts *opts,
                 const struct ps_shard_ops *ops, void *arg);
void ps_shard_free(struct ps_shard *s); /* call after every `release` */
/* The memory from which answers are lent, for the connections; NULL before a trainer has declared,
 * or if nothing is lent. The shard owns it. */
const struct net_region *ps_shard_region(const struct ps_shard *s);

/* Handles a frame, and takes it in any case. A trainer's first frame must be PS_DECLARE. `addr` is
 * for messages. Returns 0 or PD_E*. */
int ps_shard_frame(struct ps_shard *s, uint32_t trainer, const char *addr, struct wire_frame *f,
                   struct pd_err *err);

/* For a trainer in this process: the values of dense parameter `id`, or NULL if this shard does not
 * have all of them. The shard owns them: a load moves them, and a step changes them. */
const float *ps_shard_dense(const struct ps_shard *s, uint32_t id);

/* For a trainer in this process: copies its pushes to the step that it has not ended, so that it
 * may reuse its memory. Returns 0 or PD_ENOMEM. */
int ps_shard_copy_pushes(struct ps_shard *s);

/* Ends a save that ops.save began. `part` is the written part, or NULL with `why`. Frees j. */
void ps_shard_saved(struct ps_shard *s, struct ps_saving *j, const struct model_part *part,
                    const struct pd_err *why);
void ps_shard_drained(struct ps_shard *s); /* call when a member is no longer congested */

/* Call when a member's connection is closed. Returns 1 if the member may come back, 0 if it has
 * left. */
int ps_shard_detach(struct ps_shard *s, uint32_t trainer);

/* Call when a member is gone for good. Returns an error with the reason if this ends the job.
 * Returns 0 if the member had sent PS_BYE or the job continues. */
int ps_shard_gone(struct ps_shard *s, uint32_t trainer, const struct pd_err *why,
                  struct pd_err *err);
void ps_shard_fail(struct ps_shard *s, const struct pd_err *why);
/* The error is this trainer's, unless err->from names another process. `addr` may end in ":PORT".
 */
void ps_err_from_trainer(struct pd_err *err, uint32_t trainer, const char *addr);
int ps_shard_has_failed(const struct ps_shard *s);

/* 1: this process of the trainer must not come back. */
int ps_shard_has_lost(const struct ps_shard *s, uint32_t trainer);
int ps_shard_all_left(const struct ps_shard *s); /* 1: every trainer has sent PS_BYE or is lost */
/* 1: every trainer has also received the answer to its PS_BYE, or is lost. */
int ps_shard_all_known(const struct ps_shard *s);

/* Returns the number of trainers that have never declared. `text` gets the first of them, like
 * "trainer 1, 3, 4 and 7 more"; it may be NULL. */
uint32_t ps_shard_absent(const struct ps_shard *s, char *text, size_t cap);
/* Returns 1 and a text like "waiting for trainer 2 (streams 2-2) in step 17" if trainers wait for
 * others; else 0. */
int ps_shard_waiting(const struct ps_shard *s, char *text, size_t cap);

struct ps_shard_stats {
    uint64_t progress; /* changes whenever a waiting request is answered */
    uint64_t steps, duplicates, stale, lagged, rows;
    uint64_t repeated; /* requests that were sent again after a lost connection */
    uint64_t waiting;  /* requests that wait for a step, now */
};
void ps_shard_stats(const struct ps_shard *s, struct ps_shard_stats *out);
/* The name of table i and its rows in this shard; NULL: there are fewer tables. The shard owns the
 * name. */
const char *ps_shard_table(const struct ps_shard *s, uint32_t i, uint64_t *rows);
