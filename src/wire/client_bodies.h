/* SPDX-License-Identifier: Apache-2.0 */
/* client_bodies.h - the JSON bodies of the messages between paddlectl and an agent, as tables of
 * rows like those of bodies.h. AG_STOP has the body of HD_STOP_JOB. Three bodies are read by name
 * and have no table: `spec` of AG_JOB_SETUP (job_spec.h), the facts that AG_CHECK answers, and
 * AG_RESULT, whose object is also result.json. */
#pragma once

#include "wire/bodies.h"

enum {
    WIRE_MAX_NAME = 255,    /* of a job, a host, a user */
    WIRE_MAX_PATH = 4096,   /* of a file */
    WIRE_MAX_ADDRS = 4096,  /* addresses of a node */
    WIRE_MAX_STATE = 15,    /* "restarting", for example */
    WIRE_MAX_OTHERS = 256,  /* other jobs on a machine */
    WIRE_MAX_CHECKED = 8,   /* peers that a node probes for a check */
    WIRE_MAX_JOBS = 10000,  /* of a node */
    WIRE_MAX_FILES = 65536, /* rows of a list of files of a node */
    WIRE_MAX_OWNER = 32     /* a token in hex */
};

/* --- the start of a connection --- */

/* The versions of the protocol between paddlectl and an agent. A new message, a new key or a new
 * value needs no new version. If a message changes its meaning, both numbers of this program grow:
 * the first by 1, the second when the older meaning is no longer supported. */
enum { WIRE_CLIENT_VERSION = 3, WIRE_CLIENT_LEAST = 2 };

#define WIRE_AG_HELLO(X, body)                  \
    X(body, INT, version, 0, INT32_MAX, 0)      \
    X(body, INT, least, 0, INT32_MAX, 0)        \
    X(body, TEXT, program, 0, 31, 0)            \
    X(body, TEXT, build, 0, 64, 0)              \
    X(body, TEXT, job, 0, WIRE_MAX_NAME, 0)     \
    X(body, INT, node, -1, WIRE_MAX_NODES, -1)  \
    X(body, TEXT, root, 0, WIRE_MAX_PATH, 0)    \
    X(body, TEXT, job_dir, 0, WIRE_MAX_PATH, 0) \
    X(body, TEXT, arch, 0, 65, 0)               \
    X(body, INT, cores, 0, INT32_MAX, 0)        \
    X(body, INT, mem_bytes, 0, INT64_MAX, 0)    \
    X(body, INT, disk_free, 0, INT64_MAX, 0)    \
    X(body, ARRAY, addrs, 0, WIRE_MAX_ADDRS, 0) \
    X(body, TEXT, state, 0, WIRE_MAX_STATE, 0)  \
    X(body, TEXT, text, 0, WIRE_MAX_REASON, 0)  \
    X(body, INT, pid, 0, INT32_MAX, 0)
/* owner: the token of the paddlectl that keeps the job, also in AG_JOB_SETUP; holder: where that
 * paddlectl runs, for people */
#define WIRE_AG_PING(X, body)                  \
    X(body, TEXT, owner, 0, WIRE_MAX_OWNER, 0) \
    X(body, BOOL, claim, 0, 1, 0)              \
    X(body, INT, sent_ns, 0, INT64_MAX, 0)     \
    X(body, TEXT, holder, 0, WIRE_MAX_NAME, 0)
#define WIRE_AG_PING_ANSWER(X, body)           \
    X(body, BOOL, owned, 0, 1, 0)              \
    X(body, BOOL, owner, 0, 1, 0)              \
    X(body, INT, silent_ms, 0, INT64_MAX, 0)   \
    X(body, INT, lease_ms, 0, INT64_MAX, 0)    \
    X(body, INT, sent_ns, 0, INT64_MAX, 0)     \
    X(body, INT, now_ns, 0, INT64_MAX, 0)      \
    X(body, TEXT, holder, 0, WIRE_MAX_NAME, 0) \
    X(body, TEXT, boot, 0, 63, 0)
