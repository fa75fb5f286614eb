/* SPDX-License-Identifier: Apache-2.0 */
/* bootstrap.c - see bootstrap.h. */
#include "launcher/link/bootstrap.h"

#include "launcher/link/bundle.h"

#include <arpa/inet.h>
#include <openssl/sha.h>
#include <sodium.h>
#include <zlib.h>

#include "pack/object/object.h"
#include "seed/seed.h"

enum { AGENT_MAX_BYTES = 256 << 20, SEED_MAX_BYTES = 4 << 20 };

/* The user's login shell sees one line: exec /bin/sh -c '...' with quoted words. Any shell must
 * understand the line, so the script holds no single quote, backslash or exclamation mark. $1 root,
 * $2 hash, $3 size, $4 $5 halves of the marker, then options of the relay. The script travels to
 * every host at every start. Parts that only the first start needs are sent on request:
 * `script_rest`.
 *
 * peril PATH... sets y to "fine" if only this user and root can replace the paths, which lie in the
 * current folder. Otherwise y is the first folder or file that others can replace, below "/" or the
 * current folder, with mode and user; or nothing. Each folder above has to belong to this user or
 * to the owner of "/", and nobody else may write to it, unless it is sticky as /tmp. A user's own
 * group, which has the user's number, may write. `ls -r` sorts "/" first. A row ends with a name
 * that begins with "." or "/". peril starts no process but ls, and so does a start from the cache.
 * A fork of the shell takes as long as a start of the shell, so a start from the cache, which
 * writes nothing, leaves the umask as it is. Whatever is written has umask 077 (`o`: the login's).
 *
 * $(ls) forks the shell, and ls alone does not: dash starts it with vfork. So ls writes into a
 * pipe, which an empty here-document opens and the kernel gives ls as /proc/self/fd/3; ${IFS#??} is
 * a newline. If that leaves y empty, peril asks again with $(ls): no /proc, an ls without ctimes.
 * Rows of more than 30 folders might fill the pipe.
 *
 * The cached agent is run if its BLAKE2b-256 is right. A host without b2sum compares SHA-256, in
 * script_rest. The name of the empty file hashed-* beside the agent has the hash, inode, mode,
 * user, size and ctime (ns) of an agent that was hashed. No program can set a ctime, so an agent
 * with these values has the bytes that were hashed. The file is made only if the ctime is some
 * seconds old: a later change has another ctime, whatever the clock's steps are. An ls that cannot
 * show a ctime (`old` is 1 then) means a hash at each start. */
