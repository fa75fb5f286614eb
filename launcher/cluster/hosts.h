/* hosts.h - the host list of conf.ini expanded into nodes; the order written is the node id.
 *
 *     hosts = root@192.168.1.[10-17]:22, gpu-[01-04], [fe80::1]:22, local*3
 *
 * Brackets hold numbers and ranges ("[1-3,07,10-12]"); leading zeros pad; several brackets multiply. A bracket with a
 * colon inside is an IPv6 address. `local` is a node on this machine, reached without ssh.
 */
#ifndef LAUNCHER_HOSTS_H
#define LAUNCHER_HOSTS_H

#include <stddef.h>

#include "base/err.h"

enum { HOSTS_MAX = 16384 };

struct host {
    char *spec;  /* as the user would write this one: "root@192.168.1.10:22" */
    char *label; /* short and unique in the list, for log prefixes and messages: "192.168.1.10", "local.2" */
    char *user;  /* NULL: not given */
    char *addr;  /* name or address; NULL for a local node */
    int port;    /* 0: not given */
    int local;
};

struct hosts {
    struct host *v;
    size_t n;
};

/* Expand `text`. `where` ("conf.ini:12") begins the messages. PD_ECONF for what is not a host list, an empty one, or
 * a host given twice. */
int hosts_parse(struct hosts *out, const char *text, const char *where, struct pd_err *err);
void hosts_release(struct hosts *h);

/* Which nodes have a role: "all", "4" (the first four) or "nodes 0-3,7". On success *ids (the caller's to free) holds
 * *n node ids in the order written; their index is the rank. `what` names the key in messages. */
int hosts_roles(int **ids, size_t *n, const char *text, size_t n_nodes, const char *what, const char *where,
                struct pd_err *err);

#endif
