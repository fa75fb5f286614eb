/* bootstrap.h - from a login shell to the agent's relay, in one exec on one channel.
 *
 *     ssh host "exec /bin/sh -c '<script>' ..."
 *       <-- (whatever the start-up files print)
 *       <-- MARKER run                the cached ROOT/.paddlectl/bin/agent-<hash> is there: it is
 * exec'd, frames follow
 *       <-- MARKER more               it is not:
 *       --> the rest of the script, one line
 *       <-- MARKER send gzip|plain <arch>
 *       --> the executable, as gzip where the host has it, exactly so many bytes
 *      or, where several hosts may need it,
 *       <-- MARKER send seed <arch> <SSH_CONNECTION>
 *       --> the seed (src/seed), a program of some kB
 *       <-> what it says, "MARKER seed ...", and is told (seeding.h), until it has the agent from
 * another host or from here
 *       <-- MARKER run                stored, checked, renamed, exec'd
 *       <-- MARKER fail <reason>
 *
 * The marker is random and stands in the command only in two halves, so that no echo of the command
 * is taken for it.
 */
#ifndef LAUNCHER_BOOTSTRAP_H
#define LAUNCHER_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { BOOT_MARKER = 32, BOOT_NOISE_MAX = 4 << 20, BOOT_LINE = 400 };

/* The agent's executable: what is sent, and the name it is cached under. */
struct agent_image {
    uint8_t *bytes, *gzip; /* gzip: the same, packed; NULL when no such file lies beside it */
    size_t size, gzip_size;
    uint8_t *seed; /* NULL when there is none for this architecture */
    size_t seed_size;
    uint8_t *chunk_ids; /* with a seed: BLAKE2b-256 of each SEED_CHUNK bytes of gzip */
    uint32_t cksum;     /* cksum.h */
    char hash[65];      /* BLAKE2b-256 */
    char path[4096];
};

/* Find paddle_agent beside this program, in ../libexec/paddlectl, or where PADDLECTL_LIBEXEC says,
 * and read it. */
int agent_image_load(struct agent_image *img, struct pd_err *err);
void agent_image_release(struct agent_image *img);
/* The path of a node program by the same rules. PD_ENOENT with the places that were tried. */
int node_program_path(const char *name, char *out, size_t cap, struct pd_err *err);

/* %n becomes the node id. A root_dir with control characters is PD_ECONF. */
int root_for_node(const char *root_dir, int node, char *out, size_t cap, struct pd_err *err);
/* The same, with ~ and relative paths resolved here, for a node on this machine. */
int root_for_local(const char *root_dir, int node, char *out, size_t cap, struct pd_err *err);

struct boot {
    char marker[BOOT_MARKER + 1];
    char line[BOOT_LINE];
    size_t line_len, noise; /* noise: bytes that count for the limit */
    size_t taken,
        printed; /* bytes so far; how many stood before the first marker: the log-in printed them */
    int marked;
};

enum boot_event {
    BOOT_MORE,
    BOOT_REST,
    BOOT_SEND,
    BOOT_SEND_GZIP,
    BOOT_SEND_SEED,
    BOOT_SEED,
    BOOT_RUN,
    BOOT_FAIL
};

/* The command line for ssh, with its NUL. `job` is NULL, or the job to join, or with `start_node`
 * >= 0 to start (its agent waits lease_ms for us before the job is set up). */
int boot_command(struct boot *b, const char *root, const struct agent_image *img, const char *job,
                 int start_node, unsigned lease_ms, struct pd_buf *out);

/* What BOOT_REST asks for. */
int boot_rest(const struct agent_image *img, int with_seed, struct pd_buf *out);

/* Take bytes; *used says how many (after BOOT_RUN the rest are frames). BOOT_SEND, BOOT_SEND_GZIP:
 * `text` is the node's architecture, BOOT_SEND_SEED: that and, behind a blank, SSH_CONNECTION;
 * BOOT_SEED: what the seed says; BOOT_FAIL: the reason. */
enum boot_event boot_input(struct boot *b, const uint8_t *p, size_t n, size_t *used, char *text,
                           size_t cap);

#endif
