/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_internal.h - the types and functions that the files of this folder share.
 *
 *     ssh_pool.c      what all sessions share: options, key files, lists of host keys, turns
 *     ssh_config.c    ~/.ssh/config: the answers of `ssh -G`
 *     ssh_target.c    user, port, keys and jump hosts of one host, from conf.ini and that answer
 *     ssh_session.c   the table of steps of one host; its handles, deadlines and end
 *     ssh_connect.c   the steps from a name to a connection with keys exchanged
 *     ssh_hostkey.c   the step that checks the host key
 *     ssh_auth.c      the authentication steps; ssh_agent.c: the step that uses the ssh agent
 *     ssh_secret.c    passphrases and passwords, asked for once for all sessions
 *     ssh_prompt.c    one question on the terminal
 *     ssh_channel.c   the open channel of a command
 *     ssh_jump.c      the connection to a jump host; ssh_forward.c: the connections it carries
 */
#pragma once

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

#include "launcher/ssh/known_hosts.h"
#include "launcher/ssh/ssh.h"
#include "launcher/ssh/ssh_config.h"

enum {
    SSH_KEYS_MAX = 16,
    SSH_READ_BYTES = 8 << 20,
    SSH_WRITE_BYTES = 256 << 10,
    SSH_ASK_MAX = 3,   /* times that the user is asked for the same secret */
    SSH_JUMPS_MAX = 8, /* in one chain */
};

struct session;

/* Sessions that wait for the same event, in order of arrival. A session is in one list at most. */
struct wait_list {
    struct session *head, *tail;
};

/* A private key file, read once for all sessions. */
struct ssh_key_file {
    char *path;
    ssh_key key; /* NULL: the file cannot be used, or is locked by a passphrase */
    /* The public part of a locked key, if known: the user is asked only if a server takes it. */
    ssh_key pub;
    struct ssh_secret *locked; /* the passphrase; NULL: the key has none */
    char why[200];             /* why the file cannot be used */
    int missing;               /* the file does not exist */
    struct ssh_key_file *next;
};

/* One address:port and its unauthenticated connections. `limit` falls when the server drops any. */
struct ssh_slot {
    char *name;
    int active, limit, n_in; /* n_in: authenticated since the limit changed */
    struct ssh_slot *next;
};

/* The known_hosts files of a host. Most hosts have the same. */
struct ssh_known {
    char *files; /* their names, one per line */
    char *first; /* the file that accept-new writes */
    struct known_hosts *keys;
    struct ssh_known *next;
};

struct ssh_pool {
    uv_loop_t *loop;
    char *identity_file, *known_hosts_file, *proxy_jump, *home;
    int known_named; /* conf.ini names the only known_hosts file */
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
    int n_sessions; /* of callers */
    /* Jump hosts, `ssh -G` and questions to the user. They end before the last session does. */
    int n_background;
    struct session *last; /* the last session, while it waits for their end */
    uint8_t *read_buf;    /* SSH_READ_BYTES, for all sessions: each read is handed on at once */
};

/* The host of a session, and how to reach it. Strings are owned. */
struct ssh_target {
    char *alias; /* as written in the list of hosts */
    char *host;  /* to connect to */
    char *user;
    char *key_name;   /* HostKeyAlias: the name in known_hosts; NULL: host and port */
    char *agent_path; /* socket of the ssh agent; NULL: no agent */
    char *jump;       /* jump hosts with commas, the nearest to the host last; NULL: none */
    char *proxy;      /* ProxyCommand; NULL: none */
    char *bind;       /* local address to connect from; NULL: any */
    int port, family;
    int accept_new, only_named_keys, ask;
    unsigned methods; /* SSH_AUTH_METHOD_*: the methods that may be tried */
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
    char *command;         /* NULL: the session of a jump host */
    struct ssh_jump *jump; /* the jump host of such a session */
    int depth;             /* the longest chain of jump hosts behind this session */

