/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_agent.c - authentication by the ssh agent.
 *
 * A call to an agent blocks inside libssh without a limit. This step therefore runs on a worker
 * thread, over a socket that the session owns: at the deadline the session shuts the socket down,
 * and the worker returns. libssh offers all keys of the agent. With IdentitiesOnly a second thread
 * removes the keys that no IdentityFile names from the agent's list:
 *
 *     libssh (worker) <--socketpair--> filter <--unix socket--> agent
 */
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "launcher/ssh/ssh_internal.h"

enum {
    AGENT_REQUEST_IDENTITIES = 11,
    AGENT_IDENTITIES = 12,
    AGENT_MESSAGE_MAX = 256 << 10,
    AGENT_KEYS_MAX = 1000
};

struct ssh_agent_call {
    uv_work_t work;
    struct session *s;
    int fd;      /* to the agent; agent_cut shuts it down */
    int pair[2]; /* with a filter: the ends of libssh and of the filter; else -1 */
    int rc, done;
    char *wanted[SSH_KEYS_MAX]; /* with a filter: base64 of public keys */
    int n_wanted;
};

int agent_busy(const struct session *s) { return s->agent && !s->agent->done; }

static void call_free(struct ssh_agent_call *c) {
    if (!c)
        return;
    for (int i = 0; i < c->n_wanted; i++)
        ssh_string_free_char(c->wanted[i]);
    for (int i = 0; i < 2; i++)
        pd_close(c->pair[i]);
    pd_close(c->fd);
    free(c);
}

void agent_cut(struct session *s) {
    struct ssh_agent_call *c = s->agent;
    shutdown(c->fd, SHUT_RDWR);
    if (c->pair[1] >= 0)
        shutdown(c->pair[1], SHUT_RDWR);
    shutdown(s->fd, SHUT_RDWR);
}

/* --- the filter: draft-miller-ssh-agent, 4.4 --- */

