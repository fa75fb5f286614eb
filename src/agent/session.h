/* session.h - one client of an agent: its frames, and what is under way for it. Internal to src/agent. */
#ifndef PD_AGENT_SESSION_H
#define PD_AGENT_SESSION_H

#include "agent/agent.h"
#include "agent/logs.h"
#include "agent/msg.h"

struct fetch;
struct check;
struct ds;
struct ds_serve;

struct subscription {
    int on;
    uint64_t offset, hint; /* the next byte to send */
    uint64_t window;       /* 0: send whatever there is; else at most so many bytes beyond `acked` */
    uint64_t acked;
};

struct session {
    struct agent *ag;
    struct net_conn *conn; /* NULL once closed: what is still under way ends quietly */
    struct session *prev, *next;
    unsigned refs;         /* the connection, and each thread that works for this session */
    uint64_t heard_bytes;  /* received when the lease was looked at last */
    uint64_t heard_ns;     /* when that had grown, or the session began */
    int onlooker;          /* it only looks: what it sends renews no lease */
    int greeted;           /* AG_HELLO was sent: nothing goes before it */
    int spoke;             /* a frame of it has come */
    int feeds;             /* it has the job's data files (data.h) */
    struct wire_frame *frame; /* that a handler is called for; it may take it over: NULL */
    int dropped;           /* its connection is being closed, for another one */
    struct fetch *fetches; /* folders that are being sent */
    struct check *check;   /* a port for probes, or NULL */
    struct ds *packages;   /* that come as objects (ds.h) */
    struct ds_serve *serve; /* a port for nodes that take them from here, or NULL */
    struct subscription subs[N_LOG_STREAMS];
};

/* Takes the streams over. The session says AG_HELLO and the state; it frees itself. */
int session_open(struct agent *ag, uv_stream_t *in, uv_stream_t *out, struct pd_err *err);
void session_unref(struct session *s);
void session_say_state(struct session *s);

/* Is this an agent of a job that is over? Then, PD_EHOST, with what ended it. */
int session_job_over(const struct session *s, struct pd_err *err);

/* A request's handler: 0, or PD_E* with err, which is sent as the answer. */
typedef int (*session_handler)(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err);

int clean_on_clean(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err);
int list_on_status(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err);
int list_on_list(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err);

/* Send what the log streams have for this client, as far as it keeps up. */
void subs_pump(struct session *s);
int subs_on_subscribe(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err);
int subs_on_ack(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err);
void fetch_pump(struct session *s); /* also when the connection is gone: the threads then end */
int fetch_on_fetch(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err);

int job_on_setup(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err);
int job_on_peers(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err);
int job_on_run(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err);
int job_on_stop(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err);

#endif
