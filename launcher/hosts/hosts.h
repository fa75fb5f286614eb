/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.h - the nodes: conf.ini's host list, expanded (expand.h), and the settings of its [host
 * ...] sections. The order written is the node id. `local` is a node on this machine, reached
 * without ssh. */
#pragma once

#include "launcher/hosts/expand.h"

struct host {
    char *spec; /* as the user would write this host: "root@192.168.1.10:22" */
    /* short and unique in the list: "192.168.1.10", "local.2" */
    char *label;
    char *user; /* NULL: not given */
    char *addr; /* name or address in the list; NULL for a local node */
    int port;   /* 0: not given */
    int local;
    /* From the matching [host ...] sections, as are user and port above: */
    char *address;       /* what ssh connects to; NULL: addr */
    char *identity_file; /* NULL: [ssh] identity_file */
    /* with ~ and %n; after hosts_load never NULL: this host's, or [cluster] root_dir */
    char *root_dir;
    /* added to [env], whose variables it replaces; the strings belong to the options */
    const struct pd_env_var **env;
    size_t n_env;
    /* the source of each setting, "conf.ini:12"; NULL: as for all hosts. The strings belong to the
     * options. */
    const char *from[PD_HOST_N_KEYS];
};

struct hosts {
    struct host *v;
    size_t n;
};

/* Expand `text`, without groups and sections. Messages begin with `where` ("conf.ini:12").
 * PD_ECONF: not a host list, an empty list, or a host given twice. */
int hosts_parse(struct hosts *out, const char *text, const char *where, struct pd_err *err);

/* The hosts of the configuration, with groups, files and sections. `opts` must outlive them. */
int hosts_load(struct hosts *out, const struct pd_options *opts, struct pd_err *err);
/* The same with `list` in place of the option `hosts`. */
int hosts_load_list(struct hosts *out, const struct pd_options *opts, const char *list,
                    struct pd_err *err);
void hosts_release(struct hosts *h);

/* Apply the [host ...] sections; a later section wins, key by key. The command line's root_dir,
 * identity_file and host list win over sections. PD_ECONF: a section that matches no host of
 * conf.ini's list. */
int hosts_apply_sections(struct hosts *h, const struct pd_options *opts, struct pd_err *err);

/* Which nodes have a role: "all", "4" (the first four) or "nodes 0-3,7". On success *ids holds *n
 * node ids in the order written; their index is the rank. The caller frees *ids. `what` names the
 * key in messages. */
int hosts_parse_roles(int **ids, size_t *n, const char *text, size_t n_nodes, const char *what,
                      const char *where, struct pd_err *err);

/* Set chosen[id] = 1 for each host that the list names: node ids ("0-3,7"), names as the user wrote
 * them, with * and ?, groups. PD_EUSAGE: a word that names no host. */
int hosts_filter(const struct hosts *h, const char *list, const struct pd_options *opts,
                 char *chosen, struct pd_err *err);

/* One item of such a list: node ids ("3", "0-7"), or a name. It is read once and compared with each
 * host, because both lists may have thousands. */
struct host_item {
    const char *text; /* the caller's */
    int is_ids;
    int64_t lo, hi;
    char addr[300]; /* "": the text has no form of an address */
    int port, has_globs;
};
void host_item_read(struct host_item *item, const char *text);
/* 1: the item has the id `node`, or names this host by its label, its address, or as the user wrote
 * it. */
int host_item_matches(const struct host_item *item, const struct host *h, int64_t node);
