/* msg.h - every message type there is, in one table; docs/protocol.md describes each and a test
 * compares the two lists. Numbers are never reused.
 *
 * Agent messages (0x1xx, 0x2xx) carry a JSON object in section 0 (at most WIRE_JSON_MAX bytes) and
 * raw bytes, if any, in section 1. Parameter-server messages (0x4xx) carry fixed little-endian
 * fields in section 0, 64-bit keys in section 1 and float32 values in section 2.
 */
#ifndef PD_WIRE_MSG_H
#define PD_WIRE_MSG_H

enum { WIRE_JSON_MAX = 4 << 20, WIRE_CHUNK = 256 << 10 };

/* X(name, number, text) */
#define WIRE_MSG_TABLE(X)                                                                         \
    X(HS_HELLO, 0x001, "handshake: who connects, and a nonce")                                    \
    X(HS_CHALLENGE, 0x002, "handshake: who accepts, and a nonce")                                 \
    X(HS_PROOF, 0x003, "handshake: the connector's proof of the key")                             \
    X(HS_WELCOME, 0x004, "handshake: the acceptor's proof of the key, and a greeting")            \
    X(HS_SHARE, 0x005,                                                                            \
      "either way, once open: memory of mine that large sections may come through")               \
    X(HS_SHARED, 0x006, "either way: your memory was found, or not")                              \
    /* client (paddlectl) and agent, over ssh, a pipe or the job's unix socket */                 \
    X(AG_HELLO, 0x101, "agent to client, first: version, node facts, job and its state")          \
    X(AG_PING, 0x102, "either way: still here; renews the attach lease")                          \
    X(AG_PKG_BEGIN, 0x104, "agent: outputs (tar.zst) follow")                                     \
    X(AG_PKG_DATA, 0x105, "section 1: the next bytes of the package")                             \
    X(AG_PKG_END, 0x106, "the package is complete; its SHA-256")                                  \
    X(AG_JOB_SETUP, 0x107, "client: this node's part of the job; section 1: the job's key")       \
    X(AG_JOB_PEERS, 0x108, "client: how all agents can be reached")                               \
    X(AG_JOB_RUN, 0x109, "client to the head agent: go")                                          \
    X(AG_STATE, 0x10a, "agent: the job or a process of this node changed state")                  \
    X(AG_LOG_SUBSCRIBE, 0x10b, "client: send these streams from these offsets on")                \
    X(AG_LOG, 0x10c, "agent: bytes of a stream (fixed fields, see docs/protocol.md)")             \
    X(AG_LOG_END, 0x10d, "agent: this stream is complete")                                        \
    X(AG_RESULT, 0x10e, "agent: how the job ended")                                               \
    X(AG_STOP, 0x10f, "client: end the job's processes")                                          \
    X(AG_FETCH, 0x110, "client: send a folder of the job back as a package")                      \
    X(AG_LIST, 0x111, "client: which jobs are under this root_dir?")                              \
    X(AG_BYE, 0x112, "client: done with this job; an agent whose job has ended exits")            \
    X(AG_STATUS, 0x113, "client: the job and its processes on this node, now")                    \
    X(AG_LOG_ACK, 0x114, "client: these bytes of a subscription are dealt with, send more")       \
    X(AG_CLEAN, 0x115, "client: remove what earlier jobs left under this root_dir")               \
    X(AG_CHECK, 0x116, "client: facts of this node for paddlectl check")                          \
    X(AG_CHECK_LISTEN, 0x117, "client: listen on a port for the other nodes' probes")             \
    X(AG_CHECK_PROBE, 0x118, "client: which of these nodes do you reach, and where?")             \
    X(AG_JOIN, 0x119, "client of an agent without a job: go on with this one")                    \
    X(AG_DATA_LIST, 0x11e,                                                                        \
      "client to the head agent: data files of the job that came apart, and who got them")        \
    X(AG_DATA_FEED, 0x11f, "client: it has the job's data files, too")                            \
    /* dispatch: client and agent, and agent and agent over TCP; docs/protocol.md, "Dispatch" */  \
    X(DS_BEGIN, 0x120, "client: here is a package's root object; is it there?")                   \
    X(DS_SOURCE, 0x121, "client: where this node takes its missing objects from")                 \
    X(DS_NEED, 0x122, "to a source: the ids of objects that are lacking")                         \
    X(DS_OBJECT, 0x123, "from a source: records of objects")                                      \
    X(DS_SERVE, 0x124, "client: listen for nodes that take their objects from this one")          \
    X(DS_STATUS, 0x125, "agent: how far a package is")                                            \
    X(DS_END, 0x126, "agent: the package is in place, or why not")                                \
    X(DS_ABORT, 0x127, "client: give this package up")                                            \
    X(DS_PULL, 0x128, "agent to its source, first: of which package objects are wanted")          \
    /* one data file, later: agent and agent, agent and client; docs/protocol.md, "Data files" */ \
    X(DF_FILE, 0x130, "taker: of what is this file made?")                                        \
    X(DF_NEED, 0x131, "taker: the ids of its objects that are wanted next")                       \
    X(DF_DATA, 0x132, "source: records of these objects")                                         \
    /* agent and head agent, over TCP after the handshake */                                      \
    X(HD_JOIN, 0x201, "agent to head: this node is here")                                         \
    X(HD_PROBE, 0x202, "head: which of these addresses of a peer answer?")                        \
    X(HD_BIND, 0x203, "head: bind the ports of your roles")                                       \
    X(HD_START, 0x204, "head: start this role with this environment")                             \
    X(HD_READY, 0x205, "agent: the pserver's port accepts")                                       \
    X(HD_EXITED, 0x206, "agent: a process ended")                                                 \
    X(HD_END, 0x207, "head: end your processes")                                                  \
    X(HD_ENDED, 0x208, "agent: none of this node's processes is left")                            \
    X(HD_PING, 0x209, "either way: still here")                                                   \
    X(HD_FAIL, 0x20a, "agent: this node cannot go on, and why")                                   \
    X(HD_SAVE, 0x20b, "head: your trainer is to save the model and end")                          \
    X(HD_STOP, 0x20c, "head: end your trainer; your pserver goes with HD_END")                    \
    X(HD_STOP_JOB, 0x20d, "agent to head: a client asks this node to stop the job")               \
    X(HD_FILE, 0x210, "agent: who has this data file?")                                           \
    X(HD_FILE_HERE, 0x211, "agent: this node has it now")                                         \
    /* parameter server, over TCP after the handshake */                                          \
    X(PS_DECLARE, 0x401,                                                                          \
      "trainer: the parameters and tables of the job; first declares, later ones must agree")     \
    X(PS_PUSH_DENSE, 0x402, "trainer: gradients of dense segments for a step")                    \
    X(PS_PUSH_ROWS, 0x403, "trainer: gradients of table rows for a step")                         \
    X(PS_STEP_END, 0x404, "trainer: this contribution to the step is complete")                   \
    X(PS_PULL_DENSE, 0x405, "trainer: values of dense segments, not older than a step")           \
    X(PS_PULL_ROWS, 0x406,                                                                        \
      "trainer: values of table rows, not older than a step, creating them or not")               \
    X(PS_PASS_END, 0x407,                                                                         \
      "trainer: no more data in this pass; answered when all streams have ended")                 \
    X(PS_REDUCE, 0x408, "trainer: sum these numbers over all trainers in a fixed order")          \
    X(PS_SAVE, 0x409, "trainer 0: write your part of the model aside")                            \
    X(PS_COMMIT, 0x40a, "trainer 0: all parts are written; here is the manifest")                 \
    X(PS_LOAD, 0x40b, "trainer 0: load your part from a saved model")                             \
    X(PS_BYE, 0x40c, "trainer: leaving for good")                                                 \
    X(PS_DAY_END, 0x40d, "trainer 0: a day of the data is over: rows fade, age and go")           \
    X(PS_NOTE, 0x410, "trainer: keep this for the next checkpoint")                               \
    X(PS_MODELS, 0x411, "trainer: which checkpoints are on your disk?")                           \
    X(PS_VERIFY, 0x412, "trainer: is what you have of this checkpoint whole?")                    \
    X(PS_READ, 0x413, "trainer: bytes of a file of a checkpoint")                                 \
    X(PS_STORE, 0x414, "trainer: bytes of a file of a checkpoint, from another server")           \
    X(PS_REMOVE, 0x415, "trainer: this checkpoint is no longer needed")                           \
    X(PS_TASK, 0x416, "trainer: the file that it was given is read; which one is next?")          \
    X(PS_LINK, 0x417, "trainer: a file of a checkpoint that you have in an older one, too")       \
    X(PS_BEAT, 0x418, "either way, on a connection of its own: still alive")

enum wire_type {
#define X(name, number, text) WIRE_##name = number,
    WIRE_MSG_TABLE(X)
#undef X
};

const char *wire_msg_name(unsigned type); /* "PS_PUSH_DENSE", or "?" */

#endif
