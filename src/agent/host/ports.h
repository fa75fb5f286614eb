/* SPDX-License-Identifier: Apache-2.0 */
/* ports.h - free ports, reserved until the program that needs them starts.
 *
 * Our own program inherits its port as a bound socket. A user's own program binds its port itself,
 * so our socket must be closed before the program starts. In the meantime another job's agent could
 * find the port free. Therefore all agents also claim such a port by an abstract unix socket with
 * the port's number in its name. Abstract sockets have the same namespace as ports, are visible to
 * all users, and vanish with the process. */
#pragma once

/* Binds the first port at or after `from` (0: any port) that is free on `ip` and not claimed.
 * Returns the socket or PD_E*. If `claim` is not NULL, *claim becomes a descriptor that holds the
 * claim until it is closed. */
int ports_bind(const char *ip, int from, int *port, int *claim, struct pd_err *err);