#define WIRE_AG_JOIN(X, body) X(body, TEXT, job, 0, WIRE_MAX_NAME, 0)
#define WIRE_AG_BYE(X, body) X(body, BOOL, abandon, 0, 1, 0) X(body, BOOL, detach, 0, 1, 0)

/* --- a job --- */

#define WIRE_AG_JOB_SETUP(X, body)                \
    X(body, TEXT, job, 0, WIRE_MAX_NAME, 0)       \
    X(body, INT, node, 0, WIRE_MAX_NODES, 0)      \
    X(body, INT, n_nodes, 1, WIRE_MAX_NODES, 1)   \
    X(body, OBJECT, spec, 0, 1000, 0)             \
    X(body, TEXT, worker, 0, 64, 0)               \
    X(body, TEXT, worker_hash, 0, 64, 0)          \
    X(body, TEXT, data, 0, 64, 0)                 \
    X(body, BOOL, data_apart, 0, 1, 0)            \
    X(body, TEXT, workspace, 0, WIRE_MAX_PATH, 0) \
    X(body, TEXT, resume_job, 0, 63, 0)           \
    X(body, TEXT, resume_name, 0, 63, 0)          \
    X(body, TEXT, owner, 0, WIRE_MAX_OWNER, 0)
#define WIRE_AG_JOB_SETUP_ANSWER(X, body)       \
    X(body, ARRAY, addrs, 0, WIRE_MAX_ADDRS, 0) \
    X(body, INT, port, 1, 65535, 1)             \
    X(body, TEXT, nic_addr, 0, 45, 0)

#define WIRE_AG_JOB_PEERS(X, body) X(body, ARRAY, nodes, 0, WIRE_MAX_NODES, 0)
#define WIRE_JOB_PEER(X, body)                  \
    X(body, TEXT, name, 0, WIRE_MAX_NAME, 0)    \
    X(body, ARRAY, addrs, 0, WIRE_MAX_ADDRS, 0) \
    X(body, INT, port, 1, 65535, 1)

/* The job has lost its head, and this node takes its part. */
#define WIRE_AG_JOB_HEAD(X, body)                                   \
    X(body, INT, head, 0, WIRE_MAX_NODES, 0)                        \
    X(body, ARRAY, nodes, 0, WIRE_MAX_NODES, 0)  /* of job_peer */  \
    X(body, ARRAY, lost, 0, WIRE_MAX_NODES, 0)   /* of lost_node */ \
    X(body, ARRAY, passes, 0, WIRE_MAX_FILES, 0) /* of heard_pass */
/* A body of HD_PASS, and the node whose agent has reported it. */
#define WIRE_HEARD_PASS(X, body)             \
    X(body, INT, node, 0, WIRE_MAX_NODES, 0) \
    X(body, OBJECT, pass, 0, 16, 0)

#define WIRE_AG_STATE(X, body)                 \
    X(body, INT, node, -1, WIRE_MAX_NODES, -1) \
    X(body, TEXT, state, 0, WIRE_MAX_STATE, 0) \
    X(body, TEXT, text, 0, WIRE_MAX_REASON, 0) \
    X(body, INT, head, 0, WIRE_MAX_NODES, 0)   \
    X(body, ARRAY, lost, 0, WIRE_MAX_NODES, 0) \
    X(body, INT, few_copies, -1, INT64_MAX, 0) \
    X(body, INT, few_bytes, 0, INT64_MAX, 0)
#define WIRE_LOST_NODE(X, body)              \
    X(body, INT, node, 0, WIRE_MAX_NODES, 0) \
    X(body, TEXT, host, 0, WIRE_MAX_NAME, 0) \
    X(body, TEXT, reason, 0, WIRE_MAX_REASON, 0)

