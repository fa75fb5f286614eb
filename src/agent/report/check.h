/* check.h - what `paddlectl check` asks of a node: facts, whether root_dir can be used, and which
 * peers it reaches.
 *
 *     AG_CHECK          facts (check.c), or with `clock` only the time
 *     AG_CHECK_LISTEN   listen on the first free port as a pserver would; leave a mark in root_dir
 *     AG_CHECK_PROBE    which peers answer, at which address? Whose marks lie in root_dir?
 *
 * The port and the mark belong to the client and are removed with it.
 */
#ifndef PD_AGENT_CHECK_H
#define PD_AGENT_CHECK_H

#include <jansson.h>

#include "agent/client/client.h"

enum { CHECK_PEERS_MAX = 8, CHECK_ADDRS_MAX = 16, CHECK_PORTS_MAX = 128 };

extern const struct client_service check_service;     /* AG_CHECK; without a context */
extern const struct client_service check_net_service; /* the other two; without a context */

/* Version of the C library in its file's bytes: "2.36" after "stable release version ". 0 or -1. */
int check_glibc_version(const uint8_t *p, size_t n, char out[16]);

#endif