static uint32_t get_u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_u32(struct pd_buf *b, uint32_t v) {
    uint8_t p[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    pd_put(b, p, 4);
}

static int is_wanted(const struct ssh_agent_call *c, const uint8_t *blob, size_t n) {
    char text[16384];
    if (sodium_base64_ENCODED_LEN(n, sodium_base64_VARIANT_ORIGINAL) > sizeof text)
        return 0;
    sodium_bin2base64(text, sizeof text, blob, n, sodium_base64_VARIANT_ORIGINAL);
    for (int i = 0; i < c->n_wanted; i++)
        if (!strcmp(c->wanted[i], text))
            return 1;
    return 0;
}

/* The message is byte 12, u32 count, then pairs (blob, comment), each a u32 length and bytes. A
 * malformed pair ends the list. */
static void filter_keys(const struct ssh_agent_call *c, struct pd_buf *msg) {
    struct pd_buf out = {0};
    uint32_t n = msg->len >= 5 ? get_u32(msg->data + 1) : 0, kept = 0;
    size_t at = 5;
    pd_put_u8(&out, AGENT_IDENTITIES);
    put_u32(&out, 0);
    for (uint32_t i = 0; i < n && i < AGENT_KEYS_MAX; i++) {
        size_t begin = at, len[2];
        for (int k = 0; k < 2; k++) {
            len[k] = msg->len - at >= 4 ? get_u32(msg->data + at) : SIZE_MAX;
            if (len[k] > msg->len - at - 4)
                goto out;
            at += 4 + len[k];
        }
        if (is_wanted(c, msg->data + begin + 4, len[0])) {
            pd_put(&out, msg->data + begin, at - begin);
            kept++;
        }
    }
out:
    if (!out.failed) {
        out.data[4] = (uint8_t)kept; /* at most SSH_KEYS_MAX */
        pd_buf_clear(msg);
        pd_put(msg, out.data, out.len);
    }
    pd_buf_release(&out);
}

static int read_message(int fd, struct pd_buf *msg) {
    uint8_t head[4];
    if (pd_read_full(fd, head, 4) != 4)
        return -1;
    uint32_t n = get_u32(head);
    pd_buf_clear(msg);
    if (!n || n > AGENT_MESSAGE_MAX || pd_buf_reserve(msg, n) ||
        pd_read_full(fd, msg->data, n) != (ssize_t)n)
        return -1;
    msg->len = n;
    return 0;
}

static int write_message(int fd, const struct pd_buf *msg) {
    uint8_t head[4] = {(uint8_t)(msg->len >> 24), (uint8_t)(msg->len >> 16),
                       (uint8_t)(msg->len >> 8), (uint8_t)msg->len};
    return msg->failed || pd_write_all(fd, head, 4) || pd_write_all(fd, msg->data, msg->len) ? -1
                                                                                             : 0;
}

static void *filter_thread(void *arg) {
    struct ssh_agent_call *c = arg;
    struct pd_buf msg = {0};
    while (!read_message(c->pair[1], &msg)) {
        int is_list_request = msg.data[0] == AGENT_REQUEST_IDENTITIES;
        if (write_message(c->fd, &msg) || read_message(c->fd, &msg))
            break;
        if (is_list_request && msg.data[0] == AGENT_IDENTITIES)
            filter_keys(c, &msg);
        if (write_message(c->pair[1], &msg))
            break;
    }
    shutdown(c->pair[1], SHUT_RDWR);
    pd_buf_release(&msg);
    return NULL;
}

/* --- the call --- */

/* libssh 0.11 offers the agent's next key after a DISCONNECT. Its error is then the closed socket,
 * and only its log has the server's reason. */
static void on_log(int priority, const char *function, const char *text, void *arg) {
    struct session *s = arg;
    const char *at = strstr(text, "Received SSH_MSG_DISCONNECT");
    (void)priority;
    (void)function;
    if (at && !s->disconnect[0])
        snprintf(s->disconnect, sizeof s->disconnect, "%s", at);
}

/* libssh's blocking mode would wait on after the server has hung up. There is no deadline here:
 * agent_cut ends the loop. */
static int authenticate(struct session *s) {
    int rc;
    while ((rc = ssh_userauth_agent(s->ssh, NULL)) == SSH_AUTH_AGAIN) {
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        if (ssh_get_status(s->ssh) & (SSH_CLOSED | SSH_CLOSED_ERROR))
            return SSH_AUTH_ERROR;
        if (ssh_get_poll_flags(s->ssh) & SSH_WRITE_PENDING)
            p.events |= POLLOUT;
        poll(&p, 1, -1);
    }
    return rc;
}

static void on_worker(uv_work_t *w) {
    struct ssh_agent_call *c = w->data;
    pthread_t thread;
    int has_filter = c->pair[1] >= 0 && !pthread_create(&thread, NULL, filter_thread, c);
    if (c->pair[1] >= 0 && !has_filter) {
        c->rc = SSH_AUTH_DENIED;
        return;
    }
    c->s->disconnect[0] = 0;
    ssh_set_log_userdata(c->s); /* log settings of libssh are per thread */
    ssh_set_log_callback(on_log);
    ssh_set_log_level(SSH_LOG_PACKET);
    c->rc = authenticate(c->s);
    ssh_set_log_level(SSH_LOG_NOLOG);
    ssh_set_log_userdata(NULL); /* the thread may outlive the session */
    if (c->s->disconnect[0] && c->rc == SSH_AUTH_DENIED)
        c->rc = SSH_AUTH_ERROR;
    if (has_filter) {
        shutdown(c->pair[1], SHUT_RDWR);
        shutdown(c->fd, SHUT_RDWR);
        pthread_join(thread, NULL);
    }
}

static void on_worker_done(uv_work_t *w, int status) {
    struct ssh_agent_call *c = w->data;
    struct session *s = c->s;
    (void)status;
    c->done = 1;
    if (s->step == STEP_CLOSING) {
        s->agent = NULL;
        call_free(c);
        session_drop(s);
        session_handle_gone(s);
        return;
    }
    s->n_handles--; /* not the last handle: the timers are open */
    session_drive(s);
}

static int agent_connect(struct session *s) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (pd_fmt(a.sun_path, sizeof a.sun_path, "%s", s->target.agent_path))
        return -1;
    /* Non-blocking: an agent with a full queue must not block the loop. */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&a, sizeof a)) {
        auth_note(s, "ssh agent", strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

static int filter_new(struct session *s, struct ssh_agent_call *c) {
    for (int i = 0; i < s->target.n_keys; i++) {
        const struct ssh_key_file *k = s->target.keys[i];
        ssh_key key = k->pub ? k->pub : k->key;
        if (key && ssh_pki_export_pubkey_base64(key, &c->wanted[c->n_wanted]) == SSH_OK)
            c->n_wanted++;
    }
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, c->pair);
}

/* 0: the worker runs; 1: there is no agent; else PD_E*. */
static int call_new(struct session *s) {
    struct ssh_agent_call *c = pd_calloc(1, sizeof *c);
    if (!c)
        return PD_ENOMEM;
    c->s = s;
    c->work.data = c;
    c->pair[0] = c->pair[1] = -1;
    c->fd = agent_connect(s);
    if (c->fd < 0) {
        call_free(c);
        return 1;
    }
    fcntl(c->fd, F_SETFL, 0); /* the threads use blocking calls */
    int rc = s->target.only_named_keys && filter_new(s, c) ? PD_EFAIL : 0;
    /* libssh closes its descriptor with the session. Ours is for agent_cut. */
    int theirs = rc ? -1 : c->pair[0] >= 0 ? c->pair[0] : fcntl(c->fd, F_DUPFD_CLOEXEC, 3);
    if (theirs >= 0) { /* else libssh would connect by itself, and agent_cut could not end it */
        ssh_set_agent_socket(s->ssh, theirs);
        c->pair[0] = -1;
    }
    if (theirs < 0 || uv_queue_work(s->pool->loop, &c->work, on_worker, on_worker_done)) {
        call_free(c);
        return PD_EFAIL;
    }
    s->agent = c;
    s->n_handles++;
    return 0;
}

enum ssh_step run_agent(struct session *s) {
    if (!s->agent) {
        int rc = s->target.agent_path && (s->target.methods & SSH_AUTH_METHOD_PUBLICKEY)
                     ? call_new(s)
                     : 1;
        if (rc < 0)
            return session_fail(s, rc, "cannot reach the ssh agent: %s",
                                rc == PD_ENOMEM ? "out of memory" : strerror(errno));
        return rc ? STEP_LOCKED_KEY_AUTH : STEP_AGENT_AUTH;
    }
    if (!s->agent->done)
        return STEP_AGENT_AUTH;
    int rc = s->agent->rc;
    call_free(s->agent);
    s->agent = NULL;
    if (s->why.code)
        return STEP_FAILED;
    if (rc == SSH_AUTH_SUCCESS)
        return auth_in(s);
    auth_note(s, "ssh agent", NULL);
    return rc == SSH_AUTH_ERROR ? auth_broken(s) : STEP_LOCKED_KEY_AUTH;
}