#define WIRE_AG_STOP_ANSWER(X, body)          \
    X(body, TEXT, saved, 0, WIRE_MAX_PATH, 0) \
    X(body, BOOL, saved_state, 0, 1, 0)

#define WIRE_AG_TURN(X, body)     \
    X(body, BOOL, wait, 0, 1, 0)  \
    X(body, BOOL, take, 0, 1, 0)  \
    X(body, BOOL, blind, 0, 1, 0) \
    X(body, INT, order, 0, INT64_MAX, 0)
#define WIRE_AG_TURN_ANSWER(X, body) \
    X(body, BOOL, free, 0, 1, 0)     \
    X(body, ARRAY, others, 0, WIRE_MAX_OTHERS, 0)
#define WIRE_OTHER_JOB(X, body)              \
    X(body, TEXT, job, 0, WIRE_MAX_NAME, 0)  \
    X(body, TEXT, user, 0, WIRE_MAX_NAME, 0) \
    X(body, BOOL, waits, 0, 1, 0)            \
    X(body, INT, since_us, 0, INT64_MAX, 0)  \
    X(body, TEXT, cpus, 0, WIRE_MAX_NAME, 0)

#define WIRE_AG_DATA_LIST(X, body)       \
    X(body, INT, first, 0, INT64_MAX, 0) \
    X(body, INT, of, 0, INT64_MAX, 0)
#define WIRE_AG_DATA_LIST_ANSWER(X, body) X(body, INT, next, 0, INT64_MAX, 0)

/* --- logs and outputs --- */

#define WIRE_AG_LOG_SUBSCRIBE(X, body)        \
    X(body, OBJECT, streams, 0, 16, 0)        \
    X(body, INT, window, 0, INT64_MAX / 4, 0) \
    X(body, OBJECT, acked, 0, 16, 0)          \
    X(body, INT, since_us, 0, INT64_MAX, 0)   \
    X(body, INT, tail, 0, WIRE_MAX_TAIL, 0)   \
    X(body, BOOL, onlooker, 0, 1, 0)
#define WIRE_AG_LOG_SUBSCRIBE_ANSWER(X, body) \
    X(body, OBJECT, streams, 0, 16, 0)        \
    X(body, INT, now_us, 0, INT64_MAX, 0)
#define WIRE_LOG_BEGIN(X, body)          \
    X(body, INT, start, 0, INT64_MAX, 0) \
    X(body, INT, size, 0, INT64_MAX, 0)  \
    X(body, BOOL, ended, 0, 1, 0)
#define WIRE_AG_LOG_ACK(X, body) X(body, OBJECT, streams, 0, 16, 0)
#define WIRE_AG_LOG_END(X, body)    \
    X(body, TEXT, stream, 0, 15, 0) \
    X(body, INT, size, 0, INT64_MAX, 0)
enum { WIRE_MAX_TAIL = 10000 };

#define WIRE_AG_FETCH(X, body)   \
    X(body, TEXT, dir, 0, 15, 0) \
    X(body, TEXT, only, 0, 63, 0)
#define WIRE_AG_FETCH_ANSWER(X, body)      \
    X(body, BOOL, missing, 0, 1, 0)        \
    X(body, INT, round, 0, 100, 0)         \
    X(body, INT, skipped, 0, INT64_MAX, 0) \
    X(body, TEXT, first_skipped, 0, WIRE_MAX_PATH, 0)

#define WIRE_AG_MODELS(X, body) X(body, TEXT, name, 0, 63, 0)
#define WIRE_AG_MODELS_ANSWER(X, body)                                 \
    X(body, ARRAY, models, 0, WIRE_MAX_FILES, 0) /* of listed_model */ \
    X(body, ARRAY, tests, 0, WIRE_MAX_FILES, 0)                        \
    X(body, TEXT, by, 0, 79, 0)                                        \
    X(body, TEXT, better, 0, 7, 0)
