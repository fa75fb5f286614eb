/* ssh_impl.h - what the files of this folder know of each other.
 *
 *     ssh_pool.c      what all sessions share: options, key files, lists of host keys, turns
 *     ssh_config.c    ~/.ssh/config: what OpenSSH says of a host, asked once for each class of
 * hosts ssh_target.c    one host's user, port, keys and jumps, out of conf.ini and of that answer
 *     ssh_session.c   one host's table of steps; its handles, deadlines and end
 *     ssh_connect.c   the steps from a name to a connection with keys exchanged
 *     ssh_hostkey.c   the step that judges who the server is
 *     ssh_auth.c      the steps that tell it who we are; ssh_agent.c the part of the ssh agent
 *     ssh_secret.c    passphrases and passwords, asked once for all sessions by a thread;
 * ssh_prompt.c is the terminal ssh_channel.c   the open channel of a command ssh_jump.c      the
 * open connection to a jump host; ssh_forward.c what it carries
 */
#ifndef LAUNCHER_SSH_IMPL_H
#define LAUNCHER_SSH_IMPL_H

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

#include "launcher/ssh/known_hosts.h"
#include "launcher/ssh/ssh.h"
#include "launcher/ssh/ssh_config.h"

enum {
    SSH_KEYS_MAX = 16,
    SSH_READ_BYTES = 8 << 20,
    SSH_WRITE_BYTES = 256 << 10,
    SSH_ASK_MAX = 3,   /* times that a person is asked for the same secret */
    SSH_JUMPS_MAX = 8, /* connections inside each other */
};

struct session;

/* Sessions that wait for the same thing, first come, first served. A session is in one list at
 * most. */
struct wait_list {
    struct session *head, *tail;
};

/* A private key file, read once for all sessions. */
struct ssh_key_file {
    char *path;
    ssh_key key; /* NULL: it can't be used, or it is locked */
    ssh_key pub; /* of a locked one, if it is known: its passphrase is asked for only when a server
                    wants it */
    struct ssh_secret *locked; /* its passphrase; NULL when it has none */
    char why[200];             /* why it can't be used */
    int missing;               /* that is because it is not there */
    struct ssh_key_file *next;
};

/* One address:port and its unauthenticated connections. A server that drops some gets fewer at a
 * time. */
struct ssh_slot {
    char *name;
    int active, limit, n_in; /* n_in: let in since the limit changed */
    struct ssh_slot *next;
};

/* The lists of host keys that count for a host; most hosts have the same. */
struct ssh_known {
    char *files; /* their names, one a line */
    char *first; /* where accept-new writes */
    struct known_hosts *keys;
    struct ssh_known *next;
};

struct ssh_pool {
    uv_loop_t *loop;
    char *identity_file, *known_hosts_file, *proxy_jump, *home;
    int known_named; /* conf.ini names the one list of host keys */
    int accept_new, policy_named, fanout;
    uint64_t connect_timeout_ms;
    void (*warn)(const char *text, void *arg);
    void *warn_arg;
    struct ssh_config *config;
    struct ssh_known *known;
    struct ssh_key_file *keys;
    struct ssh_slot *slots;
    struct ssh_jump *jumps;
    struct ssh_secrets *secrets;
    int active; /* sessions being set up */
    struct wait_list turns;
    int n_sessions;   /* of callers */
    int n_background; /* jump hosts, questions to ssh and to the user: gone before the last session
                         tells its end */
    struct session *last; /* has ended, but waits for that */
    uint8_t *read_buf;    /* SSH_READ_BYTES, shared: a read is handed on before the next one */
};

/* Where a session goes, and with what. Strings are owned. */
struct ssh_target {
    char *alias; /* as it stands in the list of hosts */
    char *host;  /* to connect to */
    char *user;
    char *key_name;   /* known_hosts lists it under this name; NULL: host and port */
    char *agent_path; /* the ssh agent's socket; NULL: there is none to be asked */
    char *jump;  /* the jump hosts, with commas, the last one nearest to the host; NULL: none */
    char *proxy; /* command that connects instead; NULL: none */
    char *bind;  /* address of ours to connect from; NULL: any */
    int port, family;
    int accept_new, only_named_keys, ask;
    unsigned methods; /* SSH_AUTH_METHOD_*: those that may be tried */
    const struct ssh_known *known;
    struct ssh_key_file *keys[SSH_KEYS_MAX];
    int n_keys;
};

