/* SPDX-License-Identifier: Apache-2.0 */
/* facts.h - facts about the agent's node: hardware, addresses, names. */
#pragma once

#include <jansson.h>

/* {arch, cores, mem_bytes, disk_free}: `cores` are the CPUs that this process may use, `disk_free`
 * the bytes free under root. A new reference; NULL: out of memory. */
json_t *facts_node(const char *root);

/* This node's numeric addresses, best first:
 * - the address to which the ssh connection came;
 * - the addresses of interfaces that are up, IPv4 before IPv6, without link-local ones, which no
 * peer can use;
 * - 127.0.0.1 and ::1.
 * If `nic` is given (an interface's name, or a subnet like 10.0.0.0/8 or 2001:db8::/32), only
 * matching addresses are listed. *out is a new array. If no address matches, the call fails with
 * PD_EHOST and names the interfaces. */
#define FACTS_LOOPBACK "127.0.0.0/8" /* `nic` for a job on one machine */
int facts_addrs(const char *nic, json_t **out, struct pd_err *err);

/* The state of an IPv6 address in the kernel's /proc/net/if_inet6. UNUSABLE: another host has the
 * same address, or the check for that is not finished. FLEETING: a deprecated address or a
 * temporary privacy address, which may vanish during a long job; other addresses come first. */
enum facts_v6 { FACTS_V6_LASTING, FACTS_V6_FLEETING, FACTS_V6_UNUSABLE };
enum facts_v6 facts_v6_of(const char *table, const uint8_t addr[16]);

void facts_host(char out[HOST_NAME_MAX + 1]); /* this machine's node name */

/* Equal on two nodes exactly if they share a network stack, so that 127.x is the same on both. */
void facts_net_id(char out[96]);

/* Equal on two nodes if they run on one machine and may use the same CPUs. */
void facts_machine(char out[96]);
