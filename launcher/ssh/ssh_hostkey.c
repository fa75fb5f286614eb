/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_hostkey.c - the step that checks the host key of the server against known_hosts. */
#include "launcher/ssh/ssh_internal.h"

/* known_hosts has names of key types; libssh takes names of signature algorithms. */
static void ask_for_types(struct session *s, const char *types) {
    char copy[300];
    pd_fmt(copy, sizeof copy, "%s", types);
    s->hostkey_types[0] = 0;
    for (char *save = NULL, *t = strtok_r(copy, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
        size_t n = strlen(s->hostkey_types);
        snprintf(s->hostkey_types + n, sizeof s->hostkey_types - n, "%s%s", n ? "," : "",
                 strcmp(t, "ssh-rsa") ? t : "rsa-sha2-512,rsa-sha2-256");
    }
}

/* The message tells the user how to accept an unknown key. */
static void fail_unknown_key(struct session *s, const char *name, const char *type,
                             const char *fingerprint) {
    const struct ssh_target *t = &s->target;
    char port[20] = "", jump[300] = "", file[600] = "";
    if (t->port != 22)
        pd_fmt(port, sizeof port, "-p %d ", t->port);
    if (t->jump)
        pd_fmt(jump, sizeof jump, "-J %s ", t->jump);
    if (s->pool->known_named)
        pd_fmt(file, sizeof file, "-o UserKnownHostsFile=%s ", t->known->first);
    session_fail(s, PD_EHOST,
                 "the host key of %s (%s %s) is not in %s; compare it and log in once: ssh "
                 "%s%s%s%s@%s, or take the keys of all "
                 "new hosts: --host_key_policy=accept-new",
                 name, type, fingerprint, t->known->first, port, jump, file, t->user, t->host);
}

static enum ssh_step check_host_key(struct session *s, const char *type, const char *b64,
                                    const char *fingerprint) {
    const struct ssh_target *t = &s->target;
    const char *host = t->key_name ? t->key_name : t->host;
    int port = t->key_name ? 22 : t->port; /* known_hosts lists an alias without a port */
    struct kh_answer a;
    char name[300];
    known_hosts_check(t->known->keys, host, port, type, b64, &a);
    if (port == 22 || pd_fmt(name, sizeof name, "[%s]:%d", host, port))
        pd_fmt(name, sizeof name, "%s", host);
    switch (a.verdict) {
    case KH_OK:
        return STEP_NONE_AUTH;
    case KH_REVOKED:
        return session_fail(s, PD_EHOST,
                            "%s: the host key of %s (%s %s) is revoked; connection refused",
                            a.where, name, type, fingerprint);
    case KH_OTHER_TYPES:
        if (!s->retried_types) {
            s->retried_types = 1;
            ask_for_types(s, a.types);
            session_drop(s);
            return session_first_step(s);
        } /* fall through */
    case KH_CHANGED:
        return session_fail(s, PD_EHOST,
                            "%s: HOST KEY CHANGED: %s now shows %s %s; someone may be listening "
                            "in. Connection refused. "
                            "If the host was set up anew: ssh-keygen -R '%s'%s%s",
                            a.where, name, type, fingerprint, name,
                            s->pool->known_named ? " -f " : "",
                            s->pool->known_named ? t->known->first : "");
    case KH_UNKNOWN:
        break;
    }
    if (!t->accept_new) {
        fail_unknown_key(s, name, type, fingerprint);
        return STEP_FAILED;
    }
    struct pd_err err = {0};
    if (*t->known->first &&
        known_hosts_add(t->known->keys, t->known->first, host, port, type, b64, &err))
        return session_fail(s, PD_EHOST, "%s", err.msg);
    return STEP_NONE_AUTH;
}

enum ssh_step run_host_key(struct session *s) {
    ssh_key key = NULL;
    char *b64 = NULL, *fingerprint = NULL;
    unsigned char *hash = NULL;
    size_t n = 0;
    enum ssh_step next;
    if (ssh_get_server_publickey(s->ssh, &key) || ssh_pki_export_pubkey_base64(key, &b64) ||
        ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &n) ||
        !(fingerprint = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, n))) {
        next = session_fail(s, PD_EHOST, "cannot read the host key: %s", ssh_get_error(s->ssh));
    } else {
        next = check_host_key(s, ssh_key_type_to_char(ssh_key_type(key)), b64, fingerprint);
    }
    ssh_string_free_char(b64);
    ssh_string_free_char(fingerprint);
    ssh_clean_pubkey_hash(&hash);
    ssh_key_free(key);
    return next;
}