enum ssh_step {
    STEP_CONFIG,
    STEP_JUMP,
    STEP_TURN,
    STEP_RESOLVE,
    STEP_FORWARD,
    STEP_CONNECT,
    STEP_KEX,
    STEP_HOST_KEY,
    STEP_NONE_AUTH,
    STEP_KEY_AUTH,
    STEP_AGENT_AUTH,
    STEP_LOCKED_KEY_AUTH,
    STEP_KBDINT_AUTH,
    STEP_PASSWORD_AUTH,
    STEP_ASK,
    STEP_CHANNEL,
    STEP_EXEC,
    STEP_OPEN,
    STEP_CARRY,
    STEP_BACKOFF,
    STEP_CLOSING,
    STEP_FAILED,
    SSH_N_STEPS,
};

struct session {
    struct transport base; /* first: the public pointer is this one */
    struct ssh_pool *pool;
    enum ssh_step step;
    char *command;         /* NULL: of a jump host */
    struct ssh_jump *jump; /* then: this one */
    int depth;             /* jump hosts that are reached through it, at most */

    /* what it was asked for */
    char *alias, *given_user, *given_address, *given_identity, *given_jump;
    int given_port;
    struct ssh_class *config;
    struct ssh_target to;

    /* waiting */
    struct wait_list *waits_in;
    struct session *next_waiting;
    struct ssh_slot *slot;
    int has_slot;
    uv_timer_t deadline, wake;
    int deadline_runs;
    uint64_t started_ms, budget_ms; /* of connect_timeout, what is left when it waits again */
    int attempts;
    uint64_t backed_off_ms; /* after connections that were dropped before the greeting;
                               connect_timeout bounds it */
    int n_handles;          /* handles and requests whose callback is still to come */

    /* the connection */
    struct ssh_jump *via; /* the jump host that carries it */
    struct ssh_forward *forward;
    uv_getaddrinfo_t resolve;
    uv_process_t *proxy; /* on the heap, as poll; NULL: none runs */
    struct addrinfo *addrs, *addr;
    int n_addrs_left;
    uint64_t addr_until_ms; /* then the next address has its try */
    int fd;                 /* libssh has a duplicate */
    uv_poll_t *poll; /* on the heap: it outlives the socket of a retry until its close callback */
    ssh_session ssh;
    char hostkey_types[300]; /* asked for after KH_OTHER_TYPES */
    int retried_types, dropped_early;
    int in_drive, more, close_in_drive;

    /* authentication */
    int next_key, offered; /* offered: the server would take this locked key */
    int asked, reconnects; /* asked: since the connection was made, so it may be one that waited too
                              long */
    char tried[600];       /* for the message when nobody lets us in */
    char no_answer[200];   /* why nobody could be asked */
    char disconnect[200];  /* the server's SSH_MSG_DISCONNECT while the agent's keys were offered */
    struct ssh_agent_call *agent;
    struct ssh_secret *secret; /* what STEP_ASK waits for */
    enum ssh_step ask_for;     /* and the step that wants it */
    struct ssh_secret *password;
    unsigned password_tried; /* its generation that the server has refused */
    int password_sent;       /* the one that it judges now */
    int kbd_rounds, kbd_prompt, kbd_info;

    /* the channel */
    ssh_channel channel;
    struct ssh_channel_callbacks_struct channel_cb;
    int remote_closed, sent_eof;
    uint64_t read_since_grow;
    struct ssh_counter_struct packets; /* that libssh has taken in and sent */
    int silent_ticks, heard;
    struct pd_err why;
};

/* ssh_pool.c */
struct ssh_key_file *ssh_pool_key(struct ssh_pool *pool, const char *path);
char *ssh_pool_expand(const struct ssh_pool *pool, const char *path); /* a leading ~/ */
struct ssh_slot *ssh_pool_slot(struct ssh_pool *pool, const char *name);
/* `files`: names apart by blanks; NULL: the usual ones. NULL when memory is out. */
const struct ssh_known *ssh_pool_known(struct ssh_pool *pool, const char *files, const char *global,
                                       struct pd_err *err);
