/* ssh_auth.c - who the server is, and who we are.
 *
 * Order: the key file that is named (conf.ini, else ~/.ssh/config), or the usual key files; then the ssh agent. Talking
 * to an agent blocks without a limit inside libssh, so that step runs on a worker thread, over a socket of ours: when
 * the deadline comes, shutting it down makes the worker come back.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/str.h"
#include "launcher/ssh/ssh_impl.h"

static void note_tried(struct session *s, const char *what, const char *why) {
    size_t n = strlen(s->tried);
    snprintf(s->tried + n, sizeof s->tried - n, "%s%s%s%s%s", n ? ", " : "", what, why ? " (" : "", why ? why : "",
             why ? ")" : "");
}

static void add_key(struct session *s, const char *path, int quiet) {
    char *full = ssh_pool_expand(s->pool, path);
    const struct ssh_key_file *k = full ? ssh_pool_key(s->pool, full) : NULL;
    free(full);
    if (!k)
        return;
    if (k->key)
        s->keys[s->n_keys++] = k;
    else if (!quiet)
        note_tried(s, k->path, k->why);
}

void auth_init(struct session *s) {
    static const char *const usual[] = {"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"};
    if (*s->pool->identity_file && !s->own_identity)
        add_key(s, s->pool->identity_file, 0);
    else if (s->config_identity)
        add_key(s, s->config_identity, 0);
    else
        for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
            add_key(s, usual[i], 1);
}

/* --- the server ------------------------------------------------------------------------------------------ */

/* libssh wants the names of signature algorithms, known_hosts has those of keys. */
static void wanted_types(struct session *s, const char *types) {
    char copy[300];
    pd_fmt(copy, sizeof copy, "%s", types);
    s->hostkey_types[0] = 0;
    for (char *save = NULL, *t = strtok_r(copy, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
        size_t n = strlen(s->hostkey_types);
        snprintf(s->hostkey_types + n, sizeof s->hostkey_types - n, "%s%s", n ? "," : "",
                 strcmp(t, "ssh-rsa") ? t : "rsa-sha2-512,rsa-sha2-256");
    }
}

static enum ssh_step judge(struct session *s, const char *type, const char *b64, const char *print) {
    struct kh_answer a;
    char name[300];
    known_hosts_check(s->pool->known, s->host, s->port, type, b64, &a);
    if (s->port == 22 || pd_fmt(name, sizeof name, "[%s]:%d", s->host, s->port))
        pd_fmt(name, sizeof name, "%s", s->host);
    switch (a.verdict) {
    case KH_OK:
        return STEP_KEY_AUTH;
    case KH_REVOKED:
        return session_fail(s, PD_EHOST, "%s: the host key of %s (%s %s) is revoked; connection refused", a.where, name,
                            type, print);
    case KH_OTHER_TYPES:
        if (!s->retried_types) {
            s->retried_types = 1;
            wanted_types(s, a.types);
            session_reconnect(s);
            return STEP_CONNECT;
        } /* fall through */
    case KH_CHANGED:
        return session_fail(s, PD_EHOST,
                            "%s: HOST KEY CHANGED: %s now shows %s %s; someone may be listening in. Connection refused. "
                            "If the host was set up anew: ssh-keygen -R '%s'", a.where, name, type, print, name);
    case KH_UNKNOWN:
        break;
    }
    if (!s->pool->accept_new)
        return session_fail(s, PD_EHOST,
                            "the host key of %s (%s %s) is not in %s; log in once with ssh, or set host_key_policy = "
                            "accept-new", name, type, print, s->pool->known_hosts_file);
    struct pd_err err = {0};
    if (known_hosts_add(s->pool->known, s->pool->known_hosts_file, s->host, s->port, type, b64, &err))
        return session_fail(s, PD_EHOST, "%s", err.msg);
    return STEP_KEY_AUTH;
}

enum ssh_step auth_host_key(struct session *s) {
    ssh_key key = NULL;
    char *b64 = NULL, *print = NULL;
    unsigned char *hash = NULL;
    size_t n = 0;
    enum ssh_step next;
    if (ssh_get_server_publickey(s->ssh, &key) || ssh_pki_export_pubkey_base64(key, &b64) ||
        ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &n) ||
        !(print = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, n))) {
        next = session_fail(s, PD_EHOST, "cannot read the host key: %s", ssh_get_error(s->ssh));
    } else {
        next = judge(s, ssh_key_type_to_char(ssh_key_type(key)), b64, print);
    }
    ssh_string_free_char(b64);
    ssh_string_free_char(print);
    ssh_clean_pubkey_hash(&hash);
    ssh_key_free(key);
    return next;
}

