/* SPDX-License-Identifier: Apache-2.0 */
/* known_hosts.h - the host keys that the user trusts, read once per run and indexed by key.
 *
 * In a file of hashed lines, a lookup by name costs one HMAC per line and host. The lookup is
 * therefore by key: the index gives the few lines that have the server's key, and only these are
 * compared with the name. If none of these fits, a walk over all lines tells an unknown host from a
 * changed key.
 *
 * The format is OpenSSH's (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT): patterns with * ? and !,
 * [host]:port, |1|salt|hash, @revoked. @cert-authority lines are skipped, since certificates of
 * hosts are not supported.
 */
#pragma once

enum kh_verdict {
    KH_OK,          /* this key is listed for this host */
    KH_UNKNOWN,     /* nothing is listed for this host */
    KH_CHANGED,     /* another key of the same type is listed: refuse, always */
    KH_OTHER_TYPES, /* only keys of other types are listed: ask the server for these types */
    KH_REVOKED,     /* this key is marked @revoked */
};

struct kh_answer {
    enum kh_verdict verdict;
    char where[600]; /* "file:line" of the deciding line; "" for KH_UNKNOWN */
    char types[300]; /* KH_OTHER_TYPES: the listed types, with commas */
};

struct known_hosts;

/* Reads the files. A missing file counts as empty. */
int known_hosts_load(struct known_hosts **out, const char *const *files, size_t n_files,
                     struct pd_err *err);
void known_hosts_free(struct known_hosts *kh);

/* `type` is "ssh-ed25519", `key` its base64 as in the file. */
void known_hosts_check(const struct known_hosts *kh, const char *host, int port, const char *type,
                       const char *key, struct kh_answer *out);

/* Appends a line for this host to `file` and to the list in memory. Makes the file and its folder
 * if they are missing. */
int known_hosts_add(struct known_hosts *kh, const char *file, const char *host, int port,
                    const char *type, const char *key, struct pd_err *err);
