/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_server.h - an ssh server that asks for passwords and questions; a normal sshd would need root
 * and PAM for that. It uses libssh's server side, with one process per connection. The user's
 * password is "sesame", the code is "4711". */
#include <arpa/inet.h>
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <libssh/server.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* libssh deprecates its messages, but the callbacks that replace them can't ask several questions.
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

enum server_kind {
    SERVER_PASSWORD, /* the method "password" */
    SERVER_QUESTION, /* keyboard-interactive: "Password: " */
    SERVER_CODE,     /* keyboard-interactive: two questions, the password and then a code */
    SERVER_COLOUR,   /* keyboard-interactive: one question with echo */
    SERVER_KEY_THEN_PASSWORD,
    SERVER_IMPATIENT, /* "password", but the first connections are dropped after one second */
};

struct server {
    pid_t pid;
    int port;
};

static inline void server_reply(ssh_message m, unsigned methods) {
    ssh_message_auth_set_methods(m, (int)methods);
    ssh_message_reply_default(m);
}

static inline void server_ask(ssh_message m, const char *question, char echo) {
    const char *v[] = {question};
    char echos[] = {echo};
    ssh_message_auth_interactive_request(m, "", "", 1, v, echos);
}

/* 1: the user is authenticated. *round counts the answers of this connection. */
static inline int server_auth(ssh_session s, ssh_message m, enum server_kind kind, int *round) {
    static const char *const questions[] = {
        "Password: ", "Verification code: ", "Favourite colour: "};
    int asks = kind == SERVER_QUESTION || kind == SERVER_CODE || kind == SERVER_COLOUR;
    unsigned methods = asks ? SSH_AUTH_METHOD_INTERACTIVE : SSH_AUTH_METHOD_PASSWORD;
    int type = ssh_message_subtype(m), first = kind == SERVER_COLOUR ? 2 : 0;
    if (kind == SERVER_KEY_THEN_PASSWORD && !*round)
        methods = SSH_AUTH_METHOD_PUBLICKEY;
    if (kind == SERVER_KEY_THEN_PASSWORD && type == SSH_AUTH_METHOD_PUBLICKEY) {
        if (ssh_message_auth_publickey_state(m) == SSH_PUBLICKEY_STATE_NONE) {
            ssh_message_auth_reply_pk_ok_simple(m);
        } else {
            *round = 1;
            ssh_message_auth_set_methods(m, SSH_AUTH_METHOD_PASSWORD);
            ssh_message_auth_reply_success(m, 1);
        }
    } else if (type == SSH_AUTH_METHOD_PASSWORD && (methods & SSH_AUTH_METHOD_PASSWORD)) {
        if (!strcmp(ssh_message_auth_password(m), "sesame"))
            return ssh_message_auth_reply_success(m, 0), 1;
        server_reply(m, methods);
    } else if (type == SSH_AUTH_METHOD_INTERACTIVE && asks &&
               !ssh_message_auth_kbdint_is_response(m)) {
        *round = 0;
        server_ask(m, questions[first], kind == SERVER_COLOUR);
    } else if (type == SSH_AUTH_METHOD_INTERACTIVE && asks) {
        const char *answer = ssh_userauth_kbdint_getanswer(s, 0);
        const char *right = kind == SERVER_COLOUR ? "blue" : *round ? "4711" : "sesame";
        if (!answer || strcmp(answer, right))
            server_reply(m, methods);
        else if (kind == SERVER_CODE && !(*round)++)
            server_ask(m, questions[1], 0);
        else
            return ssh_message_auth_reply_success(m, 0), 1;
    } else {
        server_reply(m, methods);
    }
    return 0;
}

static inline void server_talk(ssh_session s, enum server_kind kind) {
    ssh_channel ch = NULL;
    ssh_message m;
    int in = 0, round = 0;
    while ((m = ssh_message_get(s))) {
        int type = ssh_message_type(m), sub = ssh_message_subtype(m);
        if (!in && type == SSH_REQUEST_AUTH) {
            in = server_auth(s, m, kind, &round);
            if (in)
                alarm(20);
        } else if (in && type == SSH_REQUEST_CHANNEL_OPEN && sub == SSH_CHANNEL_SESSION && !ch) {
            ch = ssh_message_channel_request_open_reply_accept(m);
        } else if (in && type == SSH_REQUEST_CHANNEL && sub == SSH_CHANNEL_REQUEST_EXEC) {
            ssh_message_channel_request_reply_success(m);
            ssh_channel_write(ch, "hi\n", 3);
            ssh_channel_request_send_exit_status(ch, 0);
            ssh_channel_send_eof(ch);
            ssh_channel_close(ch);
        } else {
            ssh_message_reply_default(m);
        }
        ssh_message_free(m);
    }
}

static inline void server_connection(int fd, const char *host_key, enum server_kind kind) {
    ssh_bind b = ssh_bind_new();
    ssh_session s = ssh_new();
    ssh_bind_options_set(b, SSH_BIND_OPTIONS_HOSTKEY, host_key);
    alarm(kind == SERVER_IMPATIENT ? 1 : 20);
    if (ssh_bind_accept_fd(b, s, fd) == SSH_OK && ssh_handle_key_exchange(s) == SSH_OK) {
        ssh_set_auth_methods(s, SSH_AUTH_METHOD_PASSWORD | SSH_AUTH_METHOD_INTERACTIVE |
                                    SSH_AUTH_METHOD_PUBLICKEY);
        server_talk(s, kind);
    }
    _exit(0);
}

/* Starts the server. Must be called before the test has threads. */
static inline struct server server_start(const char *host_key, enum server_kind kind) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t n = sizeof a;
    struct server srv = {.pid = -1};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 64) ||
        getsockname(fd, (struct sockaddr *)&a, &n))
        return srv;
    srv.port = ntohs(a.sin_port);
    srv.pid = fork();
    if (!srv.pid) {
        int connections = 0;
        setpgid(0, 0);
        signal(SIGCHLD, SIG_IGN);
        for (;;) {
            int c = accept(fd, NULL, NULL);
            if (c >= 0 && !fork())
                server_connection(c, host_key,
                                  kind == SERVER_IMPATIENT && connections >= 2 ? SERVER_PASSWORD
                                                                               : kind);
            if (c >= 0)
                close(c);
            connections++;
        }
    }
    setpgid(srv.pid, srv.pid);
    close(fd);
    return srv;
}

static inline void server_stop(struct server *srv) {
    if (srv->pid <= 0)
        return;
    kill(-srv->pid, SIGKILL);
    waitpid(srv->pid, NULL, 0);
    srv->pid = -1;
}
