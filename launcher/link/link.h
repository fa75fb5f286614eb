/* SPDX-License-Identifier: Apache-2.0 */
/* link.h - the connection to one node's agent: a transport (ssh with its bootstrap, or a child
 * process) below, frames and requests above.
 *
 *     link_open --> on_hello --> on_frame ... --> on_close
 *                      ^            |
 *                      └─ on_lost <─┘                 a link that is kept
 *
 * on_close comes exactly once, and last. Open requests fail before it, with PD_ECLOSED or with the
 * reason. Callbacks run on the loop's thread, never inside link_send, link_request or link_close.
 * Error messages do not name the host: the code that prints them does.
 */
#pragma once

#include <jansson.h>

#include "launcher/launch/launch.h"
#include "launcher/link/bootstrap.h"
#include "launcher/hosts/hosts.h"
#include "launcher/link/seeding.h"
#include "launcher/ssh/ssh.h"
#include "launcher/transport/connect.h"
#include "wire/client_bodies.h"
#include "wire/frame.h"
#include "wire/handshake.h"
#include "wire/msg.h"

struct link;

/* The contents of AG_HELLO. */
struct agent_facts {
    char job[64], root[4096], arch[32], state[32];
    int node;
    uint64_t disk_free;
    size_t login_printed; /* bytes that the user's start-up files wrote before the agent */
    /* time of the login shell's start-up files: from the command's start to the bootstrap's
     * first word */
    uint64_t login_ms;
    json_t *addrs; /* array of strings */
};

struct link_events {
    void (*on_hello)(struct link *l, void *arg);
    /* frames that are no answers; borrowed */
    void (*on_frame)(struct link *l, struct wire_frame *f, json_t *body, void *arg);
    void (*on_close)(struct link *l, const struct pd_err *why, void *arg);
    /* may be NULL; see link_keep */
    void (*on_lost)(struct link *l, const struct pd_err *why, void *arg);
};

/* Links to nodes on this machine: few start at once, the others wait in a queue. */
struct link_starts {
    struct link *first, *last;
    int n; /* agents that are starting */
};

/* Shared by all links of a run. */
struct link_env {
    uv_loop_t *loop;
    /* for hosts that are not local, one of the three: */
    struct ssh_pool *ssh;
    struct connector *connector;
    struct launch *launch;
    struct agent_image *agent;
    struct link_starts *starts; /* NULL: no limit */
    struct seeding *seeding;    /* NULL: this machine sends the agent to each host */
    /* of conf.ini, with ~ and %n; for hosts without a root_dir of their own */
    const char *root_dir;
    const char *job; /* the job to start or to join; NULL: none */
    int start;
    /* an agent that is started waits so long for its client before the job is set up */
    unsigned lease_ms;
    /* in each ping of a kept link: the token of this paddlectl if `shows`, and where it runs */
    char owner[WIRE_MAX_OWNER + 1], holder[WIRE_MAX_NAME + 1];
    int shows;
    /* from exec to the agent's first word; includes the login shell's start-up files */
    uint64_t login_timeout_ms;
    uint64_t upload_timeout_ms; /* for sending the agent's executable */
};

/* A stream to a host that is not local, over ssh, `connect` or `launch`. The user's login shell
 * runs `line`, or /bin/sh with `launch`; behind `connect` it is /bin/sh, and the line may be
 * another one.
 */
int link_stream(struct transport **out, const struct link_env *env, const struct host *host,
                int node, const char *line, const char *connect_line,
                const struct transport_events *ev, void *arg, struct pd_err *err);

/* Start a link. Errors of configuration and memory are returned; all others come by on_close. */
int link_open(struct link **out, const struct link_env *env, const struct host *host, int node,
              const struct link_events *ev, void *arg, struct pd_err *err);
void link_close(struct link *l); /* drop the connection; on_close follows with code 0 */
/* As link_close, but wait until the agent closes the connection after AG_BYE, at most 1 s. */
void link_close_soon(struct link *l);

/* From on_hello on, keep the connection to a job's agent, whose lease is `lease_ms`.
 * Heartbeat: the link pings the agent five times per lease. Two periods without an answer are a
 * loss. After a loss on_lost comes, and the link rejoins the job until the lease ends. Success:
 * on_hello comes again (subscribe from the offsets received so far). Otherwise on_close comes and
 * says since when the link was lost and why each attempt failed. Open requests fail with
 * PD_ECLOSED; requests made during the loss fail the same way soon after. link_send drops frames
 * that cannot be sent. After AG_BYE nothing is kept. */
void link_keep(struct link *l, uint64_t lease_ms);
void link_ping(struct link *l); /* now; the answer comes as a frame */
/* 1: from now on each ping claims the job (AG_PING), the first one at once. */
void link_claim(struct link *l, int claims);

/* Let a link without a job join `job` on the same login, with these callbacks. on_hello comes
 * again. */
void link_join(struct link *l, const char *job, const struct link_events *ev, void *arg);

const struct agent_facts *link_facts(const struct link *l); /* valid after on_hello */
int link_is_open(const struct link *l);                     /* 1 after on_hello, unless lost */
size_t link_queued(const struct link *l);

/* Send a message without an answer. Takes the reference to `body`. NULL: no memory
 * for it, which breaks the link; {} for the frames of packages and data files. */
int link_send(struct link *l, unsigned type, uint64_t req, json_t *body, const void *sec1,
              size_t n1);
/* A message without body, whose section 1 is the concatenation of the parts. */
int link_send_parts(struct link *l, unsigned type, uint64_t req, const struct pd_bytes *parts,
                    size_t n_parts);

/* Remove the control codes of a node's text, which may reach the user's terminal. Links do it to
 * all that they receive. 0 or PD_ENOMEM. */
int link_make_plain(json_t *v);

/* The answer to a request. `err` is NULL or the failure: the agent's error, a timeout or a lost
 * connection. `f` and `body` are borrowed. AG_FETCH and DS_BEGIN are answered with many frames: the
 * callback gets each frame until it returns 1. For other requests the return value is ignored. */
typedef int (*link_answer)(struct link *l, const struct wire_frame *f, json_t *body,
                           const struct pd_err *err, void *arg);

/* `what` ("setting up the job") names the wait in the timeout's message. Takes the reference to
 * `body` (NULL: no memory). 0: `answer` will be called. PD_ENOMEM: it will not. */
int link_request(struct link *l, unsigned type, json_t *body, const void *sec1, size_t n1,
                 uint64_t timeout_ms, const char *what, link_answer answer, void *arg);
/* Reserve an id and a callback for an answer that comes much later (a package's END). Sends
 * nothing. */
uint64_t link_expect(struct link *l, unsigned type, uint64_t timeout_ms, const char *what,
                     link_answer answer, void *arg);
/* `drain` is called when the queue of unsent bytes is short. One callback at a time; NULL removes
 * it. */
void link_on_drain(struct link *l, void (*drain)(struct link *l, void *arg), void *arg);