#define WIRE_LISTED_MODEL(X, body)         \
    X(body, TEXT, name, 0, 63, 0)          \
    X(body, INT, n_parts, 0, INT64_MAX, 0) \
    X(body, BOOL, state, 0, 1, 0)          \
    X(body, TEXT, config, 0, 1 << 20, 0)   \
    X(body, ARRAY, files, 0, WIRE_MAX_FILES, 0)

/* --- reports about a node --- */

#define WIRE_AG_LIST(X, body) X(body, BOOL, progress, 0, 1, 0) X(body, BOOL, others, 0, 1, 0)
#define WIRE_AG_LIST_ANSWER(X, body)          \
    X(body, ARRAY, jobs, 0, WIRE_MAX_JOBS, 0) \
    X(body, ARRAY, others, 0, WIRE_MAX_OTHERS, 0) /* of other_job */
#define WIRE_LISTED_JOB(X, body)                \
    X(body, TEXT, job, 0, WIRE_MAX_NAME, 0)     \
    X(body, TEXT, name, 0, WIRE_MAX_NAME, 0)    \
    X(body, INT, node, -1, WIRE_MAX_NODES, -1)  \
    X(body, TEXT, state, 0, WIRE_MAX_STATE, 0)  \
    X(body, INT, pid, 0, INT32_MAX, 0)          \
    X(body, TEXT, user, 0, WIRE_MAX_NAME, 0)    \
    X(body, INT, started_us, 0, INT64_MAX, 0)   \
    X(body, INT, ended_us, 0, INT64_MAX, 0)     \
    X(body, BOOL, attached, 0, 1, 0)            \
    X(body, INT, n_nodes, 0, WIRE_MAX_NODES, 0) \
    X(body, INT, head, 0, WIRE_MAX_NODES, 0)    \
    X(body, ARRAY, lost, 0, WIRE_MAX_NODES, 0)  \
    X(body, INT, few_copies, 0, INT64_MAX, 0)   \
    X(body, INT, few_bytes, 0, INT64_MAX, 0)    \
    X(body, OBJECT, progress, 0, 100, 0)

#define WIRE_AG_STATUS_ANSWER(X, body)          \
    X(body, TEXT, state, 0, WIRE_MAX_STATE, 0)  \
    X(body, TEXT, text, 0, WIRE_MAX_REASON, 0)  \
    X(body, TEXT, name, 0, WIRE_MAX_NAME, 0)    \
    X(body, INT, node, -1, WIRE_MAX_NODES, -1)  \
    X(body, INT, n_nodes, 0, WIRE_MAX_NODES, 0) \
    X(body, INT, head, 0, WIRE_MAX_NODES, 0)    \
    X(body, BOOL, attached, 0, 1, 0)            \
    X(body, INT, started_us, 0, INT64_MAX, 0)   \
    X(body, INT, now_us, 0, INT64_MAX, 0)       \
    X(body, INT, ended_us, 0, INT64_MAX, 0)     \
    X(body, INT, restarts, 0, INT32_MAX, 0)     \
    X(body, INT, clients, 0, INT32_MAX, 0)      \
    X(body, ARRAY, processes, 0, 16, 0)         \
    X(body, OBJECT, streams, 0, 16, 0)          \
    X(body, OBJECT, progress, 0, 100, 0)        \
    X(body, OBJECT, serving, 0, 100, 0)         \
    X(body, ARRAY, lost, 0, WIRE_MAX_NODES, 0)
