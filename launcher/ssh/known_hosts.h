/* known_hosts.h - the host keys this user trusts, read once per run and indexed by key.
 *
 * A file of thousands of hashed lines costs one HMAC a line for each host that is looked up by
 * name, so the lookup goes the other way: the server shows its key, the index gives the few lines
 * that hold this very key, and only those are compared with the name. The whole list is walked only
 * when none of them fits, to tell "unknown" from "changed".
 *
 * Lines are OpenSSH's (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT): patterns with * ? and !, [host]:port,
 * |1|salt|hash,
 * @revoked; @cert-authority lines are skipped, since certificates of hosts are not supported.
 */
#ifndef LAUNCHER_KNOWN_HOSTS_H
#define LAUNCHER_KNOWN_HOSTS_H

#include <stddef.h>

#include "base/err.h"

enum kh_verdict {
    KH_OK,          /* this key is listed for this host */
    KH_UNKNOWN,     /* nothing is listed for this host */
    KH_CHANGED,     /* another key of the same type is listed: refuse, always */
    KH_OTHER_TYPES, /* only keys of other types are listed: ask the server for one of these */
    KH_REVOKED,     /* this key is marked @revoked */
};

struct kh_answer {
    enum kh_verdict verdict;
    char where[600]; /* "file:line" of the line that decided; "" for KH_UNKNOWN */
    char types[300]; /* KH_OTHER_TYPES: their names, with commas */
};

struct known_hosts;

/* Read the files; one that does not exist counts as empty. */
int known_hosts_load(struct known_hosts **out, const char *const *files, size_t n_files,
                     struct pd_err *err);
void known_hosts_free(struct known_hosts *kh);

/* `type` is "ssh-ed25519", `key` its base64 as in the file. */
void known_hosts_check(const struct known_hosts *kh, const char *host, int port, const char *type,
                       const char *key, struct kh_answer *out);

/* Append a line for this host to `file` (made, with its folder, if missing) and to the list in
 * memory. */
int known_hosts_add(struct known_hosts *kh, const char *file, const char *host, int port,
                    const char *type, const char *key, struct pd_err *err);

#endif