#define FUNCTIONS                                                                                 \
    "case $r in \"~\") r=$HOME;; \"~/\"*) r=$HOME/${r#??};; /*) ;; *) r=$HOME/$r;; esac; "        \
    "d=$r/.paddlectl/bin; a=agent-$h; b=--build=$h; "                                             \
    "rows() { case $old in 1) LC_ALL=C ls -ldnr / \"$@\";; *) "                                   \
    "LC_ALL=C ls -ldnri --time=ctime --time-style=+%s.%N / \"$@\";; esac 2>/dev/null; }; "        \
    "judge() { c=$1; seen=; t=; w=; while read -r v p f u q sz ct x; do "                         \
    "case $old in 1) q=$u; u=$f; p=$v; x=${x##* };; esac; t=${t:-$u}; "                           \
    "case $old$x in ./agent-*) seen=$h:$v:$p:$u:$sz:$ct;; 1./*|1[/.]|./*|[/.]) ;; *) return;; "   \
    "esac; "                                                                                      \
    "case $x:$p in ./../..*:?????????[tT]*) ;; *:????????w*) w=1;; "                              \
    "*:?????w*) [ $u = $q ] && [ $u != 0 ] && [ -O \"$x\" ] || w=1;; esac; "                      \
    "case $u in 0|$t) ;; *) [ -O \"$x\" ] || w=1;; esac; "                                        \
    "[ -z \"$w\" ] || { y=\"$x $p $u\"; return; }; c=$((c-1)); done; "                            \
    "[ $c -ge 0 ] || y=fine; }; "                                                                 \
    "ask() { rows \"$@\" >/proc/self/fd/3; judge $# <&3; }; "                                     \
    "peril() { q=.; v=$PWD/; y=; seen=; case $v in /*) ;; *) return;; esac; "                     \
    "while v=${v%/*}; [ \"$v\" ]; do q=$q/..; set -- \"$q\" \"$@\"; done; old=; "                 \
    "[ $# -lt 30 ] && eval \"ask $* 2>/dev/null 3<<E${IFS#??}E\"; "                               \
    "for old in \"\" 1; do [ \"$y\" ] || { "                                                      \
    "y=$(rows \"$@\" | { judge $#; echo \"$y $seen\"; }); seen=${y##* }; y=${y% *}; }; done; }; " \
    "whole() { c=$(b2sum -l 256 <\"$1\" 2>/dev/null); [ \"${c%% *}\" = $h ]; }; "                 \
    "known() { peril . ./$a; [ \"$y\" = fine ] || return; "                                       \
    "[ \"$seen\" ] && [ -e hashed-$seen ] && return; whole $a || return; v=${seen##*:}; "         \
    "[ \"$seen\" ] && [ $(($(date +%s)-${v%.*})) -gt 5 ] && (umask 077; "                         \
    "rm -f hashed*; >hashed-$seen); :; }; "                                                       \
    "cached() { [ -x $a ] && known 2>/dev/null; }; "                                              \
    "cd -P \"$d\" 2>/dev/null && cached && go \"$@\"; "

static const char script[] =
    "o=; r=$1; h=$2; s=$3; m=$4$5; shift 5; "
    "go() { ${o:+umask $o}; echo \"$m run\"; exec \"$d/$a\" relay \"--root=$r\" $b \"$@\"; "
    "}; " FUNCTIONS "echo \"$m more\"; IFS= read -r x; eval \"$x\"";

/* One line on stdin, behind g=BYTES (size of the gzipped agent; 0: none), e=BYTES (size of the
 * seed; 0: none) and k=HEX (the agent's SHA-256). Errors go to stderr, which paddlectl shows. A
 * seed may fail to start (another kernel, a shell that cannot exec it). It then creates no file and
 * leaves stdin unread. A host without b2sum and sha256sum gets the agent at each start, and only
 * its size is compared. */
#define FOLDER                                                                                  \
    "o=$(umask); umask 077; "                                                                   \
    "(umask 022; mkdir -p \"$r\") && mkdir -p \"$d\" && cd -P \"$d\" || bad \"cannot make the " \
    "folder $d\"; "                                                                             \
    "chmod 700 \"$d\" \"${d%/*}\" 2>/dev/null; "                                                \
    "peril .; [ \"$y\" ] || bad \"cannot check the folders above $d\"; "                        \
    "if [ \"$y\" = fine ]; then :; else cd \"${y%% *}\" || cd ..; p=$(pwd -P); "                \
    "set -- $(ls -ld .); "                                                                      \
    "if [ -O . ]; then y=\"chmod go-w $p\"; elif [ $3 = root ]; then y=\"as root, chmod +t "    \
    "$p\"; else y=\"another root_dir, or as root, chown $(id -un) $p\"; fi; "                   \
    "bad \"others could replace the programs in $d: $p belongs to $3 and has mode $1; mend it " \
    "with: $y\"; fi; "                                                                          \
    "whole() { c=$(b2sum -l 256 <\"$1\" 2>/dev/null || sha256sum <\"$1\" 2>/dev/null || echo "  \
    "none); "                                                                                   \
    "case ${c%% *} in $h|$k) ;; none) b=; [ \"$(wc -c <\"$1\")\" -eq ${2:--1} ];; *) false;; "  \
    "esac; }; "                                                                                 \
    "cached && go \"$@\"; "                                                                     \
    "t=$d/tmp-$$-$h; clean() { rm -f \"$t\" \"$t.gz\" \"$t.seed\" \"$t.in\"; }; trap clean 0; " \
    "trap \"exit 1\" 1 2 13 15; "