#define WIRE_NODE_PROCESS(X, body)             \
    X(body, TEXT, role, 0, WIRE_MAX_ROLE, 0)   \
    X(body, INT, rank, 0, WIRE_MAX_NODES, 0)   \
    X(body, INT, pid, 0, INT32_MAX, 0)         \
    X(body, TEXT, state, 0, WIRE_MAX_STATE, 0) \
    X(body, INT, exit_code, -1, 255, -1)       \
    X(body, INT, signal, 0, 255, 0)            \
    X(body, INT, started_us, 0, INT64_MAX, 0)  \
    X(body, INT, ended_us, 0, INT64_MAX, 0)    \
    X(body, INT, port, 0, 65535, 0)            \
    X(body, BOOL, listening, 0, 1, 0)          \
    X(body, TEXT, bind, 0, 15, 0)              \
    X(body, TEXT, cpus, 0, WIRE_MAX_REASON, 0) \
    X(body, INT, rss_bytes, 0, INT64_MAX, 0)   \
    X(body, INT, cpu_ms, 0, INT64_MAX, 0)      \
    X(body, INT, threads, 0, INT32_MAX, 0)     \
    X(body, BOOL, stopped, 0, 1, 0)

#define WIRE_AG_CLEAN(X, body)          \
    X(body, INT, keep, 0, 10000, 10000) \
    X(body, BOOL, workspaces, 0, 1, 0)  \
    X(body, BOOL, dry_run, 0, 1, 0)     \
    X(body, INT, store_limit, 0, INT64_MAX, 0)
#define WIRE_AG_CLEAN_ANSWER(X, body)             \
    X(body, ARRAY, removed, 0, WIRE_MAX_FILES, 0) \
    X(body, ARRAY, kept, 0, WIRE_MAX_FILES, 0)    \
    X(body, ARRAY, failed, 0, WIRE_MAX_FILES, 0)  \
    X(body, INT, freed, 0, INT64_MAX, 0)

#define WIRE_AG_CHECK(X, body)              \
    X(body, BOOL, clock, 0, 1, 0)           \
    X(body, TEXT, nic, 0, WIRE_MAX_NAME, 0) \
    X(body, INT, port, 0, 65535, 0)         \
    X(body, INT, needed, 0, WIRE_MAX_PORTS, 0)
/* ports of a job's processes on a node: of its pserver, dense and sparse, and of its trainer */
enum { WIRE_MAX_PORTS = 2 * 250 + 1 };

#define WIRE_AG_CHECK_LISTEN(X, body)        \
    X(body, INT, node, 0, WIRE_MAX_NODES, 0) \
    X(body, TEXT, token, 0, 63, 0)           \
    X(body, TEXT, nic, 0, WIRE_MAX_NAME, 0)  \
    X(body, INT, port, 0, 65535, 0)
#define WIRE_AG_CHECK_LISTEN_ANSWER(X, body) X(body, INT, port, 0, 65535, 0)
#define WIRE_AG_CHECK_PROBE(X, body) X(body, ARRAY, peers, 0, WIRE_MAX_CHECKED, 0)
#define WIRE_CHECK_TARGET(X, body)              \
    X(body, INT, node, 0, WIRE_MAX_NODES, 0)    \
    X(body, ARRAY, addrs, 0, WIRE_MAX_ADDRS, 0) \
    X(body, INT, port, 1, 65535, 1)

/* --- packages --- */

#define WIRE_DS_BEGIN(X, body)               \
    X(body, TEXT, kind, 0, 15, 0)            \
    X(body, TEXT, name, 0, WIRE_MAX_NAME, 0) \
    X(body, INT, store_limit, 0, INT64_MAX, 0)
#define WIRE_DS_BEGIN_ANSWER(X, body) \
    X(body, BOOL, have, 0, 1, 0)      \
    X(body, TEXT, path, 0, WIRE_MAX_PATH, 0)

#define WIRE_DS_SOURCE(X, body)                 \
    X(body, BOOL, launcher, 0, 1, 0)            \
    X(body, INT, node, 0, WIRE_MAX_NODES, 0)    \
    X(body, ARRAY, addrs, 0, WIRE_MAX_ADDRS, 0) \
    X(body, INT, port, 0, 65535, 0)             \
    X(body, TEXT, token, 0, 63, 0)              \
    X(body, BOOL, encrypt, 0, 1, 1)

