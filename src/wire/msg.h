/* SPDX-License-Identifier: Apache-2.0 */
/* msg.h - the table of all message types. docs/protocol.md describes each type; a test compares the
 * two lists. Numbers are never reused.
 *
 * Agent messages (0x1xx, 0x2xx) have a JSON object in section 0 (at most WIRE_JSON_MAX bytes) and
 * raw bytes, if any, in section 1. Parameter-server messages (0x4xx) have fixed little-endian
 * fields in section 0, 64-bit keys in section 1 and float32 values in section 2. */
#pragma once

enum { WIRE_JSON_MAX = 4 << 20, WIRE_CHUNK = 256 << 10 };

/* X(name, number, text) */
#define WIRE_MSG_TABLE(X)                                                                         \
    X(HS_HELLO, 0x001, "handshake: who connects, and a nonce")                                    \
    X(HS_CHALLENGE, 0x002, "handshake: who accepts, and a nonce")                                 \
    X(HS_PROOF, 0x003, "handshake: the connector's proof of the key")                             \
    X(HS_WELCOME, 0x004, "handshake: the acceptor's proof of the key, and a greeting")            \
    X(HS_SHARE, 0x005, "either way, once open: the sender's shared memory for large sections")    \
    X(HS_SHARED, 0x006, "either way: the peer's shared memory is mapped, or not")                 \
    /* client (paddlectl) and agent, over ssh, a pipe or the job's unix socket */                 \
    X(AG_HELLO, 0x101, "agent to client, first: version, node facts, job and its state")          \
    X(AG_PING, 0x102, "either way: heartbeat; renews the attach lease")                           \
    X(AG_JOB_SETUP, 0x107, "client: this node's part of the job; section 1: the job's key")       \
    X(AG_JOB_PEERS, 0x108, "client: addresses of all agents")                                     \
    X(AG_JOB_RUN, 0x109, "client to the head agent: start the job")                               \
    X(AG_STATE, 0x10a, "agent: the job or a process of this node changed state")                  \
    X(AG_LOG_SUBSCRIBE, 0x10b, "client: send these log streams, from these offsets")              \
    X(AG_LOG, 0x10c, "agent: bytes of a stream (fixed fields, see docs/protocol.md)")             \
    X(AG_LOG_END, 0x10d, "agent: this stream is complete")                                        \
    X(AG_RESULT, 0x10e, "agent: how the job ended")                                               \
    X(AG_STOP, 0x10f, "client: end the job's processes")                                          \
    X(AG_FETCH, 0x110, "client: send a folder of the job as a package")                           \
    X(AG_LIST, 0x111, "client: list the jobs under this root_dir")                                \
    X(AG_BYE, 0x112, "client: end of the session; the agent exits if its job has ended")          \
    X(AG_STATUS, 0x113, "client: report the state of the job and of its processes on this node")  \
    X(AG_LOG_ACK, 0x114, "client: these bytes of a subscription are processed, send more")        \
    X(AG_CLEAN, 0x115, "client: remove the folders of earlier jobs under this root_dir")          \
    X(AG_CHECK, 0x116, "client: report facts of this node for paddlectl check")                   \
    X(AG_CHECK_LISTEN, 0x117, "client: listen on a port for the other nodes' probes")             \
    X(AG_CHECK_PROBE, 0x118, "client: probe the addresses of these nodes")                        \
    X(AG_JOIN, 0x119, "client of an agent without a job: attach to this job")                     \
    X(AG_MODELS, 0x11b, "client: which models has the job saved, and which pass is the best?")    \
    X(AG_TURN, 0x11c, "client: other jobs on this machine; wait for the turn, take it")           \
    X(AG_DATA_LIST, 0x11e,                                                                        \
      "client to the head agent: data files outside the package, and their trainers")             \
    X(AG_DATA_FEED, 0x11f, "client: the client can also serve the job's data files")              \
    X(AG_JOB_HEAD, 0x140, "client: the head is lost; this node is the head now")                  \
    /* dispatch: client and agent, and agent and agent over TCP; docs/protocol.md, "Dispatch" */  \
    X(DS_BEGIN, 0x120, "client: root object of a package; does the node have it?")                \
    X(DS_SOURCE, 0x121, "client: the source for this node's missing objects")                     \
    X(DS_NEED, 0x122, "to a source: ids of missing objects")                                      \
    X(DS_OBJECT, 0x123, "from a source: records of objects")                                      \
    X(DS_SERVE, 0x124, "client: listen for nodes that fetch objects from this node")              \
    X(DS_STATUS, 0x125, "agent: progress of a package")                                           \
    X(DS_END, 0x126, "agent: the package is installed, or an error")                              \
    X(DS_ABORT, 0x127, "client: cancel this package")                                             \
    X(DS_PULL, 0x128, "agent to its source, first: the package whose objects it fetches")         \
    /* one data file, later: agent and agent, agent and client; docs/protocol.md, "Data files" */ \
    X(DF_FILE, 0x130, "taker: ask for the list of a file's objects")                              \
    X(DF_NEED, 0x131, "taker: ids of the next objects to send")                                   \
    X(DF_DATA, 0x132, "source: records of these objects")                                         \
    /* agent and head agent, over TCP after the handshake */                                      \
    X(HD_JOIN, 0x201, "agent to head: this node joins")                                           \
    X(HD_PROBE, 0x202, "head: probe these addresses of a peer")                                   \
    X(HD_BIND, 0x203, "head: bind the ports of your roles")                                       \
    X(HD_START, 0x204, "head: start this role with this environment")                             \
    X(HD_READY, 0x205, "agent: the pserver accepts connections")                                  \
    X(HD_EXITED, 0x206, "agent: a process ended")                                                 \
    X(HD_END, 0x207, "head: end your processes")                                                  \
    X(HD_PING, 0x209, "either way: heartbeat")                                                    \
    X(HD_FAIL, 0x20a, "agent: this node has failed, with the reason")                             \
    X(HD_SAVE, 0x20b, "head: let your trainer save the model and end")                            \
    X(HD_STOP, 0x20c, "head: end your trainer; HD_END ends your pserver")                         \
    X(HD_STOP_JOB, 0x20d, "agent to head: a client of this node asks to stop the job")            \
    X(HD_PASS, 0x20e, "agent: its trainer has tested a pass or saved a model")                    \
    X(HD_KEEP, 0x212, "head to a voter: what a next head needs")                                  \
    X(HD_HEARD, 0x213, "head to a voter: a report of a pass")                                     \
    X(HD_VOTE, 0x214, "candidate: may this node be the next head of the detached job?")           \
    X(HD_HEAD, 0x215, "a head that was chosen: this node is the head now")                        \
    X(HD_FILE, 0x210, "agent: which nodes have this data file?")                                  \
    X(HD_FILE_HERE, 0x211, "agent: this node now has the data file")                              \
    X(HD_FILE_COPY, 0x216, "head: get a copy of this data file; agent: it can't get one")         \
    /* `launch`: a node's callback and paddlectl, over TCP; docs/protocol.md, "Launch" */         \
    X(CB_CALL, 0x301, "callback, first: its rank, and what proves it")                            \
    X(CB_ENROLLED, 0x302, "paddlectl: the secrets for later calls")                               \
    X(CB_OPEN, 0x303, "paddlectl: run this command on the connection")                            \
    X(CB_OUT, 0x304, "either way: bytes of the command's standard input or output")               \
    X(CB_ERR, 0x305, "callback: bytes of the command's standard error")                           \
    X(CB_EOF, 0x306, "paddlectl: the end of the command's standard input")                        \
    X(CB_END, 0x307, "callback: the command has ended, and its output is complete")               \
    X(CB_BYE, 0x308, "paddlectl: it goes; callback: whether processes stay")                      \
    X(CB_TERM, 0x309, "callback: it got SIGTERM, so the cluster will end it soon")                \
    /* parameter server, over TCP after the handshake */                                          \
    X(PS_DECLARE, 0x401,                                                                          \
      "trainer: parameters and tables of the job; all trainers must declare the same")            \
    X(PS_PUSH_DENSE, 0x402, "trainer: gradients of dense segments for a step")                    \
    X(PS_PUSH_ROWS, 0x403, "trainer: gradients of table rows for a step")                         \
    X(PS_STEP_END, 0x404, "trainer: this contribution to the step is complete")                   \
    X(PS_PULL_DENSE, 0x405, "trainer: values of dense segments, not older than a step")           \
    X(PS_PULL_ROWS, 0x406,                                                                        \
      "trainer: values of table rows, not older than a step; may create rows")                    \
    X(PS_PASS_END, 0x407,                                                                         \
      "trainer: end of its data in this pass; answered when all streams have ended")              \
    X(PS_REDUCE, 0x408, "trainer: sum these numbers over all trainers in a fixed order")          \
    X(PS_SAVE, 0x409, "trainer 0: write your part of the model to a temporary folder")            \
    X(PS_COMMIT, 0x40a, "trainer 0: all parts are written; here is the manifest")                 \
    X(PS_LOAD, 0x40b, "trainer 0: load your part from a saved model")                             \
    X(PS_BYE, 0x40c, "trainer: leaving for good")                                                 \
    X(PS_DAY_END, 0x40d, "trainer 0: end of a day of data: decay, age and remove rows")           \
    X(PS_NOTE, 0x410, "trainer: its reader state for the next checkpoint")                        \
    X(PS_MODELS, 0x411, "trainer: list the checkpoints on your disk")                             \
    X(PS_VERIFY, 0x412, "trainer: verify your files of this checkpoint")                          \
    X(PS_READ, 0x413, "trainer: bytes of a file of a checkpoint")                                 \
    X(PS_STORE, 0x414, "trainer: bytes of a checkpoint's file, from another server")              \
    X(PS_REMOVE, 0x415, "trainer: remove this checkpoint")                                        \
    X(PS_TASK, 0x416, "trainer: its file is read; ask for the next one")                          \
    X(PS_LINK, 0x417, "trainer: link a file of an older checkpoint into this checkpoint")         \
    X(PS_BEAT, 0x418, "either way, on a separate connection: heartbeat")

enum wire_type {
#define X(name, number, text) WIRE_##name = number,
    WIRE_MSG_TABLE(X)
#undef X
};

const char *wire_msg_name(unsigned type); /* "PS_PUSH_DENSE", or "?" */
