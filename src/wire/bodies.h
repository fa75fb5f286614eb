/* SPDX-License-Identifier: Apache-2.0 */
/* bodies.h - the JSON bodies of the messages between the agents of a job and its head, and of the
 * failures that they report. Each body is one list of rows: kind, field, least and most (of a
 * number; bytes of a text), value of a missing field. A list makes the struct, the table that
 * wire_get and wire_put read, and the keys that docs/protocol.md is compared with.
 * A new field is one row here and its name in docs/protocol.md. */
#pragma once

#include "wire/body.h"

enum {
    WIRE_MAX_NODES = 65536,
    WIRE_MAX_MS = 3600000, /* an hour */
    WIRE_MAX_REASON = 4096,
    WIRE_MAX_LINES = 65536, /* bytes of last_lines */
    WIRE_MAX_ROLE = 15,
    WIRE_MAX_PASSES = 100,
    WIRE_MAX_CAUSE = 299, /* "trainer 2 on gpu-02" */
    WIRE_VOTERS = 7,      /* nodes that choose a head: the lowest ids */
    WIRE_VOTERS_LEAST = 3 /* fewer choose nobody: the loss of one leaves no majority */
};

/* Messages that may have been missed while the connection was broken are part of HD_JOIN. */
#define WIRE_HD_JOIN(X, body)                          \
    X(body, INT, node, 0, WIRE_MAX_NODES, 0)           \
    X(body, INT, incarnation, 0, INT64_MAX, 0)         \
    X(body, TEXT, net_id, 0, 95, 0)                    \
    X(body, TEXT, machine, 0, 95, 0)                   \
    X(body, ARRAY, ready, 0, 2, 0)                     \
    X(body, ARRAY, exited, 0, 2, 0) /* of hd_exited */ \
    X(body, TEXT, failed, 0, WIRE_MAX_REASON, 0)       \
    X(body, TEXT, failed_role, 0, WIRE_MAX_ROLE, 0)    \
    X(body, INT, restarts, 0, INT32_MAX, 0)            \
    X(body, ARRAY, passes, 0, WIRE_MAX_PASSES, 0) /* of hd_pass */

#define WIRE_HD_PROBE(X, body)               \
    X(body, INT, node, 0, WIRE_MAX_NODES, 0) \
    X(body, ARRAY, addrs, 0, 4096, 0)        \
    X(body, INT, port, 1, 65535, 1)
#define WIRE_HD_PROBE_ANSWER(X, body) X(body, TEXT, addr, 0, 45, 0)

#define WIRE_HD_BIND(X, body)                         \
    X(body, BOOL, pserver, 0, 1, 0)                   \
    X(body, BOOL, trainer, 0, 1, 0)                   \
    X(body, TEXT, addr, 0, 45, 0)                     \
    X(body, INT, machine_index, 0, WIRE_MAX_NODES, 0) \
    X(body, INT, machine_count, 0, WIRE_MAX_NODES, 1)
/* Ports: the first of each role. */
#define WIRE_HD_BIND_ANSWER(X, body)        \
    X(body, INT, pserver_port, 0, 65535, 0) \
    X(body, INT, trainer_port, 0, 65535, 0)

#define WIRE_HD_START(X, body)                   \
    X(body, TEXT, role, 0, WIRE_MAX_ROLE, 0)     \
    X(body, INT, rank, 0, WIRE_MAX_NODES, 0)     \
    X(body, INT, trainers, 0, WIRE_MAX_NODES, 0) \
    X(body, INT, alone, 0, INT32_MAX, 0)         \
    X(body, INT, restarts, 0, INT32_MAX, 0)      \
    X(body, OBJECT, env, 0, 1 << 16, 0)          \
    X(body, TEXT, note, 0, WIRE_MAX_REASON, 0)

#define WIRE_HD_READY(X, body) X(body, TEXT, role, 0, WIRE_MAX_ROLE, 0)

#define WIRE_HD_EXITED(X, body)                     \
    X(body, TEXT, role, 0, WIRE_MAX_ROLE, 0)        \
    X(body, INT, rank, 0, WIRE_MAX_NODES, 0)        \
    X(body, INT, exit_code, -1, 255, -1)            \
    X(body, INT, signal, 0, 255, 0)                 \
    X(body, INT, time, 0, INT64_MAX, 0)             \
    X(body, BOOL, ending, 0, 1, 0)                  \
    X(body, BOOL, final, 0, 1, 0)                   \
    X(body, BOOL, trained, 0, 1, 0)                 \
    X(body, TEXT, from, 0, 79, 0)                   \
    X(body, TEXT, reason, 0, WIRE_MAX_REASON, 0)    \
    X(body, INT, alone, 0, INT32_MAX, 0)            \
    X(body, TEXT, last_lines, 0, WIRE_MAX_LINES, 0) \
    X(body, TEXT, log, 0, WIRE_MAX_REASON, 0)

/* An event "test" or "saved"; `number` counts those of the node's agent from 1. */
#define WIRE_HD_PASS(X, body)             \
    X(body, INT, number, 1, INT64_MAX, 1) \
    X(body, OBJECT, event, 0, 64, 0)

#define WIRE_HD_END(X, body)                     \
    X(body, INT, grace_ms, 0, WIRE_MAX_MS, 5000) \
    X(body, TEXT, status, 0, 15, 0)              \
    X(body, BOOL, restart, 0, 1, 0)              \
    X(body, INT, restarts, 0, INT32_MAX, 0)      \
    X(body, TEXT, reason, 0, WIRE_MAX_REASON, 0) \
    X(body, TEXT, cause, 0, WIRE_MAX_CAUSE, 0)

