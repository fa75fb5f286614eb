/* SPDX-License-Identifier: Apache-2.0 */
/* client_internal.h - the private part of the client.
 *
 * - client.c: options, declarations, start, end
 * - client_api.c: calls of a step, checked
 * - client_step.c: pulls, pushes, the end of a step
 * - client_geo.c: the same in geo mode
 * - client_link.c: connections, frames that are sent again
 * - client_send.c: requests, answers, waits
 * - client_pass.c: pass, reduction, PS_BYE
 * - client_save.c: save, load
 * - client_copies.c: copies of parts
 * - client_models.c: checkpoints on the servers
 * - client_beat.c: heartbeats
 *
 *     ps_* call --> request(link) --> net_send ----------------> server thread
 *                                \--> ps_shard_frame (local)      |
 *     done(request, answer) <------------------------------------/ */
#pragma once

#include <uv.h>

#include "net/conn.h"
#include "ps/client/client.h"
#include "ps/plan/declaration.h"
#include "ps/plan/layout.h"
#include "ps/plan/message.h"
#include "ps/plan/update_rule.h"
#include "ps/shard/shard.h"
#include "wire/msg.h"

enum { CLIENT_AHEAD = 4, CLIENT_STATS_KEPT = 1024 };

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_OPEN, LINK_DECLARING, LINK_ATTACHED };

/* A frame that may have to be sent again. */
struct sent {
    struct sent *next;
    struct ps_client *c;
    uint64_t id;
    uint16_t type;
    int asks;         /* 1: an answer is expected */
    int kept, in_net; /* kept: for sending again; in_net: number of net_send calls under way. If
                         both are 0, it is free */
    uint32_t n_sec;
    struct net_sec sec[WIRE_SECTIONS];
    uint8_t *mem; /* copy of section 0; without `release`, of all sections */
    size_t cap;
    void (*release)(void *);
    void *release_arg;
};

/* One server thread. */
struct server_link {
    struct ps_client *c;
    struct net_conn *conn;
    enum link_state state;
    uint32_t server, kind,
        thread; /* thread: number among the threads of its kind, over all servers */
    char ip[64];
    int port, retries;
    uint64_t retry_at_ms;
    struct pd_err last;            /* the last reason why the server was not reached */
    uint64_t epoch, applied;       /* epoch 0: it has not answered the declaration yet */
    uint64_t from_step, from_pass; /* for a restarted trainer: earlier steps and passes were done
                                      there and are not sent again */
    struct sent *first_sent, *last_sent; /* kept frames, by id */
    uint32_t n_sent, n_held;             /* held: frames with memory of the caller */
    uint32_t n_asked;                    /* requests without an answer, except pulls */
    uint64_t lost_ms, attached_at_ms;
    int retries_ever;
    int left; /* 1: it has answered PS_BYE */
};

struct server {
    char ip[64];
    int port;
    int greeted;
    struct server_link **links; /* dense threads, then sparse; the first is known from the start */
    uint32_t n_dense, n_sparse, n_links;
    uint64_t pass_memory; /* of the answers to the end of the last pass; 0: not told */
};

struct answer {
    struct server_link *link;
    struct ps_body body;
};

struct pending_request;
typedef int (*done_fn)(struct ps_client *c, struct pending_request *r, const struct answer *a,
                       struct pd_err *err);

struct pending_request {
    uint64_t id; /* 0: free */
    uint16_t type;
    struct server_link *link;
    done_fn done;
    void *arg;
    uint32_t index;
};

/* A key list, split by server thread. */
struct rows {
    struct rows *next; /* list of free ones */
    int refs;
    size_t n, cap, cap_threads;
    uint64_t *keys; /* keys of thread 0, of thread 1, ... each ascending */
    uint32_t *pos;  /* index of keys[j] in the caller's order */
    size_t *begin;  /* [n_threads + 1] */
    uint32_t dim, list;
    float *out;
};

/* Sections that must outlive net_send. */
struct outgoing {
    struct outgoing *next;
    struct ps_client *c;
    struct rows *rows;
    float *data; /* gathered rows */
    size_t cap;
};

struct dense_pull {
    uint32_t id;
    float *out;
};
struct dense_batch {
    int refs;
    size_t n;
    struct dense_pull pull[];
};

/* One of several contributions to the current step. */
struct step_part {
    uint32_t lo, hi;
    double stats[PS_STATS_MAX];
};

struct step_sums {
    uint64_t step, n_samples;
    double v[PS_STATS_MAX];
};

/* Rows that are requested when the step ends, since they cannot be requested before. */
struct pull_later {
    struct pull_later *next;
    int table;
    size_t n;
    float *out;
    uint64_t keys[];
};

struct ps_geo;
struct ps_beat;

struct ps_client {
    struct ps_client_opts opts;
    const struct ps_update_rule *rule;
    struct ps_geo *geo; /* NULL under other rules */
    char job_id[64];
    uint8_t key[WIRE_KEY_BYTES];
    uint64_t incarnation;
    struct ps_declaration decl;
    uint32_t planes; /* ps_declaration_planes, once started */
    struct pd_err err,
        relayed; /* relayed: the error as a server sent it, if it came from a server */
    int started, leaving;
    struct ps_beat *beat;     /* NULL: no heartbeats */
    int connected, declaring; /* connected: all servers were reached once; declaring: links declare
                                 as soon as they are open */

