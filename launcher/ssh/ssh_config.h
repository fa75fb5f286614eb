/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_config.h - what ~/.ssh/config says about a host, as `ssh -G NAME` prints it.
 *
 * paddlectl reads the files only to learn which names need a query of their own:
 *   - No file has a setting that concerns us: ssh is not asked.
 *   - No Host or Match line singles a name out, and no value has a % token or contains the name:
 *     one common query answers for all such names.
 *   - Otherwise each name (with the user and port of conf.ini) is a query of its own: 4 ms of CPU.
 * Queries run in the background, eight at a time, with a time limit.
 *
 * Settings that change how ssh logs in and that are not followed (CertificateFile, Ciphers, ...)
 * cause a warning with file and line, once, when they apply to a host that is used. Below a Match
 * line a setting applies if the answer of ssh repeats it.
 *
 * Without an ssh program the files are not read; a warning says so.
 */
#pragma once

#include <uv.h>

struct ssh_pool;
struct ssh_config;
struct session;

/* The answer. A string is NULL when the setting is missing. */
struct ssh_settings {
    char *hostname; /* NULL: the name itself */
    char *user, *port, *proxy_jump, *proxy_command, *key_alias, *agent, *bind_address, *family,
        *known_hosts, *global_known_hosts, *strict, *identities_only, *batch, *publickey, *password,
        *kbdint;
    char **identities; /* as written, with ~ and %, in order */
    int n_identities;
};

enum ssh_query_state { QUERY_WAITS, QUERY_DONE, QUERY_FAILED };

struct ssh_query;

/* `named`: conf.ini names `file`, so the file must be readable and is the only one. Otherwise
 * `file` is the usual one, which may be missing, and the system's file counts as well. */
int ssh_config_new(struct ssh_config **out, struct ssh_pool *pool, const char *file, int named,
                   struct pd_err *err);
/* Ends the queries that run. After the loop's close callbacks ssh_config_free may follow. */
void ssh_config_cancel(struct ssh_config *c);
void ssh_config_free(struct ssh_config *c);

/* The query that answers for this host. `user` (or NULL) and `port` (or 0) are those of conf.ini.
 * The query belongs to `c` and starts when a session waits for it. */
int ssh_config_query(struct ssh_query **out, struct ssh_config *c, const char *alias,
                     const char *user, int port, struct pd_err *err);
/* QUERY_WAITS: `s` is woken when the state changes. */
enum ssh_query_state ssh_query_state(struct ssh_query *q, struct session *s);
const struct ssh_settings *ssh_query_settings(const struct ssh_query *q);
const struct pd_err *ssh_query_error(const struct ssh_query *q);
