/* SPDX-License-Identifier: Apache-2.0 */
/* job_spec.c - see job_spec.h. */
#include "wire/job_spec.h"

enum { DAY_MS = 86400000, HOUR_MS = 3600000, TEXT_MAX = 1 << 20 };

#define INT(f, least, most, absent, option) \
    { #f, WIRE_INT, offsetof(struct job_spec, f), least, most, absent, option }
#define BOOL(f, absent) \
    { #f, WIRE_BOOL, offsetof(struct job_spec, f), 0, 1, absent, NULL }
#define TEXT(f, most) \
    { #f, WIRE_TEXT, offsetof(struct job_spec, f), 0, most, 0, #f }

static const struct wire_field rows[] = {
    BOOL(attached, 0),
    BOOL(encrypt, 1), /* a description that does not say so gives no protection up */
    BOOL(local, 0),
    INT(data_copies, 1, 2, 1, NULL),
    INT(attach_lease_ms, 100, DAY_MS, 5000, "attach_lease"),
    INT(detach_lease_ms, 100, DAY_MS, 60000, "detach_lease"),
    INT(connect_ms, 100, DAY_MS, 60000, NULL),
    INT(ready_ms, 100, DAY_MS, 60000, NULL),
    INT(end_ms, 0, DAY_MS, 5000, NULL),
    INT(heartbeat_ms, 0, DAY_MS, 0, "heartbeat_timeout"),
    INT(grace_ms, 0, HOUR_MS, 5000, NULL),
    INT(log_max_size, 0, INT64_MAX / 4, 0, "log_max_size"),
    INT(log_keep, 0, JOB_SPEC_MAX_LOG_KEEP, 4, "log_keep"),
    INT(max_restarts, 0, 1000000, 3, "max_restarts"),
    INT(restart_ms, 0, 60000, 1000, NULL),
    INT(port, 0, 65535, 7164, "port"),
    INT(ports_num, 1, JOB_SPEC_MAX_PORTS, 1, "ports_num"),
    INT(ports_num_for_sparse, 0, JOB_SPEC_MAX_PORTS, 1, "ports_num_for_sparse"),
    TEXT(name, JOB_SPEC_MAX_NAME),
    TEXT(on_failure, 7),
    TEXT(bind, 20),
    TEXT(nic, 63),
    TEXT(pserver_command, TEXT_MAX),
    TEXT(trainer_command, TEXT_MAX),
};

const struct wire_body wire_job_spec = {"spec", rows, sizeof rows / sizeof rows[0]};

int wire_copy_node(const int *machine, const char *left_out, const unsigned *n_copies, int n_nodes,
                   int own) {
    int best = -1;
    for (int d = 1; d < n_nodes; d++) {
        const int id = (own + d) % n_nodes;
        if ((!left_out || !left_out[id]) && (!machine || machine[id] != machine[own]) &&
            (best < 0 || n_copies[id] < n_copies[best]))
            best = id;
    }
    return best;
}
