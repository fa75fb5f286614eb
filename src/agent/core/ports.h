/* ports.h - free ports, held so that nobody else takes them meanwhile.
 *
 * A port for our own program is a bound socket that it inherits. A user's own program binds its
 * port itself, so our socket has to be closed before it starts; in between another job's agent
 * could find that port free. All agents therefore also claim such a port by an abstract unix socket
 * named after it: one namespace with the ports (the network stack's), visible to all users, gone
 * with the process.
 */
#ifndef PD_AGENT_PORTS_H
#define PD_AGENT_PORTS_H

#include "base/err.h"

/* Bind the first port at or after `from` (0: any) that is free on `ip` and that nobody has claimed.
 * Returns the socket or PD_E*; *claim, unless NULL, becomes a descriptor that keeps the claim while
 * it is open. */
int ports_bind(const char *ip, int from, int *port, int *claim, struct pd_err *err);

#endif
