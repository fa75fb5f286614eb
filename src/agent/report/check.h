/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - the requests of `paddlectl check`: facts about the node, the state of root_dir, and the
 * peers that the node reaches.
 *
 *     AG_CHECK          facts (check.c), or with `clock` only the time
 *     AG_CHECK_LISTEN   listen on the first free port, like a pserver; leave a mark in root_dir
 *     AG_CHECK_PROBE    the peers that answer, with address; the nodes whose marks are in root_dir
 *
 * The port and the mark belong to the client, and are removed when it leaves. */
#pragma once

#include <jansson.h>

#include "agent/client/client.h"
#include "wire/client_bodies.h"

enum { CHECK_PEERS_MAX = WIRE_MAX_CHECKED, CHECK_ADDRS_MAX = 16 };

extern const struct client_service check_service;     /* AG_CHECK; needs no context */
extern const struct client_service check_net_service; /* the other two; needs no context */

/* Finds the C library's version in the bytes of its file: "2.36" after "stable release version ". 0
 * or -1. */
int check_glibc_version(const uint8_t *p, size_t n, char out[16]);