#define WIRE_DS_NEED(X, body) X(body, INT, round, 0, 100, 0)

#define WIRE_DS_SERVE(X, body)               \
    X(body, INT, node, 0, WIRE_MAX_NODES, 0) \
    X(body, TEXT, token, 0, 63, 0)           \
    X(body, INT, port, 0, 65535, 0)          \
    X(body, BOOL, encrypt, 0, 1, 1)          \
    X(body, BOOL, local, 0, 1, 0)
#define WIRE_DS_SERVE_ANSWER(X, body) \
    X(body, INT, port, 0, 65535, 0)   \
    X(body, ARRAY, addrs, 0, WIRE_MAX_ADDRS, 0)

#define WIRE_DS_STATUS(X, body)                  \
    X(body, TEXT, state, 0, WIRE_MAX_STATE, 0)   \
    X(body, INT, have, 0, INT64_MAX, 0)          \
    X(body, INT, of, 0, INT64_MAX, 0)            \
    X(body, INT, here, 0, INT64_MAX, 0)          \
    X(body, INT, here_left, 0, INT64_MAX, 0)     \
    X(body, INT, rest, 0, INT64_MAX, 0)          \
    X(body, INT, fetched, 0, INT64_MAX, 0)       \
    X(body, INT, rate, 0, INT64_MAX, 0)          \
    X(body, INT, asked, 0, INT64_MAX, 0)         \
    X(body, INT, source, -2, WIRE_MAX_NODES, -2) \
    X(body, BOOL, reached, 0, 1, 0)              \
    X(body, TEXT, why, 0, WIRE_MAX_REASON, 0)    \
    X(body, INT, idle_ms, 0, INT64_MAX, 0)       \
    X(body, INT, served, 0, INT64_MAX, 0)        \
    X(body, INT, peers, 0, WIRE_MAX_NODES, 0)

#define WIRE_DS_END(X, body)                 \
    X(body, TEXT, path, 0, WIRE_MAX_PATH, 0) \
    X(body, INT, entries, 0, INT64_MAX, 0)   \
    X(body, INT, bytes, 0, INT64_MAX, 0)     \
    X(body, INT, fetched, 0, INT64_MAX, 0)   \
    X(body, INT, peak, 0, INT64_MAX, 0)

/* --- launch --- */

enum { WIRE_MAX_LINE = 1 << 20 }; /* of a command */
#define WIRE_CB_CALL(X, body)                \
    X(body, INT, node, 0, WIRE_MAX_NODES, 0) \
    X(body, INT, n, 0, WIRE_MAX_NODES, 0)    \
    X(body, TEXT, host, 0, WIRE_MAX_NAME, 0) \
    X(body, TEXT, token, 0, 64, 0)
#define WIRE_CB_ENROLLED(X, body)   \
    X(body, TEXT, key, 0, 64, 0)    \
    X(body, TEXT, token, 0, 64, 0)  \
    X(body, INT, port, 1, 65535, 1) \
    X(body, INT, lease_ms, 0, 86400000, 0)
#define WIRE_CB_OPEN(X, body)                \
    X(body, TEXT, line, 0, WIRE_MAX_LINE, 0) \
    X(body, BOOL, plain, 0, 1, 0)
#define WIRE_CB_END(X, body)        \
    X(body, INT, status, 0, 255, 0) \
    X(body, INT, signal, 0, 255, 0) \
    X(body, BOOL, waits, 0, 1, 0)
#define WIRE_CB_BYE(X, body) X(body, BOOL, stays, 0, 1, 0)