#define STORE                                                                              \
    "whole \"$t\" $s || bad \"$t is incomplete\"; rm -f \"$t.gz\" \"$t.seed\" \"$t.in\"; " \
    "sync \"$t\" 2>/dev/null; chmod 700 \"$t\" && mv -f \"$t\" $a || bad \"cannot store "  \
    "$d/$a\"; trap - 0 1 2 13 15; go \"$@\"\n"

static const char script_rest[] =
    "bad() { echo \"$m fail $1\"; exit 1; }; " FOLDER
    "[ \"$g\" -gt 0 ] && command -v gzip >/dev/null || { g=0; e=0; }; "
    "if [ \"$e\" -gt 0 ]; then echo \"$m send seed $(uname -m) $SSH_CONNECTION\"; "
    "head -c \"$e\" >\"$t.seed\" && [ \"$(wc -c <\"$t.seed\")\" -eq \"$e\" ] && chmod 700 "
    "\"$t.seed\" || bad \"cannot write $t.seed\"; "
    "\"$t.seed\" \"$t.gz\" \"$m\"; x=$?; "
    "case $x in 0) ;; 3) bad \"cannot write $t.gz\";; 4) bad \"cannot write $t.gz: No space left "
    "on device\";; *) [ -e \"$t.gz\" ] && bad \"the seed failed ($x)\"; e=0;; esac; fi; "
    "if [ \"$e\" -gt 0 ]; then gzip -dc <\"$t.gz\"; "
    "elif [ \"$g\" -gt 0 ]; then echo \"$m send gzip $(uname -m)\" >&3; head -c \"$g\" | gzip -dc; "
    "else echo \"$m send plain $(uname -m)\" >&3; head -c \"$s\"; fi 3>&1 >\"$t\" || bad \"cannot "
    "write $t\"; " STORE;

/* The script that `launch` starts on each node, with the words of boot_launch. It has no stream to
 * paddlectl: a host without the agent makes the seed from $5 (octal escapes), which fetches the
 * agent over TCP from one of the addresses in $8. $5 is "-" if the seed is the second line of
 * standard input, behind the secret. $8: the record that ends the seed, then a record for each
 * address. `read` and `printf` belong to the shell, so no secret is on a command line. `read` takes
 * a byte at a time: the script reads secret and seed only if it needs the seed. Otherwise the
 * callback reads the secret itself. */
static const char launch_script[] =
    "n=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-$SLURM_PROCID}}}; "
    "z=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-${SLURM_STEP_NUM_TASKS:-0}}}; "
    "bad() { echo \"paddlectl: $(uname -n): $1\" >&2; exit 1; }; "
    "case $n in \"\"|*[!0-9]*) bad \"the command of launch tells no rank (OMPI_COMM_WORLD_RANK, "
    "PMIX_RANK, PMI_RANK, SLURM_PROCID)\";; esac; "
    "o=; r=$1; h=$2; s=$3; k=$4; e=$5; i=$6; j=$7; l=$8; shift 8; "
    "while case $r in *%n*) ;; *) false;; esac; do r=${r%%%n*}$n${r#*%n}; done; "
    "go() { ${o:+umask $o}; exec \"$d/$a\" callback --node=$n --size=$z \"$@\"; }; " FUNCTIONS
    "[ \"$PADDLECTL_LAUNCH\" ] || { IFS= read -r PADDLECTL_LAUNCH; export PADDLECTL_LAUNCH; }; "
    "[ \"$e\" != - ] || IFS= read -r e; " FOLDER
    "[ \"$e\" ] || bad \"the agent is not in $d, and there is no seed for this "
    "machine\"; "
    "command -v gzip >/dev/null || bad \"gzip is missing\"; "
    "printf \"$e\" >\"$t.seed\" && chmod 700 \"$t.seed\" && mkfifo \"$t.in\" || bad \"cannot write "
    "$t.seed\"; "
    "\"$t.seed\" \"$t.gz\" x <\"$t.in\" | { exec 3>\"$t.in\"; "
    "printf \"$i${PADDLECTL_LAUNCH#* }$j\" >&3; x=${l%% *}; set -- ${l#* }; printf \"$1\" >&3; "
    "while read -r c c w c; do case $w in lost) shift; [ $# -gt 0 ] || exit; printf \"$1\" >&3;; "
    "done) printf \"$x\" >&3;; esac; done; }; "
    "gzip -dc <\"$t.gz\" >\"$t\" 2>/dev/null || bad \"cannot fetch the agent from "
    "paddlectl\"; " STORE;