    /* from conf.ini */
    char *alias, *given_user, *given_address, *given_identity, *given_jump;
    int given_port;
    struct ssh_query *query;
    struct ssh_target target;

    /* waiting */
    struct wait_list *waits_in;
    struct session *next_waiting;
    struct ssh_slot *slot;
    int has_slot;
    uv_timer_t deadline, wake;
    int deadline_runs;
    uint64_t started_ms, budget_ms; /* the part of connect_timeout that is left */
    int attempts;
    uint64_t backed_off_ms; /* sum of the waits in STEP_BACKOFF; connect_timeout bounds it */
    int n_handles;          /* handles and requests whose callback is still to come */

    /* the connection */
    struct ssh_jump *via; /* the jump host that carries this connection */
    struct ssh_forward *forward;
    uv_getaddrinfo_t resolve;
    uv_process_t *proxy; /* of ProxyCommand; malloc'ed, as `poll`; NULL: none runs */
    struct addrinfo *addrs, *addr;
    int n_addrs_left;
    uint64_t addr_until_ms; /* then the next address is tried */
    int fd;                 /* libssh has a duplicate */
    uv_poll_t *poll;        /* malloc'ed: after a retry it lives until its close callback */
    ssh_session ssh;
    char hostkey_types[300]; /* to ask the server for after KH_OTHER_TYPES */
    int retried_types, dropped_early;
    int in_drive, more, close_in_drive;

    /* authentication */
    int next_key, offered; /* offered: the server would take this locked key */
    int asked;             /* the user was asked on this connection, so it may have timed out */
    int reconnects;
    char tried[600];      /* for the message of a failure */
    char no_answer[200];  /* why the user could not be asked */
    char disconnect[200]; /* the server's SSH_MSG_DISCONNECT while the agent's keys were offered */
    struct ssh_agent_call *agent;
    struct ssh_secret *secret; /* STEP_ASK: what the session waits for */
    enum ssh_step ask_for;     /* STEP_ASK: the step that needs the secret */
    struct ssh_secret *password;
    unsigned password_tried; /* the generation that the server has refused */
    int password_sent;       /* the generation that the server checks now */
    int kbd_rounds, kbd_prompt, kbd_info;

    /* the channel */
    ssh_channel channel;
    struct ssh_channel_callbacks_struct channel_cb;
    int remote_closed, sent_eof;
    uint64_t read_since_grow;
    struct ssh_counter_struct packets; /* received and sent by libssh */
    int silent_ticks, heard;
    struct pd_err why;
};

/* ssh_pool.c */
struct ssh_key_file *ssh_pool_key(struct ssh_pool *pool, const char *path);
char *ssh_pool_expand(const struct ssh_pool *pool, const char *path); /* a leading ~/ */
struct ssh_slot *ssh_pool_slot(struct ssh_pool *pool, const char *name);
/* `files` and `global`: names with blanks between; NULL: the usual files. NULL: out of memory, or a
 * file that cannot be read; see `err`. */
const struct ssh_known *ssh_pool_known(struct ssh_pool *pool, const char *files, const char *global,
                                       struct pd_err *err);