    int has_loop;
    uv_loop_t loop;
    uv_timer_t tick;
    uv_timer_cb on_tick;
    uint64_t ticked_at_ms;
    struct sent *free_sent;
    struct pd_pool *pool;      /* memory of frames */
    struct net_region *region; /* memory of ps_lend, or NULL */
    struct server *servers;
    uint32_t n_servers;
    struct server_link **links, **dense, **sparse; /* all links; dense and sparse links by thread */
    uint32_t n_links, n_dense, n_sparse;
    struct ps_seg *segs;    /* [job.n_dense * n_dense] */
    struct ps_shard *shard; /* local mode */

    struct pending_request *requests;
    size_t n_requests, cap_requests;
    uint64_t next_id;
    uint32_t n_pulls, n_calls,
        n_out; /* outstanding: pulls, other requests that are waited for, buffers in use */
    uint32_t n_pulls_ahead, n_out_ahead; /* how many of these are for the next step */
    struct pd_buf head;                  /* section 0 of the current request */

    uint64_t step, pass, pass_step;
    uint32_t pass_answers;
    struct ps_dropped pass_dropped;
    uint64_t *pass_rows;   /* [n_sparse], sums over the threads; NULL before the first pass ends */
    uint32_t pass_rows_of; /* threads that have told theirs */
    int greeted;           /* 1: a thread has answered the declaration */
    int resumed;           /* 1: this process took the place of a lost one */
    uint64_t
        before_ms[2]; /* resumed: age of the first dense thread's pass; duration of its last pass */
    struct ps_pass_sums before[2]; /* and the sums of its pass and of its last pass */
    uint64_t first_step;           /* resumed: first step of the pass */
    uint32_t n_repeated;           /* resumed: reductions to come that the lost process had done */
    struct step_part *parts; /* [PS_PARTS_MAX] after the first ps_part; n_parts 0: one contribution
                                of all streams */
    uint32_t n_parts;
    size_t n_part_stats;
    struct dense_pull *queued; /* dense pulls that are sent together */
    size_t n_queued, cap_queued;
    struct rows **last; /* [job.n_sparse * 2]: keys of the last two creating pulls of each table,
                           the older first */
    struct pull_later *later;
    uint32_t next_list;
    struct rows *free_rows;
    struct outgoing *free_out;
    struct step_sums *sums; /* ring */
    size_t first_sum, n_sums, n_sums_asked;
    struct {
        double *v; /* the caller's: numbers to add, then their sums */
        size_t n;
        int done;
    } reduction;
    uint64_t task; /* the current file, counted from 1; 0: none */
    struct ps_msg_task_given task_given;
    uint64_t n_saves;
    struct ps_saved last_saved;
    char *last_copied;               /* folder of the last save with copies */
    struct ps_client_saving *saving; /* the model that is being saved; NULL: none */
    struct ps_client_stats stats;
};

