/* SPDX-License-Identifier: Apache-2.0 */
/* seeding.h - the agent to hosts that lack it: once over this machine's link, then from host to
 * host.
 *
 * Each such host runs a seed (src/seed) behind its bootstrap. The launcher tells each seed its
 * source of the packed agent, sends chunks itself, and dismisses a seed that no other takes from.
 * relay_plan.h decides who takes from whom, as for packages. Hosts that do not reach each other
 * take from the launcher.
 *
 *     COMING ── port ──▶ TAKES ── done ──▶ HAS_ALL ── no host takes from it ──▶ (go)
 *
 * At "go" the seed unpacks and starts the agent.
 */
#pragma once

#include <uv.h>

#include "launcher/link/bootstrap.h"
#include "launcher/transport/transport.h"

struct seeding;
struct seedling; /* one host's part in the seeding */

/* `relay` 0, or an image without a seed: no seeds, only the count of bytes. NULL: out of memory. */
struct seeding *seeding_new(uv_loop_t *loop, const struct agent_image *img, int n_nodes, int relay);
void seeding_free(struct seeding *s); /* after all seedlings are freed; runs the loop once more */

/* Add n bytes of the agent (or of a seed) that the caller sent to a host. */
void seeding_count(struct seeding *s, size_t n);
uint64_t seeding_sent(const struct seeding *s);

/* A host that paddlectl is logging in to. `broken` is called when memory runs out; it may free the
 * seedling. Returns NULL: no seed for this host. */
struct seedling *seedling_new(struct seeding *s, int node, void (*broken)(void *arg), void *arg);
/* The host has its agent or is lost; hosts that took from it get other sources. */
void seedling_free(struct seedling *l);

/* The host's script asks for the seed. `connection` is SSH_CONNECTION; "" if unknown: no host takes
 * from this one. `t` carries the launcher's records. */
void seedling_begin(struct seedling *l, struct transport *t, const char *connection);
/* `words`: the text behind "MARKER seed ". PD_EPROTO: not a seed's message. `broken` may have been
 * called. */
int seedling_message(struct seedling *l, const char *words, struct pd_err *err);
void seedling_send(struct seedling *l); /* the queue of `t` is short */
