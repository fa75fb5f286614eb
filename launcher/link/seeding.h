/* seeding.h - the agent to hosts that have none: over this machine's link once, then from host to
 * host.
 *
 * Each such host runs a seed (src/seed) behind its bootstrap; here is what all seeds of a run are
 * told: whom to take the packed agent from, or its chunks themselves, and when nobody takes from
 * them any more. Who takes from whom decides plan.h, as for packages. Where hosts do not reach each
 * other, each gets it from here.
 *
 *     COMING ── port ──▶ TAKES ── done ──▶ HAS_ALL ── nobody takes from it ──▶ (go: it unpacks and starts the agent)
 */
#ifndef LAUNCHER_SEEDING_H
#define LAUNCHER_SEEDING_H

#include <uv.h>

#include "launcher/link/bootstrap.h"
#include "launcher/transport/transport.h"

struct seeding;
struct seedling; /* one host's place in it */

/* `relay` 0, or an image without a seed: no seeds, only the count. NULL: out of memory. */
struct seeding *seeding_new(uv_loop_t *loop, const struct agent_image *img, int n_nodes, int relay);
void seeding_free(struct seeding *s); /* after all seedlings; runs the loop once more */

/* Bytes of the agent (and of seeds) that went from here to hosts; who sends some tells it. */
void seeding_count(struct seeding *s, size_t n);
uint64_t seeding_sent(const struct seeding *s);

/* A host that is being logged in to. `broken` is called when it can't go on for lack of memory; it
 * may free the seedling. NULL: without a seed. */
struct seedling *seedling_new(struct seeding *s, int node, void (*broken)(void *arg), void *arg);
void seedling_free(struct seedling *l); /* it has its agent, or is gone; those that took from it
                                           take from others */

/* Its script asks for the seed: `connection` is SSH_CONNECTION ("" when not known: nobody takes
 * from it), `t` carries what it is told. */
void seedling_begin(struct seedling *l, struct transport *t, const char *connection);
/* What stood behind "MARKER seed ". PD_EPROTO: no seed says that. `broken` may have been called. */
int seedling_message(struct seedling *l, const char *words, struct pd_err *err);
void seedling_send(struct seedling *l); /* t's queue is short */

#endif