int node_program_path(const char *name, char *out, size_t cap, struct pd_err *err) {
    char self[PATH_MAX];
    const char *dir = getenv("PADDLECTL_LIBEXEC");
    if (dir && *dir) {
        if (pd_fmt(out, cap, "%s/%s", dir, name) || access(out, R_OK))
            return pd_fail(err, PD_ENOENT, "%s is not in PADDLECTL_LIBEXEC (%s)", name, dir);
        return 0;
    }
    if (bundle_self_dir(self, sizeof self, err))
        return err->code;
    if (!pd_fmt(out, cap, "%s/%s", self, name) && !access(out, R_OK))
        return 0;
    if (!pd_fmt(out, cap, "%s/../libexec/paddlectl/%s", self, name) && !access(out, R_OK))
        return 0;
    return pd_fail(err, PD_ENOENT, "%s is neither in %s nor in %s/../libexec/paddlectl", name, self,
                   self);
}

static uint32_t le32(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The packed copy of the executable that the build made, if there is one. A gzip file ends with
 * CRC-32 and length of its contents. */
static void load_gzip(struct agent_image *img) {
    char path[PATH_MAX];
    struct pd_buf b = {0};
    if (pd_fmt(path, sizeof path, "%s.gz", img->path) || access(path, R_OK) ||
        pd_read_file(path, AGENT_MAX_BYTES, &b, NULL) || b.len < 18 ||
        le32(b.data + b.len - 4) != img->size ||
        le32(b.data + b.len - 8) != (uint32_t)crc32_z(crc32(0, NULL, 0), img->bytes, img->size)) {
        pd_buf_release(&b);
        return;
    }
    img->gzip = b.data;
    img->gzip_size = b.len;
}

/* The seed, and the hashes by which it checks the packed agent. Without them this machine sends the
 * agent to every host. */
static void load_seed(struct agent_image *img) {
    char path[PATH_MAX];
    struct pd_buf b = {0};
    size_t n = (img->gzip_size + SEED_CHUNK - 1) / SEED_CHUNK;
    if (!n || n > SEED_CHUNKS_MAX ||
        node_program_path("paddle_seed", path, sizeof path, &(struct pd_err){0}) ||
        pd_read_file(path, SEED_MAX_BYTES, &b, NULL) || !b.len ||
        !(img->chunk_ids = pd_calloc(n, SEED_HASH))) {
        pd_buf_release(&b);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = i * SEED_CHUNK, left = img->gzip_size - at;
        crypto_generichash(img->chunk_ids + i * SEED_HASH, SEED_HASH, img->gzip + at,
                           left < SEED_CHUNK ? left : SEED_CHUNK, NULL, 0);
    }
    img->seed = b.data;
    img->seed_size = b.len;
}

int agent_image_load(struct agent_image *img, struct pd_err *err) {
    struct pd_buf bytes = {0};
    struct object_id id;
    memset(img, 0, sizeof *img);
    int rc = node_program_path("paddle_agent", img->path, sizeof img->path, err);
    if (!rc && stat(img->path, &img->file)) /* before it is read: a later file is another one */
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot read %s", img->path);
    if (!rc)
        rc = pd_read_file(img->path, AGENT_MAX_BYTES, &bytes, err);
    if (rc) {
        pd_buf_release(&bytes);
        return rc;
    }
    img->bytes = bytes.data;
    img->size = bytes.len;
    object_id_of(&id, img->bytes, img->size);
    object_hex(&id, img->hash);
    load_gzip(img);
    load_seed(img);
    return 0;
}

int agent_image_is_file(const struct agent_image *img) {
    const struct stat *a = &img->file;
    struct stat b;
    return !stat(img->path, &b) && a->st_dev == b.st_dev && a->st_ino == b.st_ino &&
           a->st_size == b.st_size && !memcmp(&a->st_ctim, &b.st_ctim, sizeof b.st_ctim);
}

void agent_image_release(struct agent_image *img) {
    free(img->bytes);
    free(img->gzip);
    free(img->seed);
    free(img->chunk_ids);
    memset(img, 0, sizeof *img);
}

int root_for_node(const char *root_dir, int node, char *out, size_t cap, struct pd_err *err) {
    size_t n = 0;
    if (!*root_dir)
        return pd_fail(err, PD_ECONF,
                       "root_dir is empty: it is a folder of the nodes, as in root_dir = ~/paddle");
    for (const char *s = root_dir; *s; s++) {
        char one[16] = {*s, 0};
        if ((unsigned char)*s < 32 || *s == 127)
            return pd_fail(err, PD_ECONF, "root_dir has a control character");
        if (s[0] == '%' && s[1] == 'n') {
            pd_fmt(one, sizeof one, "%d", node);
            s++;
        }
        size_t k = strlen(one);
        if (n + k >= cap)
            return pd_fail(err, PD_ECONF, "root_dir is too long");
        memcpy(out + n, one, k + 1);
        n += k;
    }
    return 0;
}

int root_for_local(const char *root_dir, int node, char *out, size_t cap, struct pd_err *err) {
    char root[PATH_MAX];
    const char *home = getenv("HOME");
    int rc = root_for_node(root_dir, node, root, sizeof root, err);
    if (rc)
        return rc;
    if (root[0] == '/')
        return pd_fmt(out, cap, "%s", root) ? pd_fail(err, PD_ECONF, "root_dir is too long") : 0;
    if (!home || !*home)
        return pd_fail(err, PD_ECONF, "root_dir is below the home folder, but HOME is not set");
    const char *rest = !strcmp(root, "~") ? "" : pd_starts_with(root, "~/") ? root + 2 : root;
    return pd_fmt(out, cap, *rest ? "%s/%s" : "%s", home, rest)
               ? pd_fail(err, PD_ECONF, "root_dir is too long")
               : 0;
}

int boot_command(struct boot *b, const char *root, const struct agent_image *img, const char *job,
                 int start_node, unsigned lease_ms, struct pd_buf *out) {
    uint8_t random[BOOT_MARKER / 2];
    char size[24], first[BOOT_MARKER / 2 + 1], job_arg[100], node_arg[24], lease_arg[24];
    memset(b, 0, sizeof *b);
    randombytes_buf(random, sizeof random);
    pd_hex(b->marker, random, sizeof random);
    pd_fmt(size, sizeof size, "%zu", img->size);
    pd_fmt(job_arg, sizeof job_arg, "--job=%s", job ? job : "");
    pd_fmt(node_arg, sizeof node_arg, "--node=%d", start_node);
    memcpy(first, b->marker, BOOT_MARKER / 2);
    pd_fmt(lease_arg, sizeof lease_arg, "--lease=%u", lease_ms);
    first[BOOT_MARKER / 2] = 0;
    const char *words[] = {
        script,  "paddlectl", root,      img->hash, size, first, b->marker + BOOT_MARKER / 2,
        job_arg, node_arg,    lease_arg, "--start"};
    size_t n = !job ? 7 : start_node < 0 ? 8 : 11;
    pd_put(out, "exec /bin/sh -c", 15);
    for (size_t i = 0; i < n; i++) {
        pd_put_u8(out, ' ');
        pd_put_quoted(out, words[i]);
    }
    pd_put_u8(out, 0);
    return out->failed;
}

static void need_sha256(struct agent_image *img) {
    uint8_t sum[SHA256_DIGEST_LENGTH];
    if (*img->sha256) /* milliseconds, which most starts can do without */
        return;
    SHA256(img->bytes, img->size, sum); /* half the time of that of libsodium */
    pd_hex(img->sha256, sum, sizeof sum);
}

int boot_rest(struct agent_image *img, int with_seed, struct pd_buf *out) {
    need_sha256(img);
    pd_put_fmt(out, "g=%zu; e=%zu; k=%s; %s", img->gzip_size, with_seed ? img->seed_size : 0,
               img->sha256, script_rest);
    return out->failed;
}

/* --- launch --- */

/* As printf(1) of a shell reads it. */
static void put_octal(struct pd_buf *b, const void *p, size_t n) {
    const uint8_t *at = p;
    for (size_t i = 0; i < n; i++)
        if (isalnum(at[i]))
            pd_put_u8(b, at[i]);
        else
            pd_put_fmt(b, "\\%03o", at[i]);
}

static char *octal(const void *p, size_t n) {
    struct pd_buf b = {0};
    put_octal(&b, p, n);
    pd_put_u8(&b, 0);
    if (!b.failed)
        return (char *)b.data;
    pd_buf_release(&b);
    return NULL;
}

static void put_peers(struct pd_buf *b, const struct launch_place *p) {
    struct seed_record go = {.op = SEED_OP_GO};
    put_octal(b, &go, sizeof go);
    for (size_t i = 0; i < p->n_addrs; i++) {
        struct seed_record r = {.op = SEED_OP_PEER, .a = 4, .b = (uint32_t)p->seed_port};
        if (strchr(p->addrs[i], ':'))
            r.a = 6;
        inet_pton(r.a == 6 ? AF_INET6 : AF_INET, p->addrs[i], r.addr);
        pd_put_u8(b, ' ');
        put_octal(b, &r, sizeof r);
    }
    pd_put_u8(b, 0);
}

static void put_addrs(struct pd_buf *b, const struct launch_place *p) {
    for (size_t i = 0; i < p->n_addrs; i++)
        pd_put_fmt(b, "%s%s", i ? "," : "--to=", p->addrs[i]);
    pd_put_u8(b, 0);
}

void boot_launch_release(struct boot_launch *b) {
    char *all[] = {b->seed, b->init, b->chunks, b->peers, b->to, b->secret};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    memset(b, 0, sizeof *b);
}

int boot_launch(struct boot_launch *b, const char *root, struct agent_image *img,
                const struct launch *l, unsigned timeout_ms, struct pd_err *err) {
    const struct launch_place *p = launch_place(l);
    const size_t n_chunks = img->seed ? (img->gzip_size + SEED_CHUNK - 1) / SEED_CHUNK : 0;
    const struct seed_record init = {
        .op = SEED_OP_INIT, .a = (uint32_t)img->gzip_size, .b = SEED_CHUNK};
    struct pd_buf peers = {0}, to = {0}, secret = {0};
    char hex[2 * LAUNCH_KEY + 1];
    memset(b, 0, sizeof *b);
    need_sha256(img);
    put_peers(&peers, p);
    put_addrs(&to, p);
    pd_hex(hex, p->secret, sizeof p->secret);
    pd_put_fmt(&secret, "%s ", hex);
    put_octal(&secret, p->seed_secret, sizeof p->seed_secret);
    pd_put_u8(&secret, 0);
    sodium_memzero(hex, sizeof hex);
    b->seed = octal(img->seed, img->seed_size);
    b->init = octal(&init, offsetof(struct seed_record, secret));
    b->chunks = octal(img->chunk_ids, n_chunks * SEED_HASH);
    b->peers = (char *)peers.data;
    b->to = (char *)to.data;
    b->secret = (char *)secret.data;
    if (!b->seed || !b->init || !b->chunks || peers.failed || to.failed || secret.failed) {
        boot_launch_release(b);
        return pd_oom(err, "the words of launch");
    }
    pd_fmt(b->size, sizeof b->size, "%zu", img->size);
    pd_fmt(b->port, sizeof b->port, "--port=%d", p->port);
    pd_fmt(b->wait, sizeof b->wait, "--wait=%u", timeout_ms);
    const int has_stdin = launch_has_stdin(l) && *b->seed;
    const char *words[] = {"/bin/sh",   "-c",        launch_script,
                           "paddlectl", root,        img->hash,
                           b->size,     img->sha256, has_stdin ? "-" : b->seed,
                           b->init,     b->chunks,   b->peers,
                           b->to,       b->port,     b->wait,
                           NULL};
    _Static_assert(sizeof words == sizeof b->argv, "room for each word");
    memcpy(b->argv, words, sizeof words);
    b->words = (struct launch_words){.words = b->argv,
                                     .name = "PADDLECTL_LAUNCH",
                                     .secret = b->secret,
                                     .input = b->seed,
                                     .n_input = has_stdin ? strlen(b->seed) : 0};
    return 0;
}

/* A line counts if it contains the marker, even behind text that was printed without a newline. */
static enum boot_event marker_event(struct boot *b, char *text, size_t cap) {
    static const struct {
        const char *word;
        enum boot_event event;
    } words[] = {{" run", BOOT_RUN},
                 {" more", BOOT_REST},
                 {" send gzip ", BOOT_SEND_GZIP},
                 {" send plain ", BOOT_SEND},
                 {" send seed ", BOOT_SEND_SEED},
                 {" seed ", BOOT_SEED},
                 {" fail ", BOOT_FAIL}};
    b->line[b->line_len] = 0;
    if (b->line_len && b->line[b->line_len - 1] == '\r')
        b->line[b->line_len - 1] = 0;
    const char *s = memmem(b->line, b->line_len, b->marker, BOOT_MARKER);
    if (!s)
        return BOOT_MORE;
    if (!b->marked)
        b->printed = b->taken - b->line_len + (size_t)(s - b->line);
    b->marked = 1;
    s += BOOT_MARKER;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!pd_starts_with(s, words[i].word))
            continue;
        pd_fmt(text, cap, "%s", s + strlen(words[i].word));
        pd_make_printable(text);
        return words[i].event;
    }
    return BOOT_MORE;
}

enum boot_event boot_input(struct boot *b, const uint8_t *p, size_t n, size_t *used, char *text,
                           size_t cap) {
    text[0] = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] != '\n') {
            b->taken++;
            /* keep the end: the marker may come after a long prompt */
            if (b->line_len == sizeof b->line - 1) {
                memmove(b->line, b->line + sizeof b->line / 2, b->line_len - sizeof b->line / 2);
                b->line_len -= sizeof b->line / 2;
            }
            b->line[b->line_len++] = (char)p[i];
            if (++b->noise > BOOT_NOISE_MAX) {
                pd_fmt(text, cap,
                       "the login prints without end; is the user's shell start-up in order?");
                *used = i + 1;
                return BOOT_FAIL;
            }
            continue;
        }
        enum boot_event e = marker_event(b, text, cap);
        b->taken++;
        b->line_len = 0;
        if (e != BOOT_MORE) {
            *used = i + 1;
            return e;
        }
    }
    *used = n;
    return BOOT_MORE;
}
