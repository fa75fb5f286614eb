/* client.h - the clients of an agent: connections whose frames go to services.
 *
 *     client.c ──request──▶ service.handle ──client_send──▶ client.c
 *        └──▶ service.on_drain, service.on_close; events.on_open, events.on_close
 *
 * A service is one constant. client.c includes none of them; the owner of the clients hands over a
 * table of services, each with a context. A service has a piece of memory in each client, zeroed at
 * first (a log subscription, say).
 */
#ifndef PD_AGENT_CLIENT_H
#define PD_AGENT_CLIENT_H

#include <jansson.h>

#include "agent/core/agent_core.h"
#include "agent/core/msg.h"

struct client;
struct clients; /* all of an agent */

/* Handles a message. 0, or PD_E* with err, which is sent as the answer. */
typedef int (*client_handler)(struct client *c, const struct wire_frame *f, const json_t *body,
                              struct pd_err *err);

struct client_request {
    uint16_t type;
    uint8_t needs_job; /* an agent in tool mode refuses it */
    uint8_t has_body;  /* section 0 has to be a JSON object; else `body` is NULL */
    client_handler handle;
    void (*on_error)(struct client *c, uint64_t req,
                     const struct pd_err *e); /* it came as an error; NULL: that is only logged */
};

struct client_service {
    const char *name;
    const struct client_request *requests; /* ends with type 0 */
    size_t state_size;                     /* what each client has of it */
    void (*on_drain)(struct client *c);    /* all that was sent has gone out; may be NULL */
    void (*on_close)(struct client *c);    /* the connection is gone; may be NULL */
};

struct client_use {
    const struct client_service *service;
    void *context; /* client_context; NULL: none */
};

struct client_events {
    void (*on_open)(struct client *c, void *arg); /* says hello: nothing is sent before */
    void (*on_close)(void *arg);                  /* a connection is gone */
};

int clients_new(struct clients **out, struct agent_core *core, const struct client_events *ev,
                void *arg, struct pd_err *err);
/* Before the first client: what they can ask for. The table outlives the clients, its services hear
 * of drains and closes in its order. */
void clients_serve(struct clients *all, const struct client_use *uses, size_t n);
void clients_free(struct clients *all); /* once the loop has ended; NULL is fine */

/* Takes the streams over. When there is no room, a client that has been silent for half a lease
 * makes room. */
int client_open(struct clients *all, uv_stream_t *in, uv_stream_t *out, struct pd_err *err);

/* --- all clients --- */

/* Also counts clients that are gone, while something still works for them. */
unsigned clients_count(const struct clients *all);
/* For each client that is connected and was greeted. */
void clients_each(struct clients *all, void (*fn)(struct client *c, void *arg), void *arg);
void clients_close(struct clients *all, int now); /* now: what is queued is dropped */
void clients_set_lease(struct clients *all, unsigned ms);
/* Since bytes of a client came last, onlookers' apart. Bytes of an incomplete frame count: on a
 * slow line it may take minutes. */
uint64_t clients_silent_ms(struct clients *all);
/* Whether client_work_begin was called more often than client_work_end. */
int clients_at_work(const struct clients *all);
/* The job is over: from now on client_over fails with this text. */
void clients_set_over(struct clients *all, const char *why);

/* --- one client --- */

void client_ref(struct client *c);
void client_unref(struct client *c); /* the memory lives as long as the connection or a reference */
int client_is_open(const struct client *c);
struct agent_core *client_core(const struct client *c);
unsigned client_others(const struct client *c); /* how many others are connected */
void *client_state(struct client *c, const struct client_service *s);
void *client_context(const struct client *c, const struct client_service *s);

/* Sending to a client that is gone, or was not greeted yet, does nothing and succeeds. */
/* Takes the body over, as msg_send. */
int client_send(struct client *c, uint16_t type, uint64_t req, json_t *body);
int client_send_with(struct client *c, uint16_t type, uint64_t req, json_t *body, const void *p,
                     size_t n);
int client_send_raw(struct client *c, uint16_t type, uint64_t req, const struct net_sec *sec,
                    uint32_t n_sec);
/* Answers request f; PD_ENOMEM. */
int client_answer(struct client *c, const struct wire_frame *f, json_t *body, struct pd_err *err);
void client_refuse(struct client *c, uint16_t type, uint64_t req, const struct pd_err *e);
size_t client_queued_bytes(const struct client *c);

/* The frame that is being handled becomes the caller's. */
struct wire_frame *client_take_frame(struct client *c);
void client_set_onlooker(struct client *c); /* it only looks: what it sends renews no lease */
void client_close(struct client *c, int now);
/* Something long is done for a client: leases wait for its end, with which a new one begins. */
void client_work_begin(struct client *c);
void client_work_end(struct client *c);
/* Is this an agent of a job that is over? Then PD_EHOST, with what ended the job. */
int client_over(const struct client *c, struct pd_err *err);

#endif
