/* ssh_impl.h - what ssh_pool.c (shared by all sessions), ssh_session.c (the state machine) and ssh_auth.c (who we are)
 * know of each other. */
#ifndef LAUNCHER_SSH_IMPL_H
#define LAUNCHER_SSH_IMPL_H

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

#include "launcher/ssh/known_hosts.h"
#include "launcher/ssh/ssh.h"

enum { SSH_KEYS_MAX = 8, SSH_READ_BYTES = 8 << 20, SSH_WRITE_BYTES = 256 << 10 };

/* A private key file, read once for all sessions. */
struct ssh_key_file {
    char *path;
    ssh_key key;    /* NULL: it could not be used */
    char why[200];  /* then, the reason */
    struct ssh_key_file *next;
};

/* One address:port and its unauthenticated connections. */
struct ssh_slot {
    char *name;
    int active;
    struct ssh_slot *next;
};

struct ssh_pool {
    uv_loop_t *loop;
    char *identity_file, *known_hosts_file, *config_file, *home;
    int accept_new, fanout;
    uint64_t connect_timeout_ms;
    struct known_hosts *known;
    struct ssh_key_file *keys;
    struct ssh_slot *slots;
    int active;                                /* sessions being set up */
    struct session *waiting_head, *waiting_tail;
    uint8_t *read_buf; /* SSH_READ_BYTES, shared: a read is handed on before the next one */
};

enum ssh_step {
    STEP_WAIT, STEP_RESOLVE, STEP_CONNECT, STEP_KEX, STEP_HOST_KEY, STEP_KEY_AUTH, STEP_AGENT_AUTH, STEP_CHANNEL,
    STEP_EXEC, STEP_OPEN, STEP_BACKOFF, STEP_CLOSING, STEP_FAILED, SSH_N_STEPS,
};

struct session {
    struct transport base; /* first: the public pointer is this one */
    struct ssh_pool *pool;
    enum ssh_step step;
    char *host, *user, *command, *config_identity;
    int own_identity; /* config_identity is this host's own, before [ssh] identity_file */
    int port;
    struct ssh_slot *slot;
    int has_slot;
    struct session *next_waiting;

    struct addrinfo *addrs, *addr;
    int fd; /* until libssh takes it over */
    ssh_session ssh;
    ssh_channel channel;
    struct ssh_channel_callbacks_struct channel_cb;
    char hostkey_types[300]; /* asked for after KH_OTHER_TYPES */
    int retried_types;

    const struct ssh_key_file *keys[SSH_KEYS_MAX];
    int n_keys, next_key;
    char tried[500]; /* for the message when nobody lets us in */
    int agent_fd, agent_rc, agent_done;
    uv_work_t agent_work;

    uv_getaddrinfo_t resolve;
    uv_poll_t *poll; /* on the heap: it outlives the socket of a retry until its close callback */
    uv_timer_t deadline, backoff;
    uint64_t started_ms, budget_ms; /* of connect_timeout, what is left when it waits again */
    int attempts;
    int n_handles;   /* handles and requests whose callback is still to come */
    int in_drive, more, close_in_drive, dropped_early;
    int remote_closed, sent_eof;
    uint64_t read_since_grow;
    struct pd_err why;
};

/* ssh_pool.c */
const struct ssh_key_file *ssh_pool_key(struct ssh_pool *pool, const char *path);
char *ssh_pool_expand(const struct ssh_pool *pool, const char *path); /* a leading ~/ */
struct ssh_slot *ssh_pool_slot(struct ssh_pool *pool, const char *host, int port);
/* Fill in host, user, port and config_identity. */
int ssh_pool_configure(struct session *s, const struct host *host, struct pd_err *err);
void ssh_pool_wait(struct ssh_pool *pool, struct session *s); /* calls session_start once there is a slot */
void ssh_pool_leave(struct session *s);                       /* give the slot back, or stop waiting */

/* ssh_session.c */
void session_start(struct session *s);
void session_drive(struct session *s);
void session_reconnect(struct session *s);  /* drop the connection; the next step is STEP_CONNECT */
void session_agent_back(struct session *s); /* from the worker's after-callback */
enum ssh_step session_fail(struct session *s, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ssh_auth.c */
void auth_init(struct session *s);
enum ssh_step auth_host_key(struct session *s);
enum ssh_step auth_key(struct session *s);
enum ssh_step auth_agent(struct session *s);
void auth_agent_cut(struct session *s); /* make the worker thread come back */

#endif
