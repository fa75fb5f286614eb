/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - the small process that ssh runs. It copies bytes between its stdin and stdout and the
 * agent's socket. */
#pragma once

/* Copies until either side ends. After the end of stdin, the bytes already read are delivered, and
 * the agent's last messages are copied for at most linger_ms. Takes `sock` over. Returns 0, or -1
 * with errno. */
int relay_run(int in, int out, int sock, uint64_t linger_ms);
