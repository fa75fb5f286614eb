/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap.h - from a login shell to the agent's relay, in one exec on one channel.
 *
 *     ssh host "exec /bin/sh -c '<script>' ..."
 *       <-- (output of the login shell's start-up files)
 *       <-- MARKER run                ROOT/.paddlectl/bin/agent-<hash> cached: exec, frames follow
 *       <-- MARKER more               it is not cached, or its folder is not safe:
 *       --> the rest of the script, one line
 *       <-- MARKER send gzip|plain <arch>
 *       --> the executable, gzipped if the host has gzip; its exact size is known to the script
 *      or, if several hosts may need the agent,
 *       <-- MARKER send seed <arch> <SSH_CONNECTION>
 *       --> the seed (src/seed), a program of some kB
 *       <-> records of the seed, "MARKER seed ...", and answers (seeding.h), until the seed has the
 *           agent from another host or from this machine
 *       <-- MARKER run                stored, checked, renamed, exec'd
 *       <-- MARKER fail <reason>
 *
 * The marker is random. The command holds it in two halves, so an echo of the command is never
 * mistaken for the marker.
 */
#pragma once

#include "launcher/launch/launch.h"

enum { BOOT_MARKER = 32, BOOT_NOISE_MAX = 4 << 20, BOOT_LINE = 400 };

/* The agent's executable: the bytes to send, and the hash that names its cached copy. */
struct agent_image {
    /* gzip: the packed executable; NULL if no such file lies beside it */
    uint8_t *bytes, *gzip;
    size_t size, gzip_size;
    uint8_t *seed; /* NULL: no seed for this architecture */
    size_t seed_size;
    uint8_t *chunk_ids; /* with a seed: BLAKE2b-256 of each SEED_CHUNK bytes of gzip */
    char hash[65];      /* BLAKE2b-256 */
    struct stat file;   /* of `path`, when it was read */
    char sha256[65];    /* for hosts without b2sum; "" until it is needed */
    char path[4096];
};

/* Find and read paddle_agent: beside this program, in ../libexec/paddlectl, or in the folder that
 * PADDLECTL_LIBEXEC names. */
int agent_image_load(struct agent_image *img, struct pd_err *err);
/* 1: the file is still the one that was hashed. */
int agent_image_is_file(const struct agent_image *img);
void agent_image_release(struct agent_image *img);
/* The path of a node program, found by the same rules. PD_ENOENT lists the places tried. */
int node_program_path(const char *name, char *out, size_t cap, struct pd_err *err);

/* Replace %n by the node id. PD_ECONF if root_dir holds control characters. */
int root_for_node(const char *root_dir, int node, char *out, size_t cap, struct pd_err *err);
/* As root_for_node, for a node on this machine: ~ and relative paths are resolved here. */
int root_for_local(const char *root_dir, int node, char *out, size_t cap, struct pd_err *err);

struct boot {
    char marker[BOOT_MARKER + 1];
    char line[BOOT_LINE];
    size_t line_len, noise; /* noise: bytes that count for the limit */
    size_t taken;           /* bytes so far */
    size_t printed;         /* bytes before the first marker, written by the login shell */
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

/* The command line for ssh, with its NUL. `job` is NULL, or the job to join. If start_node >= 0,
 * start `job` as this node instead: its agent waits lease_ms for its client before the job is set
 * up. */
int boot_command(struct boot *b, const char *root, const struct agent_image *img, const char *job,
                 int start_node, unsigned lease_ms, struct pd_buf *out);

/* The answer to BOOT_REST. */
int boot_rest(struct agent_image *img, int with_seed, struct pd_buf *out);

/* The words that `launch` starts on each node: a script that finds or fetches the agent in `root`
 * (with ~ and %n, the rank), and runs it as a callback. */
struct boot_launch {
    struct launch_words words;
    char *argv[16];
    char *seed, *init, *chunks, *peers, *to, *secret;
    char size[24], port[24], wait[24];
};
int boot_launch(struct boot_launch *b, const char *root, struct agent_image *img,
                const struct launch *l, unsigned timeout_ms, struct pd_err *err);
void boot_launch_release(struct boot_launch *b);

/* Take bytes. *used is how many were taken; after BOOT_RUN the rest are frames. `text` holds:
 * - BOOT_SEND, BOOT_SEND_GZIP: the node's architecture
 * - BOOT_SEND_SEED: the architecture, a blank and SSH_CONNECTION
 * - BOOT_SEED: the seed's message
 * - BOOT_FAIL: the reason */
enum boot_event boot_input(struct boot *b, const uint8_t *p, size_t n, size_t *used, char *text,
                           size_t cap);
