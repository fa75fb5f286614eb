/* agent.h - the agent's modes, and what its parts share.
 *
 *   tool    `relay --root`            one session on stdin and stdout, no job: packages, list of jobs
 *   job     the daemon of `--start`   sessions on the job's unix socket, TCP towards the other agents
 *   over    `relay --job`, no daemon  one session on stdin and stdout: a finished job, served from disk
 *
 * One loop, one thread; unpacking, packing what is fetched, and turns of work of a dispatch (ds.h) run on threads that touch nothing here.
 */
#ifndef PD_AGENT_AGENT_H
#define PD_AGENT_AGENT_H

#include <jansson.h>
#include <uv.h>

#include "agent/logs.h"
#include "agent/place.h"
#include "base/log.h"
#include "net/conn.h"

enum agent_mode { AGENT_TOOL, AGENT_JOB, AGENT_OVER };

struct session;
struct job;

struct agent {
    uv_loop_t loop;
    enum agent_mode mode;
    struct place place;
    struct pd_log log;
    char build[65];             /* BLAKE2b-256 of this executable */
    char state[16], text[400];  /* the last AG_STATE */
    json_t *result;             /* AG_RESULT once the job is over on this node, else NULL */
    struct job *job;            /* after AG_JOB_SETUP */
    struct logs logs;
    int logs_open;
    uint8_t *data_root;         /* of the last package of kind "data" that began: its root object, malloc'ed */
    size_t data_root_n;
    int data_held;              /* a descriptor that holds its catalog until it is opened for the job; 0: none */
    int ending;                 /* a lease or a signal ends the job */
    int said_bye;               /* a client has all it wants of a job that is over */
    uint64_t over_ns;
    struct session *sessions;
    unsigned n_sessions;
    unsigned n_unpacking;       /* threads that unpack for a client: its lease waits for them */
    uint64_t last_client_ns;    /* when bytes of a client came last */
    unsigned first_lease_ms;    /* the lease until AG_JOB_SETUP names it */
    uv_pipe_t listener;
    uv_timer_t tick;
    uv_timer_t give_up;         /* the deadline of quitting */
    int give_up_open;
    uv_signal_t on_term;
    int has_daemon_handles;     /* the three above are open */
    int quitting, quit_soon;
    char join[64];              /* AG_JOIN: the job that this session goes on with */
    int job_started;            /* left by agent_finish: a process of the job ran */
};

/* `build` below: BLAKE2b-256 of this executable, when whoever started it has compared the file's checksum; else NULL, and it is computed.
 *
 * Blocks until the job and its clients are done; without a client's word for lease_ms (0: some seconds) before the job is
 * set up, it ends. `ready` gets "1" once the socket listens, else why not. */
int agent_run_daemon(const struct place *p, unsigned lease_ms, const char *build, int ready);

/* One session on stdin and stdout, without a daemon. Returns the exit status. `join` (or NULL) gets the job that the client
 * asked for with AG_JOIN, or "": stdin and stdout are then still open, for whoever serves that job. */
int agent_run_stdio(const struct place *p, enum agent_mode mode, const char *build, char join[64]);

/* The rest is for the parts of the agent. */
void agent_set_state(struct agent *ag, const char *state, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void agent_quit(struct agent *ag); /* close everything; the run functions return when all is closed */
void agent_quit_soon(struct agent *ag); /* from the next turn of the loop, so that an answer can still be sent */
void agent_let_data_go(struct agent *ag); /* closes data_held */
int agent_node(const struct agent *ag);

#endif