/* --- us ---------------------------------------------------------------------------------------------------- */

static enum ssh_step denied(struct session *s) {
    return session_fail(s, PD_EAUTH, "authentication failed for user %s; tried: %s", s->user,
                        s->tried[0] ? s->tried : "nothing (no key file, no ssh agent)");
}

enum ssh_step auth_key(struct session *s) {
    while (s->next_key < s->n_keys) {
        const struct ssh_key_file *k = s->keys[s->next_key];
        int rc = ssh_userauth_publickey(s->ssh, NULL, k->key);
        if (rc == SSH_AUTH_AGAIN)
            return STEP_KEY_AUTH;
        if (rc == SSH_AUTH_SUCCESS)
            return STEP_CHANNEL;
        note_tried(s, k->path, rc == SSH_AUTH_PARTIAL ? "accepted, but the server wants more than a key" : NULL);
        if (rc == SSH_AUTH_ERROR)
            return session_fail(s, PD_EAUTH, "authentication failed for user %s; tried: %s: %s", s->user, s->tried,
                                ssh_get_error(s->ssh));
        s->next_key++;
    }
    return STEP_AGENT_AUTH;
}

static int agent_open(struct session *s) {
    const char *path = getenv("SSH_AUTH_SOCK");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (!path || !*path || pd_fmt(a.sun_path, sizeof a.sun_path, "%s", path))
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&a, sizeof a)) {
        note_tried(s, "ssh agent", strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

static void agent_in_thread(uv_work_t *w) {
    struct session *s = w->data;
    ssh_set_blocking(s->ssh, 1);
    s->agent_rc = ssh_userauth_agent(s->ssh, NULL);
    ssh_set_blocking(s->ssh, 0);
}

static void on_agent_done(uv_work_t *w, int status) {
    struct session *s = w->data;
    (void)status;
    s->agent_done = 1;
    session_agent_back(s);
}

void auth_agent_cut(struct session *s) {
    shutdown(s->agent_fd, SHUT_RDWR);
    shutdown(s->fd, SHUT_RDWR);
}

enum ssh_step auth_agent(struct session *s) {
    if (s->agent_fd < 0) {
        if ((s->agent_fd = agent_open(s)) < 0)
            return denied(s);
        int theirs = dup(s->agent_fd); /* libssh closes its one with the session; ours is for cutting it */
        if (theirs < 0)
            return session_fail(s, PD_EFAIL, "cannot reach the ssh agent: %s", strerror(errno));
        s->agent_done = 0;
        ssh_set_agent_socket(s->ssh, theirs);
        s->agent_work.data = s;
        if (uv_queue_work(s->pool->loop, &s->agent_work, agent_in_thread, on_agent_done)) {
            s->agent_done = 1;
            return session_fail(s, PD_EFAIL, "cannot start a thread for the ssh agent");
        }
        s->n_handles++;
        return STEP_AGENT_AUTH;
    }
    if (!s->agent_done)
        return STEP_AGENT_AUTH;
    if (s->why.code)
        return STEP_FAILED;
    if (s->agent_rc == SSH_AUTH_SUCCESS)
        return STEP_CHANNEL;
    note_tried(s, "ssh agent", s->agent_rc == SSH_AUTH_ERROR ? ssh_get_error(s->ssh) : NULL);
    return denied(s);
}