#define WIRE_HD_FAIL(X, body)                    \
    X(body, TEXT, reason, 0, WIRE_MAX_REASON, 0) \
    X(body, TEXT, role, 0, WIRE_MAX_ROLE, 0)

/* AG_STOP, too */
#define WIRE_HD_STOP_JOB(X, body)                \
    X(body, INT, grace_ms, 0, WIRE_MAX_MS, 5000) \
    X(body, BOOL, save, 0, 1, 0)                 \
    X(body, INT, save_ms, 0, WIRE_MAX_MS, 60000) \
    X(body, TEXT, reason, 0, WIRE_MAX_REASON, 0)

#define WIRE_HD_SAVE(X, body) X(body, INT, save_ms, 0, WIRE_MAX_MS, 60000)
#define WIRE_HD_STOP(X, body) X(body, INT, grace_ms, 0, WIRE_MAX_MS, 5000)
#define WIRE_HD_STOP_ANSWER(X, body) X(body, BOOL, trainer, 0, 1, 0)

/* The facts that a next head needs. voters: node ids; nodes: all, of job_peer; lost: of lost_node.
 */
#define WIRE_HD_KEEP(X, body)                   \
    X(body, INT, number, 0, INT64_MAX, 0)       \
    X(body, ARRAY, voters, 0, WIRE_VOTERS, 0)   \
    X(body, ARRAY, nodes, 0, WIRE_MAX_NODES, 0) \
    X(body, ARRAY, lost, 0, WIRE_MAX_NODES, 0)
#define WIRE_HD_KEEP_ANSWER(X, body) X(body, INT, number, 0, INT64_MAX, 0)
/* The candidate is the sender. term, number: of the list of voters that it has stored. */
#define WIRE_HD_VOTE(X, body)                \
    X(body, INT, term, 0, WIRE_MAX_NODES, 0) \
    X(body, INT, number, 0, INT64_MAX, 0)    \
    X(body, BOOL, trial, 0, 1, 0)
#define WIRE_HD_VOTE_ANSWER(X, body) X(body, BOOL, granted, 0, 1, 0)

/* Where a data file is; HD_FILE's own body is empty. */
#define WIRE_HD_FILE_ANSWER(X, body) X(body, ARRAY, holders, 0, WIRE_MAX_NODES, 0)
#define WIRE_FILE_HOLDER(X, body)            \
    X(body, INT, node, 0, WIRE_MAX_NODES, 0) \
    X(body, TEXT, name, 0, 255, 0)           \
    X(body, ARRAY, addrs, 0, 4096, 0)        \
    X(body, INT, port, 1, 65535, 1)          \
    X(body, BOOL, lost, 0, 1, 0)

/* The failure of a process, or of an agent (role "agent"); `first_failure` of AG_RESULT. */
#define WIRE_FAILURE(X, body)                    \
    X(body, INT, node, -1, WIRE_MAX_NODES, -1)   \
    X(body, TEXT, host, 0, 255, 0)               \
    X(body, TEXT, role, 0, WIRE_MAX_ROLE, 0)     \
    X(body, INT, rank, -1, WIRE_MAX_NODES, -1)   \
    X(body, INT, exit_code, -1, 255, -1)         \
    X(body, INT, signal, 0, 255, 0)              \
    X(body, TEXT, reason, 0, WIRE_MAX_REASON, 0) \
    X(body, BOOL, heard, 0, 1, 0)                \
    X(body, TEXT, last_lines, 0, WIRE_MAX_LINES, 0)

#define WIRE_BODIES(X)                       \
    X(hd_join, WIRE_HD_JOIN)                 \
    X(hd_probe, WIRE_HD_PROBE)               \
    X(hd_probe_answer, WIRE_HD_PROBE_ANSWER) \
    X(hd_bind, WIRE_HD_BIND)                 \
    X(hd_bind_answer, WIRE_HD_BIND_ANSWER)   \
    X(hd_start, WIRE_HD_START)               \
    X(hd_ready, WIRE_HD_READY)               \
    X(hd_exited, WIRE_HD_EXITED)             \
    X(hd_pass, WIRE_HD_PASS)                 \
    X(hd_end, WIRE_HD_END)                   \
    X(hd_fail, WIRE_HD_FAIL)                 \
    X(hd_stop_job, WIRE_HD_STOP_JOB)         \
    X(hd_save, WIRE_HD_SAVE)                 \
    X(hd_stop, WIRE_HD_STOP)                 \
    X(hd_stop_answer, WIRE_HD_STOP_ANSWER)   \
    X(hd_keep, WIRE_HD_KEEP)                 \
    X(hd_keep_answer, WIRE_HD_KEEP_ANSWER)   \
    X(hd_vote, WIRE_HD_VOTE)                 \
    X(hd_vote_answer, WIRE_HD_VOTE_ANSWER)   \
    X(hd_file_answer, WIRE_HD_FILE_ANSWER)   \
    X(file_holder, WIRE_FILE_HOLDER)         \
    X(failure, WIRE_FAILURE)

/* struct hd_join, wire_hd_join and so on. Texts and JSON values are borrowed. */
#define WIRE_STRUCT(name, ROWS) \
    struct name {               \
        ROWS(WIRE_MEMBER, name) \
    };                          \
    extern const struct wire_body wire_##name;
#define WIRE_MEMBER(body, kind, field, least, most, absent) WIRE_C_##kind field;
#define WIRE_C_BOOL int64_t
#define WIRE_C_INT int64_t
#define WIRE_C_TEXT const char *
#define WIRE_C_ARRAY json_t *
#define WIRE_C_OBJECT json_t *
WIRE_BODIES(WIRE_STRUCT)
