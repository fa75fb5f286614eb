/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - the questions of `paddlectl check` to all hosts at once, and findings from the answers.
 *
 *     check_ask     check.c         the conversation: facts, clocks, then probes between nodes;
 *                                   leaves nothing on the nodes
 *     check_findings   check_findings.c   findings of each host, worst first, each with a hint
 */
#pragma once

#include "launcher/link/ask_all.h"

enum check_level { CHECK_NOTE, CHECK_WARNING, CHECK_BAD };

struct check_finding {
    enum check_level level;
    char text[700], hint[300]; /* hint: "" or what to do */
};

enum { CHECK_FINDINGS_MAX = 12, CHECK_PEERS = 4, CHECK_SLOW_LOGIN_MS = 2000 };

struct check_node {
    const char *name;
    int local, node;
    struct pd_err err; /* the host could not be reached or asked */
    json_t *facts;     /* the answer to AG_CHECK, or NULL */
    size_t login_printed;
    uint64_t login_ms;
    int n_clocks, needed; /* needed: ports that a job takes here */
    /* round trip of the fastest ping: the offset is exact to half of it */
    double offset_ms, rtt_ms;
    int port; /* where the node listened for the others; 0: it did not */
    /* the answer to AG_CHECK_PROBE, or NULL */
    json_t *reached, *shared;

    struct check_finding findings[CHECK_FINDINGS_MAX];
    int n_findings;
    enum check_level worst;
};

/* `v` has an element for each host. Returns 1 if interrupted. */
int check_ask(struct client_env *c, struct check_node *v, struct pd_err *err);
void check_findings(struct check_node *v, size_t n, const char *own_arch);
void check_release(struct check_node *v, size_t n);