#define WIRE_CLIENT_BODIES(X)                                \
    X(ag_hello, WIRE_AG_HELLO)                               \
    X(ag_ping, WIRE_AG_PING)                                 \
    X(ag_ping_answer, WIRE_AG_PING_ANSWER)                   \
    X(ag_join, WIRE_AG_JOIN)                                 \
    X(ag_bye, WIRE_AG_BYE)                                   \
    X(ag_job_setup, WIRE_AG_JOB_SETUP)                       \
    X(ag_job_setup_answer, WIRE_AG_JOB_SETUP_ANSWER)         \
    X(ag_job_peers, WIRE_AG_JOB_PEERS)                       \
    X(job_peer, WIRE_JOB_PEER)                               \
    X(ag_job_head, WIRE_AG_JOB_HEAD)                         \
    X(heard_pass, WIRE_HEARD_PASS)                           \
    X(ag_state, WIRE_AG_STATE)                               \
    X(lost_node, WIRE_LOST_NODE)                             \
    X(ag_stop_answer, WIRE_AG_STOP_ANSWER)                   \
    X(ag_turn, WIRE_AG_TURN)                                 \
    X(ag_turn_answer, WIRE_AG_TURN_ANSWER)                   \
    X(other_job, WIRE_OTHER_JOB)                             \
    X(ag_data_list, WIRE_AG_DATA_LIST)                       \
    X(ag_data_list_answer, WIRE_AG_DATA_LIST_ANSWER)         \
    X(ag_log_subscribe, WIRE_AG_LOG_SUBSCRIBE)               \
    X(ag_log_subscribe_answer, WIRE_AG_LOG_SUBSCRIBE_ANSWER) \
    X(log_begin, WIRE_LOG_BEGIN)                             \
    X(ag_log_ack, WIRE_AG_LOG_ACK)                           \
    X(ag_log_end, WIRE_AG_LOG_END)                           \
    X(ag_fetch, WIRE_AG_FETCH)                               \
    X(ag_fetch_answer, WIRE_AG_FETCH_ANSWER)                 \
    X(ag_models, WIRE_AG_MODELS)                             \
    X(ag_models_answer, WIRE_AG_MODELS_ANSWER)               \
    X(listed_model, WIRE_LISTED_MODEL)                       \
    X(ag_list, WIRE_AG_LIST)                                 \
    X(ag_list_answer, WIRE_AG_LIST_ANSWER)                   \
    X(listed_job, WIRE_LISTED_JOB)                           \
    X(ag_status_answer, WIRE_AG_STATUS_ANSWER)               \
    X(node_process, WIRE_NODE_PROCESS)                       \
    X(ag_clean, WIRE_AG_CLEAN)                               \
    X(ag_clean_answer, WIRE_AG_CLEAN_ANSWER)                 \
    X(ag_check, WIRE_AG_CHECK)                               \
    X(ag_check_listen, WIRE_AG_CHECK_LISTEN)                 \
    X(ag_check_listen_answer, WIRE_AG_CHECK_LISTEN_ANSWER)   \
    X(ag_check_probe, WIRE_AG_CHECK_PROBE)                   \
    X(check_target, WIRE_CHECK_TARGET)                       \
    X(ds_begin, WIRE_DS_BEGIN)                               \
    X(ds_begin_answer, WIRE_DS_BEGIN_ANSWER)                 \
    X(ds_source, WIRE_DS_SOURCE)                             \
    X(ds_need, WIRE_DS_NEED)                                 \
    X(ds_serve, WIRE_DS_SERVE)                               \
    X(ds_serve_answer, WIRE_DS_SERVE_ANSWER)                 \
    X(ds_status, WIRE_DS_STATUS)                             \
    X(ds_end, WIRE_DS_END)                                   \
    X(cb_call, WIRE_CB_CALL)                                 \
    X(cb_enrolled, WIRE_CB_ENROLLED)                         \
    X(cb_open, WIRE_CB_OPEN)                                 \
    X(cb_end, WIRE_CB_END)                                   \
    X(cb_bye, WIRE_CB_BYE)
WIRE_CLIENT_BODIES(WIRE_STRUCT)