void ssh_pool_want_turn(struct session *s); /* wakes `s` with has_slot set */
void ssh_pool_leave(struct session *s);     /* returns the slot, or stops waiting */
void ssh_slot_dropped(struct ssh_slot *slot);
void ssh_slot_let_in(struct ssh_slot *slot);
void ssh_pool_warn(const struct ssh_pool *pool, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void ssh_pool_background(struct ssh_pool *pool, int change);

void wait_add(struct wait_list *list, struct session *s);
void wait_leave(struct session *s); /* also when `s` does not wait */
void wait_wake_all(struct wait_list *list);

/* ssh_target.c */
int ssh_target_make(struct session *s, const struct ssh_settings *conf, struct pd_err *err);
void ssh_target_release(struct ssh_target *t);

/* ssh_session.c */
int ssh_session_open(struct session **out, struct ssh_pool *pool, const struct host *host,
                     const char *command, const struct transport_events *ev, void *arg,
                     struct pd_err *err);
void session_drive(struct session *s);
void session_wake(struct session *s); /* the loop runs the step again; from any callback */
void session_wake_after(struct session *s, uint64_t ms);
int session_watch(struct session *s, int fd); /* starts a uv_poll_t on `fd` */
void session_drop(struct session *s);         /* ends the connection, not the session */
enum ssh_step session_first_step(const struct session *s); /* of a connection */
void session_handle_gone(struct session *s);               /* from a close callback: counts it */
void session_finish(struct session *s);                    /* calls on_close and frees */
enum ssh_step session_fail(struct session *s, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum ssh_step session_lost(struct session *s); /* fails an open connection */

/* ssh_connect.c */
enum ssh_step run_resolve(struct session *s);
enum ssh_step run_forward(struct session *s);
enum ssh_step run_connect(struct session *s);
enum ssh_step run_kex(struct session *s);
void connect_release(struct session *s);

/* ssh_hostkey.c */
enum ssh_step run_host_key(struct session *s);

/* ssh_auth.c */
void auth_begin(struct session *s);                                   /* on each new connection */
void auth_note(struct session *s, const char *what, const char *why); /* adds to "tried: ..." */
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
int agent_busy(const struct session *s); /* a thread uses the connection now */
void agent_cut(struct session *s);       /* makes that thread return */

/* ssh_secret.c */
enum ssh_secret_state { SECRET_NONE, SECRET_QUEUED, SECRET_HAVE, SECRET_REFUSED };

struct ssh_secret {
    struct ssh_pool *pool;
    char *name; /* of the key or user; unique in the pool */
    char *prompt;
    int echo;
    struct ssh_key_file *unlocks; /* of a passphrase, which is tried at once; else NULL */
    enum ssh_secret_state state;
    char *text;          /* SECRET_HAVE; NULL for a passphrase */
    unsigned generation; /* of text: 1, 2, ... */
    int n_asked;
    char why[200]; /* SECRET_REFUSED */
    struct wait_list waiters;
    struct ssh_secret *next, *next_queued;
};

int ssh_secrets_new(struct ssh_pool *pool);
void ssh_secrets_free(struct ssh_secrets *all);
void ssh_secrets_cancel(struct ssh_secrets *all); /* when no session waits any more */
struct ssh_secret *ssh_secret_get(struct ssh_pool *pool, const char *name);
/* Asks the user, and lets `s` wait for the answer. The prompt of the first session counts. */
void ssh_secret_ask(struct ssh_secret *x, struct session *s, const char *prompt);
void ssh_secret_forget(struct ssh_secret *x); /* the next session that needs it asks again */

/* ssh_channel.c */
enum ssh_step run_channel(struct session *s);
enum ssh_step run_exec(struct session *s);
enum ssh_step run_open(struct session *s);
int channel_wants_write(const struct session *s);
void channel_release(struct session *s);

/* ssh_jump.c */
/* The jump host for the chain `spec` of `s`; connects if there is none yet. */
int ssh_jump_get(struct ssh_jump **out, struct session *s, const char *spec, struct pd_err *err);
void ssh_jumps_close(struct ssh_pool *pool);
void ssh_jumps_free(struct ssh_pool *pool);
enum ssh_step run_jump(struct session *s);
void jump_dropped(struct ssh_jump *j, const struct pd_err *why); /* its connection ends */
const char *jump_failure(const struct session *s); /* why the jump host of `s` failed, or NULL */

/* ssh_forward.c */
enum ssh_step run_carry(struct session *s);
int jump_carries(const struct session *s); /* a jump host has bytes to send */
/* Opens a connection through the jump host. *fd is -1 until it is open. PD_EHOST: refused. */
int ssh_forward_open(struct session *s, int *fd, struct pd_err *err);
void ssh_forward_leave(struct session *s);
