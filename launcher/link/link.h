/* link.h - the connection to one node's agent: a transport (ssh with its bootstrap, or a child
 * process) below, frames and requests above.
 *
 *     link_open --> on_hello --> on_frame ... --> on_close
 *                      ^            |
 *                      └─ on_lost <─┘                 a link that is kept
 *
 * on_close comes exactly once and last; requests still open get PD_ECLOSED (or the reason) before
 * it. Callbacks come from the loop's thread, never from inside link_send, link_request or
 * link_close. Messages of errors do not name the host: who shows them does.
 */
#ifndef LAUNCHER_LINK_H
#define LAUNCHER_LINK_H

#include <jansson.h>

#include "launcher/link/bootstrap.h"
#include "launcher/hosts/hosts.h"
#include "launcher/link/seeding.h"
#include "launcher/ssh/ssh.h"
#include "launcher/transport/transport.h"
#include "wire/frame.h"
#include "wire/handshake.h"
#include "wire/msg.h"

struct link;

/* What AG_HELLO said. */
struct agent_facts {
    char job[64], root[4096], arch[32], state[32];
    int node;
    uint64_t disk_free;
    size_t login_printed; /* bytes that the user's start-up files wrote before us */
    uint64_t login_ms;    /* from the command's start until it was ours: what they took */
    json_t *addrs;        /* array of strings */
};

struct link_events {
    void (*on_hello)(struct link *l, void *arg);
    void (*on_frame)(struct link *l, struct wire_frame *f, json_t *body,
                     void *arg); /* not answers; borrowed */
    void (*on_close)(struct link *l, const struct pd_err *why, void *arg);
    void (*on_lost)(struct link *l, const struct pd_err *why,
                    void *arg); /* may be NULL; see link_keep */
};

/* What all links of a run share. */
struct link_env {
    uv_loop_t *loop;
    struct ssh_pool *ssh; /* NULL when all hosts are local */
    const struct agent_image *agent;
    struct seeding *seeding; /* NULL: each host gets its agent from here */
    const char *root_dir;    /* of conf.ini: with ~ and %n; for hosts that have none of their own */
    const char *job;         /* NULL: no job; else the job to start or to join */
    int start;
    unsigned lease_ms; /* how long an agent that is started waits for its client before the job is
                          set up */
    uint64_t login_timeout_ms;  /* from exec to the agent's first word: the login shell's start-up
                                   files */
    uint64_t upload_timeout_ms; /* for sending the agent's executable */
};

/* Start; failures come by on_close, except those of the configuration and memory. */
int link_open(struct link **out, const struct link_env *env, const struct host *host, int node,
              const struct link_events *ev, void *arg, struct pd_err *err);
void link_close(struct link *l); /* drops the connection; on_close follows with code 0 */
/* The same once the agent has closed it, after AG_BYE, or after a second. */
void link_close_soon(struct link *l);

/* Keep the connection to a job's agent, whose lease is `lease_ms`, from on_hello on: it is pinged
 * five times as often, and lost when nothing comes back for two of these periods. After a loss, and
 * on_lost, the job is joined again until the lease is over: then on_hello comes again (subscribe
 * from the offsets that you have), else on_close, which says since when and why every attempt
 * failed. Requests that were open fail with PD_ECLOSED, and so do those made meanwhile, soon;
 * link_send drops what can't go out. After AG_BYE nothing is kept. */
void link_keep(struct link *l, uint64_t lease_ms);

/* A link without a job goes on with this one, without another log-in, and with these callbacks:
 * on_hello comes again. */
void link_join(struct link *l, const char *job, const struct link_events *ev, void *arg);

const struct agent_facts *link_facts(const struct link *l); /* after on_hello */
int link_is_open(const struct link *l);                     /* after on_hello, and not lost */
size_t link_queued(const struct link *l);

/* Send without an answer. `body` is stolen (NULL: {}). */
int link_send(struct link *l, unsigned type, uint64_t req, json_t *body, const void *sec1,
              size_t n1);
/* Without a body, and section 1 is made of these parts. */
struct link_part {
    const void *p;
    size_t n;
};
int link_send_parts(struct link *l, unsigned type, uint64_t req, const struct link_part *parts,
                    size_t n_parts);

/* The answer: `err` is NULL, or the failure (of the agent, a timeout, a lost connection). `f` and
 * `body` are borrowed. AG_FETCH and DS_BEGIN are answered with many frames: the callback gets each
 * until it returns 1 for "that was the last one"; for all others the return value is ignored. */
typedef int (*link_answer)(struct link *l, const struct wire_frame *f, json_t *body,
                           const struct pd_err *err, void *arg);

/* `what` ("setting up the job") names the wait in the timeout's message. `body` is stolen. 0:
 * `answer` will be called; or PD_ENOMEM: it won't. */
int link_request(struct link *l, unsigned type, json_t *body, const void *sec1, size_t n1,
                 uint64_t timeout_ms, const char *what, link_answer answer, void *arg);
/* A request whose answer is still far (a package's END): reserve its id and callback without
 * sending anything. */
uint64_t link_expect(struct link *l, unsigned type, uint64_t timeout_ms, const char *what,
                     link_answer answer, void *arg);
/* Called when the queue of unsent bytes is short; one at a time, NULL to stop. */
void link_on_drain(struct link *l, void (*drain)(struct link *l, void *arg), void *arg);

#endif