/* client_send.c */
/* These set c->err, unless it is set, and tell the servers why. They return its code. */
int client_fail(struct ps_client *c, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int client_fail_with(struct ps_client *c, const struct pd_err *why);
/* The server of the link has failed; the message begins with "pserver IP:PORT". */
int client_link_fail(const struct server_link *l, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A body whose section 0 a ps_put_* function writes to c->head. */
static inline struct ps_body client_body(struct ps_client *c) {
    return (struct ps_body){.head = &c->head};
}
/* Sends a request. Without `release` all sections are copied. With it, section 0 is copied, and the
 * others must live until `release` is called: the server has then taken them. done NULL: no answer
 * is expected. Returns 0 or the client's error. */
int client_request(struct ps_client *c, struct server_link *l, uint16_t type,
                   const struct ps_body *b, done_fn done, void *arg, uint32_t index,
                   void (*release)(void *), void *release_arg);
/* The same without `release`. client_calls_done waits for the answer. */
int client_call(struct ps_client *c, struct server_link *l, uint16_t type, const struct ps_body *b,
                done_fn done, void *arg, uint32_t index);
/* The same, but client_calls_done does not wait for the answer. */
int client_ask(struct ps_client *c, struct server_link *l, uint16_t type, const struct ps_body *b,
               done_fn done, void *arg, uint32_t index);
/* Checks that the client is started and has not failed, and sends queued pulls; 0 or PD_E*. */
int client_ready_for(struct ps_client *c, const char *what);
/* Sends PS_DECLARE on the link's current connection only. */
int client_declare(struct ps_client *c, struct server_link *l, const struct pd_buf *b,
                   done_fn done);
struct pending_request *client_pending(struct ps_client *c, const struct server_link *l,
                                       uint16_t type);
/* BLOCKS until at most n_asked requests of the link have no answer. */
int client_wait_link(struct ps_client *c, struct server_link *l, uint32_t n_asked);
void client_tell_servers(const struct ps_client *c, const struct pd_err *why, int relayed);
void client_on_frame(struct net_conn *conn, struct wire_frame *f, void *arg);
extern const struct ps_shard_ops client_local_ops;
/* Sends the frames that are held back and handles answers that have arrived. */
int client_poll(struct ps_client *c);
int client_receive(struct ps_client *c); /* only handles answers */
/* BLOCKS until ready(c); `what` is for the log. */
int client_wait(struct ps_client *c, int (*ready)(const struct ps_client *c), const char *what);
int client_calls_done(const struct ps_client *c);
int client_done_nothing(struct ps_client *c, struct pending_request *r, const struct answer *a,
                        struct pd_err *err);

/* client_link.c */
struct server_link *client_add_link(struct ps_client *c, uint32_t server, int port);
int client_connect_all(struct ps_client *c); /* BLOCKS until every server thread was reached */
uint64_t client_connect_ms(const struct ps_client *c); /* time for a server to come up */
int ps_link_declare(struct server_link *l);
/* NULL: out of memory. */
struct sent *ps_link_keep(struct server_link *l, uint16_t type, uint64_t id, int asks,
                          const struct net_sec *sec, uint32_t n_sec, void (*release)(void *),
                          void *release_arg);
/* Sends a kept frame now, or when the connection is back. soon: 1: on one machine it may wait for a
 * later frame with soon 0, or for client_flush_links. Returns 0 or PD_ENOMEM. */
int ps_link_send(struct server_link *l, struct sent *s, int soon);
/* Sends all frames that are held back; call before each wait. */
void client_flush_links(struct ps_client *c);
void ps_link_answered(struct server_link *l, uint64_t id);
/* Makes sure that an answer follows every frame that holds memory of the caller. */
int client_ask_taken(struct ps_client *c);
/* Bounds the number of frames that are kept for the link; may BLOCK. */
int client_bound_sent(struct ps_client *c, struct server_link *l);
void client_links_release(struct ps_client *c);

/* client_step.c: the calls of the same name in client.h with checked arguments, by the servers */
int client_pull_dense(struct ps_client *c, int id, float *out);
int client_pull_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys, float *out,
                     enum ps_pull_mode mode);
int client_pull_rows_next(struct ps_client *c, int table, size_t n, const uint64_t *keys,
                          float *out);
float *client_rows_place(void *arg, uint64_t req, size_t floats); /* see ps_shard_ops */
int client_wait_pulls(struct ps_client *c);
int client_push_dense(struct ps_client *c, int id, const float *grad);
int client_push_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys,
                     const float *grad, const uint32_t *seen);
int client_step_end(struct ps_client *c, uint64_t n_samples, const double *stats, size_t n_stats);
/* Keeps the sums for ps_step_stats. */
void client_keep_sums(struct ps_client *c, const struct step_sums *s);
int client_flush(struct ps_client *c); /* sends queued pulls */
void client_step_release(struct ps_client *c);
/* Releases the argument of a pull that gets no answer; nothing for other types. */
void client_forget_pull(struct ps_client *c, uint16_t type, void *arg);

/* client_save.c */
void client_save_release(struct ps_client *c);

/* client_copies.c: copies each file in `folder` to another server. A file of an earlier save is
 * linked there to the one in `older` (NULL: none). `files`, of one server thread, must stay valid.
 */
struct ps_copies;
/* The server for the copy: the next one in the list on another host; if all are on one host, the
 * next server. */
uint32_t client_other_server(const struct ps_client *c, uint32_t server);
struct model_part;
int client_copies_new(struct ps_client *c, struct ps_copies **out, const char *folder,
                      const char *older);
void client_copies_free(struct ps_copies *k);
void client_copies_add(struct ps_client *c, struct ps_copies *k, uint32_t thread, uint32_t server,
                       const struct model_part *files, uint32_t n);
/* Sends the next requests; 1: some copies are not complete. */
int client_copies_go_on(struct ps_client *c, struct ps_copies *k);
int client_copies_wait(const struct ps_copies *k); /* 1: it only waits for answers */

/* client_geo.c: the same calls in geo mode */
struct ps_geo *geo_new(uint32_t push_nums);
int geo_start(struct ps_client *c);
void geo_free(struct ps_client *c);
int geo_pull_dense(struct ps_client *c, int id, float *out);
int geo_pull_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys, float *out,
                  enum ps_pull_mode mode);
int geo_complete(struct ps_client *c);
int geo_push_dense(struct ps_client *c, int id, const float *grad);
int geo_push_rows(struct ps_client *c, int table, size_t n, const uint64_t *keys,
                  const float *grad);
int geo_step_end(struct ps_client *c, uint64_t n_samples, const double *stats, size_t n_stats);
/* Exchanges the remaining changes; call before the barrier of the pass. */
int geo_pass_end(struct ps_client *c);
/* Call when the servers' values have changed: after a pass or a load. */
void geo_forget(struct ps_client *c);
uint64_t geo_steps(const struct ps_client *c);
/* Steps between the exchanges `first` and `end`. */
uint64_t geo_steps_in(const struct ps_client *c, uint64_t first, uint64_t end);
