/* ssh_config.h - what ~/.ssh/config says of a host, in OpenSSH's own words.
 *
 * The one who knows what a configuration means is `ssh -G NAME`; but asking it for each of 500
 * hosts costs seconds. So the files are read here as well, as far as it takes to see which Host and
 * Match lines cover a name: names that the same lines cover form a class, and ssh is asked once per
 * class, in the background, eight at a time. Where the outcome may depend on the name in other ways
 * (Match exec, a % in HostName, CanonicalizeHostname) each name is a class of its own. When no file
 * has anything that concerns us, nobody is asked.
 *
 * Without an ssh program the lines are evaluated here: Host, Match host, originalhost, user,
 * localuser and all, Include. What can't be decided then, and in any case what is not followed
 * (CertificateFile, Ciphers, ...), is warned of once when it stands where it would count for a host
 * that is used.
 */
#ifndef LAUNCHER_SSH_CONFIG_H
#define LAUNCHER_SSH_CONFIG_H

#include <uv.h>

#include "base/err.h"

struct ssh_pool;
struct ssh_config;
struct session;

/* The answer. Strings are NULL when nothing is said. */
struct ssh_conf {
    char *hostname; /* NULL: the name itself */
    char *user, *port, *proxy_jump, *proxy_command, *key_alias, *agent, *bind_address, *family,
        *known_hosts, *global_known_hosts, *strict, *identities_only, *batch, *publickey, *password,
        *kbdint;
    char **identities; /* as written, with ~ and %; in order */
    int n_identities;
};

enum ssh_class_state { CLASS_ASKED, CLASS_KNOWN, CLASS_FAILED };

struct ssh_class;

/* `file` is named by the user (then it must be readable and is the only one), or the usual one
 * (`named` 0: it may be missing, and the system's counts, too). Nothing is asked yet. */
int ssh_config_new(struct ssh_config **out, struct ssh_pool *pool, const char *file, int named,
                   struct pd_err *err);
void ssh_config_free(
    struct ssh_config *c); /* after ssh_config_cancel and the loop's close callbacks */
void ssh_config_cancel(struct ssh_config *c);

/* The class of this host; `user` (or NULL) and `port` (or 0) are what conf.ini gives. */
int ssh_config_class(struct ssh_class **out, struct ssh_config *c, const char *alias,
                     const char *user, int port, struct pd_err *err);
/* While it is CLASS_ASKED `s` waits and is woken. */
enum ssh_class_state ssh_class_state(struct ssh_class *k, struct session *s);
const struct ssh_conf *ssh_class_conf(const struct ssh_class *k);
const struct pd_err *ssh_class_error(const struct ssh_class *k);

#endif
