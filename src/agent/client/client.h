/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - the clients of an agent: connections whose frames go to services.
 *
 *     client.c ──request──▶ service.handle ──client_send──▶ client.c
 *        └──▶ service.on_drain, service.on_close; events.on_open, events.on_close
 *
 * A service is one constant. client.c includes no service: the owner of the clients passes a table
 * of services, each with a context. Each client has memory for each service (for a log
 * subscription, say), zeroed at first. */
#pragma once

#include <jansson.h>

#include "agent/core/agent_core.h"
#include "agent/core/msg.h"

struct client;
struct clients; /* all clients of an agent */

/* Handles a request. 0, or PD_E* with `err`, which becomes the answer. `body` is borrowed. */
typedef int (*client_handler)(struct client *c, const struct wire_frame *f, const json_t *body,
                              struct pd_err *err);

struct client_request {
    uint16_t type;
    uint8_t needs_job; /* 1: an agent in tool mode refuses the request */
    uint8_t has_body;  /* 1: section 0 must be a JSON object. 0: `body` is NULL */
    client_handler handle;
    /* A frame of this type came with an error. NULL: the error is only logged. */
    void (*on_error)(struct client *c, uint64_t req, const struct pd_err *e);
};

struct client_service {
    const char *name;
    const struct client_request *requests; /* ends with type 0 */
    size_t state_size;                     /* bytes of state in each client */
    void (*on_drain)(struct client *c);    /* every queued frame was written; may be NULL */
    void (*on_close)(struct client *c);    /* the connection is closed; may be NULL */
};

struct client_use {
    const struct client_service *service;
    void *context; /* returned by client_context; may be NULL */
};

struct client_events {
    void (*on_open)(struct client *c, void *arg); /* sends AG_HELLO; no frame is sent before */
    void (*on_close)(void *arg);                  /* a connection is closed */
};

int clients_new(struct clients **out, struct agent_core *core, const struct client_events *ev,
                void *arg, struct pd_err *err);
/* Sets the table of services; called before the first client_open. The table must outlive the
 * clients. on_drain and on_close are called in the table's order. */
void clients_serve(struct clients *all, const struct client_use *uses, size_t n);
void clients_free(struct clients *all); /* after the loop has ended; NULL is allowed */

/* Takes the streams over. If the agent has too many clients, the one that has been silent the
 * longest is closed, provided it was silent for half a lease. 0 or PD_E*. */
int client_open(struct clients *all, uv_stream_t *in, uv_stream_t *out, struct pd_err *err);

/* --- all clients --- */

/* The number of clients. A client without a connection counts as long as it is referenced. */
unsigned clients_count(const struct clients *all);
/* Calls fn for each client that is connected and has received AG_HELLO. */
void clients_each(struct clients *all, void (*fn)(struct client *c, void *arg), void *arg);
/* The agent ends; no request is handled any more. now 1: queued frames are dropped; 0: they are
 * written first. */
void clients_close(struct clients *all, int now);
void clients_set_lease(struct clients *all, unsigned ms);
/* The job gets an owner, whose token is `token`; "": none. Then only the owner renews the lease,
 * else every client that is no onlooker. */
void clients_set_owner(struct clients *all, const char *token);
/* The time since bytes last came from a client that renews the lease. Bytes of an incomplete frame
 * count, because a frame may take minutes on a slow line. */
uint64_t clients_silent_ms(struct clients *all);
/* 1: work is in progress (client_work_begin). */
int clients_at_work(const struct clients *all);
/* The job is over: client_over now fails with this text. */
void clients_set_over(struct clients *all, const char *why);

/* --- one client --- */

void client_ref(struct client *c);
/* The memory is freed when the connection is closed and no reference is left. */
void client_unref(struct client *c);
int client_is_open(const struct client *c);
struct agent_core *client_core(const struct client *c);
unsigned client_others(const struct client *c); /* the number of other connected clients */
void *client_state(struct client *c, const struct client_service *s);
void *client_context(const struct client *c, const struct client_service *s);

/* Sending to a client that is closed, or did not get AG_HELLO yet, does nothing and returns 0.
 * Without memory the client gets an error as the answer; if it waits for none, it is closed. */
/* Takes the body over, like msg_send. */
int client_send(struct client *c, uint16_t type, uint64_t req, json_t *body);
int client_send_with(struct client *c, uint16_t type, uint64_t req, json_t *body, const void *p,
                     size_t n);
int client_send_raw(struct client *c, uint16_t type, uint64_t req, const struct net_sec *sec,
                    uint32_t n_sec);
/* Answers request f and takes the body over. 0 or PD_ENOMEM. */
int client_answer(struct client *c, const struct wire_frame *f, json_t *body, struct pd_err *err);
void client_refuse(struct client *c, uint16_t type, uint64_t req, const struct pd_err *e);
size_t client_queued_bytes(const struct client *c);

/* Gives the frame that is being handled to the caller, who frees it with wire_frame_free. */
struct wire_frame *client_take_frame(struct client *c);
void client_set_onlooker(struct client *c); /* an onlooker's messages renew no lease */
/* The client has shown this token. With `claim` it becomes the owner if the owner has been silent
 * for half a lease. holder: where the client runs, for people; "": unknown. */
void client_show_token(struct client *c, const char *token, int claim, const char *holder);
/* The answer to AG_PING, a new reference. sent_ns: of the ping. */
json_t *client_lease(struct client *c, int64_t sent_ns);
int client_renews(const struct client *c); /* 1: its messages renew the lease */
/* 1: the job does not need this client: it is an onlooker, or another client renews the lease. */
int client_is_spare(const struct client *c);
void client_close(struct client *c, int now);
/* Brackets long work for a client. No lease expires during it; a new lease begins at its end. */
void client_work_begin(struct client *c);
void client_work_end(struct client *c);
/* Wipes a key that was the last section of the received frame. */
void client_forget_key(struct client *c, const struct wire_frame *f);
/* 0, or PD_EHOST with the reason if the job of this agent is over. */
int client_over(const struct client *c, struct pd_err *err);
