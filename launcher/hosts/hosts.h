/* hosts.h - the nodes: conf.ini's host list expanded (expand.h), in the order written, which is the
 * node id, and what its [host ...] sections say of each. `local` is a node on this machine, reached
 * without ssh.
 */
#ifndef LAUNCHER_HOSTS_H
#define LAUNCHER_HOSTS_H

#include <stddef.h>

#include "base/err.h"
#include "launcher/hosts/expand.h"

struct host {
    char *spec;  /* as the user would write this one: "root@192.168.1.10:22" */
    char *label; /* short and unique in the list, for log prefixes and messages: "192.168.1.10",
                    "local.2" */
    char *user;  /* NULL: not given */
    char *addr;  /* name or address in the list; NULL for a local node */
    int port;    /* 0: not given */
    int local;
    /* Of the [host ...] sections that match; user and port above are after them. */
    char *address;       /* what ssh connects to; NULL: addr */
    char *identity_file; /* NULL: [ssh] identity_file */
    char *root_dir;      /* with ~ and %n; of hosts_load never NULL: here or [cluster] root_dir */
    const struct pd_env_var *
        *env; /* beside [env], whose variables it replaces; the strings are the options' */
    size_t n_env;
    const char *from[PD_HOST_N_KEYS]; /* where each came from, "conf.ini:12"; NULL: as for all
                                         hosts. The options' strings. */
};

struct hosts {
    struct host *v;
    size_t n;
};

/* Expand `text`, without groups and sections. `where` ("conf.ini:12") begins the messages. PD_ECONF
 * for what is not a host list, an empty one, or a host given twice. */
int hosts_parse(struct hosts *out, const char *text, const char *where, struct pd_err *err);

/* The hosts of the configuration, with groups, files and sections. `opts` must outlive them. */
int hosts_load(struct hosts *out, const struct pd_options *opts, struct pd_err *err);
void hosts_release(struct hosts *h);

/* The [host ...] sections: a later one wins, key by key. What the command line says of root_dir,
 * identity_file or in the host list itself wins over them. A section that is right for no host of
 * conf.ini's list is PD_ECONF. */
int hosts_apply_sections(struct hosts *h, const struct pd_options *opts, struct pd_err *err);

/* Which nodes have a role: "all", "4" (the first four) or "nodes 0-3,7". On success *ids (the
 * caller's to free) holds *n node ids in the order written; their index is the rank. `what` names
 * the key in messages. */
int hosts_parse_roles(int **ids, size_t *n, const char *text, size_t n_nodes, const char *what,
                      const char *where, struct pd_err *err);

/* Which of them a list means: node ids ("0-3,7"), names as the user wrote them, with * and ?,
 * groups. chosen[id] becomes 1. PD_EUSAGE for what names none. */
int hosts_filter(const struct hosts *h, const char *list, const struct pd_options *opts,
                 char *chosen, struct pd_err *err);

/* Of one item of such a list. 1: it is a node id or a range, "3" or "0-7"; else 0. */
int host_ids(const char *text, int64_t *lo, int64_t *hi);
/* 1: the item names this host, by its label, its address, or as the user wrote it. */
int host_matches(const struct host *h, const char *text);

#endif
