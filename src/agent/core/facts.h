/* facts.h - what an agent can say of its node. */
#ifndef PD_AGENT_FACTS_H
#define PD_AGENT_FACTS_H

#include <jansson.h>
#include <limits.h>
#include <stdint.h>

#include "base/err.h"

/* `arch`, `cores` (that this process may use), `mem_bytes`, `disk_free` (under root). NULL: out of
 * memory. */
json_t *facts_node(const char *root);

/* This node's numeric addresses, best first: the one that ssh came in on, those of the interfaces
 * that are up (IPv4, then IPv6 without the link-local ones, which no peer can use as they are),
 * 127.0.0.1, ::1. With `nic` (an interface's name, or a subnet like 10.0.0.0/8 or 2001:db8::/32)
 * only those it selects; none is PD_EHOST and names the interfaces there are. */
int facts_addrs(const char *nic, json_t **out, struct pd_err *err);

/* An IPv6 address by the kernel's /proc/net/if_inet6: one that duplicates another host's or is
 * still compared with them, and one that is to go (deprecated, or a temporary one for privacy),
 * which a long job may outlive, so that others come first. */
enum facts_v6 { FACTS_V6_LASTING, FACTS_V6_FLEETING, FACTS_V6_UNUSABLE };
enum facts_v6 facts_v6_of(const char *table, const uint8_t addr[16]);

void facts_host(char out[HOST_NAME_MAX + 1]); /* what this machine calls itself */
void facts_boot_id(char out[64]);             /* of the running kernel; "?" when it does not tell */

/* Equal on two nodes exactly when they share a network stack, so that 127.x means the same on both.
 */
void facts_net_id(char out[96]);

/* Equal on two nodes when they run on one machine and may use the same CPUs of it. */
void facts_machine(char out[96]);

#endif