void ssh_pool_want_turn(struct session *s); /* has_slot, and woken, once it is its turn */
void ssh_pool_leave(struct session *s);     /* give the slot back, or stop waiting */
void ssh_slot_dropped(struct ssh_slot *slot);
void ssh_slot_let_in(struct ssh_slot *slot);
void ssh_pool_warn(const struct ssh_pool *pool, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void ssh_pool_background(struct ssh_pool *pool, int change);

void wait_add(struct wait_list *list, struct session *s);
void wait_leave(struct session *s); /* legal when it waits for nothing */
void wait_wake_all(struct wait_list *list);

/* ssh_target.c */
int ssh_target_make(struct session *s, const struct ssh_conf *conf, struct pd_err *err);
void ssh_target_release(struct ssh_target *t);

/* ssh_session.c */
int ssh_session_open(struct session **out, struct ssh_pool *pool, const struct host *host,
                     const char *command, const struct transport_events *ev, void *arg,
                     struct pd_err *err);
void session_drive(struct session *s);
void session_wake(struct session *s); /* from any callback: its step runs again, from the loop */
void session_wake_after(struct session *s, uint64_t ms);
int session_watch(struct session *s, int fd); /* a uv_poll_t for it */
void session_drop(struct session *s);         /* the connection goes, the session stays */
enum ssh_step session_first_step(const struct session *s); /* of a connection */
void session_handle_gone(struct session *s); /* from a close callback: one handle less */
void session_finish(struct session *s);      /* tell the end, free it */
enum ssh_step session_fail(struct session *s, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum ssh_step session_lost(struct session *s); /* the open connection broke */

/* ssh_connect.c */
enum ssh_step run_resolve(struct session *s);
enum ssh_step run_forward(struct session *s);
enum ssh_step run_connect(struct session *s);
enum ssh_step run_kex(struct session *s);
void connect_release(struct session *s);

/* ssh_hostkey.c */
enum ssh_step run_host_key(struct session *s);

/* ssh_auth.c */
void auth_begin(struct session *s);                                   /* of each connection */
void auth_note(struct session *s, const char *what, const char *why); /* for "tried: ..." */
enum ssh_step run_none(struct session *s);
enum ssh_step run_key(struct session *s);
enum ssh_step run_locked_key(struct session *s);
enum ssh_step run_kbdint(struct session *s);
enum ssh_step run_password(struct session *s);
enum ssh_step run_ask(struct session *s);
enum ssh_step auth_in(const struct session *s); /* the step after success */
enum ssh_step auth_broken(struct session *s);   /* after the connection broke */

/* ssh_agent.c */
enum ssh_step run_agent(struct session *s);
int agent_busy(const struct session *s); /* a thread has the connection now */
void agent_cut(struct session *s);       /* make it come back */

/* ssh_secret.c */
enum ssh_secret_state { SECRET_NONE, SECRET_QUEUED, SECRET_HAVE, SECRET_REFUSED };

struct ssh_secret {
    struct ssh_pool *pool;
    char *name; /* what it is the secret of; unique in the pool */
    char *prompt;
    int echo;
    struct ssh_key_file
        *unlocks; /* a passphrase: tried at once, and asked for again when it is wrong */
    enum ssh_secret_state state;
    char *text;          /* SECRET_HAVE, not of a passphrase */
    unsigned generation; /* of text: 1, 2, ... */
    int n_asked;
    char why[200]; /* SECRET_REFUSED */
    struct wait_list waiters;
    struct ssh_secret *next, *next_queued;
};

int ssh_secrets_new(struct ssh_pool *pool);
void ssh_secrets_free(struct ssh_secrets *all);
void ssh_secrets_cancel(struct ssh_secrets *all); /* nobody waits any more */
struct ssh_secret *ssh_secret_get(struct ssh_pool *pool, const char *name);
/* Ask the user; `s` waits for it. The prompt is that of the first who asks. */
void ssh_secret_ask(struct ssh_secret *x, struct session *s, const char *prompt);
void ssh_secret_forget(struct ssh_secret *x); /* so that it is asked for anew */

/* ssh_channel.c */
enum ssh_step run_channel(struct session *s);
enum ssh_step run_exec(struct session *s);
enum ssh_step run_open(struct session *s);
int channel_wants_write(const struct session *s);
void channel_release(struct session *s);

/* ssh_jump.c */
int ssh_jump_get(struct ssh_jump **out, struct session *s, const char *spec,
                 struct pd_err *err); /* the one `s` goes by */
void ssh_jumps_close(struct ssh_pool *pool);
void ssh_jumps_free(struct ssh_pool *pool);
enum ssh_step run_jump(struct session *s);
void jump_dropped(struct ssh_jump *j, const struct pd_err *why); /* its connection is going */
const char *jump_failure(const struct session *s); /* why the host behind it was lost, or NULL */

/* ssh_forward.c */
enum ssh_step run_carry(struct session *s);
int jump_carries(const struct session *s); /* it has bytes to send */
/* A way through the jump host: *fd once it is open, -1 before; PD_EHOST with the reason. */
int ssh_forward_open(struct session *s, int *fd, struct pd_err *err);
void ssh_forward_leave(struct session *s);

#endif
