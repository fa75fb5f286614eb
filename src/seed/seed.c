/* SPDX-License-Identifier: Apache-2.0 */
/* seed.c - the forerunner of the agent on a node without an agent: a program of some kB. It
 * receives the packed agent from a neighbour that is receiving it too, or from paddlectl; checks
 * each chunk against the hash that paddlectl sent; and forwards the chunk at once.
 *
 *     paddlectl ──ssh──▶ seed 0 ──TCP──▶ seed 1 ──TCP──▶ seed 2 ...
 *         └─── ssh: hashes, the neighbour to take from, when to end ───┘
 *
 *     paddle_seed FILE MARKER
 *
 * The seed writes FILE. Its messages are lines "MARKER seed ..." on stdout: docs/protocol.md, "The
 * seed".
 *
 * Exit status 0: FILE is complete and paddlectl has said that nobody takes from this seed any more;
 * otherwise enum seed_exit. Input on stdin after the last record is left unread. The seed does not
 * trust a neighbour: only the hash of a chunk counts. A stranger without the secret gets nothing.
 * There is no libc (sys.h). */
#include <asm/errno.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/mman.h>
#include <linux/poll.h>
#include <linux/socket.h>
#include <linux/tcp.h>

#include "seed/blake2b.h"
#include "seed/mem.h"
#include "seed/seed.h"
#include "seed/start.h"
#include "seed/sys.h"

enum {
    PAYLOAD_MAX = SEED_CHUNKS_MAX * SEED_CHUNK,
    STRANGER_MS = 5000,
    REACH_MS = 3000,
    ALONE_MS = 15 * 60000,
    SAY_MS = 50,
    LINE = 300,
    MAX_FDS = 3 + SEED_TAKERS
};
enum {
    STREAM = 1,
    NONBLOCK = 04000,
    CLOEXEC = 02000000,
    DONTWAIT = 0x40,
    NOSIGNAL = 0x4000,
    LEVEL_SOCKET = 1,
    OPT_ERROR = 4
}; /* <sys/socket.h> belongs to libc */

static const char UNREACHED[] = "the neighbour can't be reached";

struct seed_taker {
    int fd, proved; /* fd 0: none */
    uint64_t came_ms;
    uint8_t nonce[SEED_NONCE], proof[SEED_PROOF];
    uint32_t n_proof;
    uint64_t sent; /* payload bytes sent */
};

struct seed_source {   /* the neighbour that sends the payload */
    int fd, connected; /* fd 0: none */
    uint64_t since_ms;
    uint32_t n_greeting, chunk, n; /* the chunk under way, and its bytes so far */
    uint8_t greeting[SEED_GREETING];
    uint8_t in[SEED_CHUNK];
};

struct seed {
    const char *marker;
    int out, listener;
    /* the payload */
    uint8_t *bytes, *hashes;
    uint32_t size, n_chunks, have; /* have: complete chunks from the beginning */
    uint8_t secret[32];
    int go;
    /* input from paddlectl */
    struct seed_record record;
    uint8_t *body;
    uint32_t n_record, n_body;
    struct seed_source source;
    struct seed_taker takers[SEED_TAKERS];
    uint32_t said;
    uint64_t said_ms,
        moved_ms; /* moved_ms: time of the last record or chunk received, or bytes sent */
};

static void exit_seed(int status) {
    for (;;)
        SYS(exit_group, status);
}

static uint64_t now_ms(void) {
    struct {
        int64_t s, ns;
    } t = {0, 0};
    SYS(clock_gettime, 1, &t); /* CLOCK_MONOTONIC */
    return (uint64_t)t.s * 1000 + (uint64_t)t.ns / 1000000;
}

/* --- lines --- */

static char *put(char *to, const char *limit, const char *s) {
    while (*s && to < limit)
        *to++ = *s++;
    return to;
}

static char *put_number(char *to, const char *limit, uint64_t v) {
    char digits[21], *at = digits + 20;
    for (*at = 0; v || at == digits + 20; v /= 10)
        *--at = (char)('0' + v % 10);
    return put(to, limit, at);
}

/* "MARKER seed WORD[NUMBER][TEXT]" */
static void say(struct seed *s, const char *word, int64_t number, const char *text) {
    char line[LINE], *limit = line + LINE - 1, *at = put(line, limit, s->marker);
    at = put(put(at, limit, " seed "), limit, word);
    if (number >= 0)
        at = put_number(at, limit, (uint64_t)number);
    at = put(at, limit, text);
    *at++ = '\n';
    for (const char *p = line; p < at;) {
        long n = SYS(write, 1, p, at - p);
        if (n <= 0 && n != -EINTR)
            exit_seed(SEED_EXIT_LOST);
        p += n > 0 ? n : 0;
    }
}

static void say_have(struct seed *s) {
    if (s->have == s->said)
        return;
    uint64_t now = now_ms();
    if (s->have < s->n_chunks && now - s->said_ms < SAY_MS)
        return;
    s->said = s->have;
    s->said_ms = now;
    say(s, SEED_SAYS_HAVE, s->have, "");
}

/* --- the payload --- */

static uint32_t chunk_bytes(const struct seed *s, uint32_t i) {
    return i + 1 < s->n_chunks ? SEED_CHUNK : s->size - (s->n_chunks - 1) * SEED_CHUNK;
}

static uint64_t have_bytes(const struct seed *s) {
    return s->have == s->n_chunks ? s->size : (uint64_t)s->have * SEED_CHUNK;
}

static void *map_memory(size_t n) {
    long p = SYS(mmap, 0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p < 0 && p > -4096)
        exit_seed(SEED_EXIT_LOST);
    return (void *)p;
}

static void check_written(long rc) {
    if (rc < 0 && rc != -EINTR)
        exit_seed(rc == -ENOSPC || rc == -EDQUOT ? SEED_EXIT_FULL : SEED_EXIT_WRITE);
}

static void store(struct seed *s) {
    for (uint64_t at = 0; at < s->size;) {
        long n = SYS(write, s->out, s->bytes + at, s->size - at);
        check_written(n ? n : -EIO);
        at += n > 0 ? (uint64_t)n : 0;
    }
    /* a file server may report only now that there is no space */
    check_written(SYS(close, s->out));
    say(s, SEED_SAYS_DONE, -1, "");
}

/* Stores chunk i from any source. 0: it has the announced hash, or was stored before. */
static int take_chunk(struct seed *s, uint32_t i, const uint8_t *p, uint32_t n) {
    uint8_t hash[SEED_HASH];
    if (i < s->have)
        return 0;
    if (i > s->have || i >= s->n_chunks || n != chunk_bytes(s, i))
        return -1;
    blake2b_256(hash, 0, 0, p, n);
    if (!mem_same(hash, s->hashes + (size_t)i * SEED_HASH, SEED_HASH))
        return -1;
    mem_copy(s->bytes + (size_t)i * SEED_CHUNK, p, n);
    s->have++;
    s->moved_ms = now_ms();
    say_have(s);
    if (s->have == s->n_chunks)
        store(s);
    return 0;
}

static void proof_of(const struct seed *s, const uint8_t *nonce, uint32_t first,
                     uint8_t out[SEED_HASH]) {
    uint8_t text[sizeof SEED_PROOF_LABEL - 1 + SEED_NONCE + 4];
    mem_copy(text, SEED_PROOF_LABEL, sizeof SEED_PROOF_LABEL - 1);
    mem_copy(text + sizeof SEED_PROOF_LABEL - 1, nonce, SEED_NONCE);
    mem_copy(text + sizeof SEED_PROOF_LABEL - 1 + SEED_NONCE, &first, 4);
    blake2b_256(out, s->secret, sizeof s->secret, text, sizeof text);
}

/* --- the source --- */

static void leave_source(struct seed *s) {
    if (s->source.fd)
        SYS(close, s->source.fd);
    s->source.fd = 0;
}

static void lose_source(struct seed *s, const char *why) {
    leave_source(s);
    s->said_ms = 0;
    say_have(s); /* paddlectl can now choose another source */
    say(s, SEED_SAYS_LOST, -1, why);
}

static void no_delay(int fd) {
    int one = 1;
    SYS(setsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void connect_source(struct seed *s, const struct seed_record *r) {
    struct sockaddr_in6 a6 = {.sin6_family = 10, .sin6_port = (uint16_t)(r->b >> 8 | r->b << 8)};
    struct sockaddr_in a4 = {.sin_family = 2, .sin_port = a6.sin6_port};
    int v6 = r->a == 6;
    leave_source(s);
    if (s->have == s->n_chunks)
        return;
    mem_copy(&a6.sin6_addr, r->addr, 16);
    mem_copy(&a4.sin_addr, r->addr, 4);
    long fd = SYS(socket, v6 ? 10 : 2, STREAM | NONBLOCK | CLOEXEC, 0);
    if (fd <= 0) {
        say(s, SEED_SAYS_LOST, -1, "no socket");
        return;
    }
    s->source.fd = (int)fd;
    s->source.connected = 0;
    s->source.since_ms = now_ms();
    s->source.n_greeting = s->source.n = 0;
    no_delay((int)fd);
    long rc = v6 ? SYS(connect, fd, &a6, sizeof a6) : SYS(connect, fd, &a4, sizeof a4);
    if (rc < 0 && rc != -EINPROGRESS)
        lose_source(s, UNREACHED);
}

static void greet(struct seed *s) {
    uint8_t proof[SEED_PROOF];
    s->source.chunk = s->have;
    mem_copy(proof, &s->source.chunk, 4);
    proof_of(s, s->source.greeting, s->source.chunk, proof + 4);
    if (SYS(sendto, s->source.fd, proof, sizeof proof, DONTWAIT | NOSIGNAL, 0, 0) !=
        (long)sizeof proof)
        lose_source(s, "the neighbour reads nothing");
}

static void hear_source(struct seed *s) {
    struct seed_source *c = &s->source;
    if (!c->connected) {
        int e = 0, len = sizeof e;
        SYS(getsockopt, c->fd, LEVEL_SOCKET, OPT_ERROR, &e, &len);
        if (e) {
            lose_source(s, UNREACHED);
            return;
        }
        c->connected = 1;
        return;
    }
    int greeting = c->n_greeting < SEED_GREETING;
    uint8_t *to = greeting ? c->greeting + c->n_greeting : c->in + c->n;
    uint32_t room_left = greeting ? SEED_GREETING - c->n_greeting : chunk_bytes(s, c->chunk) - c->n;
    long n = SYS(recvfrom, c->fd, to, room_left, DONTWAIT, 0, 0);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n <= 0) {
        lose_source(s, "the neighbour has closed the connection");
        return;
    }
    if (greeting) {
        c->n_greeting += (uint32_t)n;
        if (c->n_greeting == SEED_GREETING)
            greet(s);
        return;
    }
    c->n += (uint32_t)n;
    if (c->n < chunk_bytes(s, c->chunk))
        return;
    if (take_chunk(s, c->chunk, c->in, c->n)) {
        lose_source(s, "the neighbour sent data that was not announced");
        return;
    }
    c->chunk++;
    c->n = 0;
    if (s->have == s->n_chunks)
        leave_source(s);
}

/* --- takers --- */

static void leave_taker(struct seed_taker *t) {
    SYS(close, t->fd);
    t->fd = 0;
}

static void welcome(struct seed *s) {
    long fd = SYS(accept4, s->listener, 0, 0, NONBLOCK | CLOEXEC);
    struct seed_taker *t = s->takers;
    if (fd <= 0)
        return;
    while (t < s->takers + SEED_TAKERS && t->fd)
        t++;
    if (t == s->takers + SEED_TAKERS) {
        SYS(close, fd);
        return;
    }
    mem_zero(t, sizeof *t);
    t->fd = (int)fd;
    t->came_ms = now_ms();
    no_delay(t->fd);
    if (SYS(getrandom, t->nonce, sizeof t->nonce, 0) != (long)sizeof t->nonce ||
        SYS(sendto, fd, t->nonce, sizeof t->nonce, DONTWAIT | NOSIGNAL, 0, 0) !=
            (long)sizeof t->nonce)
        leave_taker(t);
}

static void hear_taker(struct seed *s, struct seed_taker *t) {
    uint8_t right[SEED_HASH];
    uint32_t first;
    /* a taker sends nothing after the proof: this reads the end of the connection */
    uint8_t *to = t->proved ? right : t->proof + t->n_proof;
    long n = SYS(recvfrom, t->fd, to, t->proved ? 1 : SEED_PROOF - t->n_proof, DONTWAIT, 0, 0);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n <= 0 || t->proved) {
        leave_taker(t);
        return;
    }
    t->n_proof += (uint32_t)n;
    if (t->n_proof < SEED_PROOF)
        return;
    mem_copy(&first, t->proof, 4);
    proof_of(s, t->nonce, first, right);
    if (!mem_same(right, t->proof + 4, SEED_HASH) || first >= s->n_chunks) {
        leave_taker(t);
        return;
    }
    t->proved = 1;
    t->sent = (uint64_t)first * SEED_CHUNK;
}

static void feed_taker(struct seed *s, struct seed_taker *t) {
    uint64_t limit = have_bytes(s);
    long n = SYS(sendto, t->fd, s->bytes + t->sent, limit - t->sent, DONTWAIT | NOSIGNAL, 0, 0);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n < 0)
        leave_taker(t);
    else
        t->sent += (uint64_t)n;
    s->moved_ms = now_ms();
}

/* --- paddlectl --- */

static uint32_t body_bytes(const struct seed_record *r) {
    return r->op == SEED_OP_INIT    ? (r->a + SEED_CHUNK - 1) / SEED_CHUNK * SEED_HASH
           : r->op == SEED_OP_CHUNK ? r->b
                                    : 0;
}

static int record_ok(const struct seed *s, const struct seed_record *r) {
    switch (r->op) {
    case SEED_OP_INIT:
        return !s->bytes && r->a && r->a <= PAYLOAD_MAX && r->b == SEED_CHUNK;
    case SEED_OP_CHUNK:
        return s->bytes && r->a < s->n_chunks && r->b == chunk_bytes(s, r->a);
    case SEED_OP_PEER:
        return s->bytes && (r->a == 4 || r->a == 6) && r->b && r->b < 65536;
    case SEED_OP_LAUNCHER:
    case SEED_OP_GO:
        return s->bytes != 0;
    default:
        return 0;
    }
}

static void handle_record(struct seed *s) {
    const struct seed_record *r = &s->record;
    switch (r->op) {
    case SEED_OP_INIT:
        s->size = r->a;
        s->n_chunks = (r->a + SEED_CHUNK - 1) / SEED_CHUNK;
        s->bytes = map_memory(s->size);
        mem_copy(s->hashes, s->body, (size_t)s->n_chunks * SEED_HASH);
        mem_copy(s->secret, r->secret, sizeof s->secret);
        break;
    case SEED_OP_CHUNK:
        /* Data over ssh arrives intact, so a wrong hash is an error of paddlectl. */
        if (take_chunk(s, r->a, s->body, r->b))
            exit_seed(SEED_EXIT_LOST);
        break;
    case SEED_OP_PEER:
        connect_source(s, r);
        break;
    case SEED_OP_LAUNCHER:
        leave_source(s);
        break;
    default:
        s->go = 1;
        break;
    }
}

/* Reads at most one record: the bytes after the last record belong to the shell script that
 * continues after the seed. */
static void hear_launcher(struct seed *s) {
    uint8_t *to =
        s->n_record < SEED_RECORD ? (uint8_t *)&s->record + s->n_record : s->body + s->n_body;
    uint32_t left =
        s->n_record < SEED_RECORD ? SEED_RECORD - s->n_record : body_bytes(&s->record) - s->n_body;
    long n = SYS(read, 0, to, left);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n <= 0)
        exit_seed(SEED_EXIT_LOST);
    if (s->n_record < SEED_RECORD) {
        s->n_record += (uint32_t)n;
        if (s->n_record < SEED_RECORD)
            return;
        if (!record_ok(s, &s->record))
            exit_seed(SEED_EXIT_LOST);
    } else {
        s->n_body += (uint32_t)n;
    }
    if (s->n_body < body_bytes(&s->record))
        return;
    handle_record(s);
    s->n_record = s->n_body = 0;
    s->moved_ms = now_ms();
}

/* --- the loop --- */

static int listen_somewhere(int *port) {
    struct sockaddr_in6 a6 = {.sin6_family = 10};
    struct sockaddr_in a4 = {.sin_family = 2};
    struct {
        uint16_t family, port;
        uint8_t rest[124];
    } name;
    int len = sizeof name;
    long fd = SYS(socket, 10, STREAM | NONBLOCK | CLOEXEC, 0);
    /* "::" accepts IPv4 too, unless the machine is configured otherwise; then the neighbour reports
     * it */
    if (fd > 0 && SYS(bind, fd, &a6, sizeof a6)) {
        SYS(close, fd);
        fd = -1;
    }
    if (fd <= 0) {
        fd = SYS(socket, 2, STREAM | NONBLOCK | CLOEXEC, 0);
        if (fd > 0 && SYS(bind, fd, &a4, sizeof a4)) {
            SYS(close, fd);
            fd = -1;
        }
    }
    *port = 0;
    if (fd <= 0 || SYS(listen, fd, SEED_TAKERS) || SYS(getsockname, fd, &name, &len))
        return -1;
    *port = (name.port >> 8 | name.port << 8) & 0xffff;
    return (int)fd;
}

static int is_over(const struct seed *s) { return s->go && s->have == s->n_chunks; }

/* Drops peers that have been silent too long. If paddlectl itself is silent, it has given up this
 * host long ago: its machine may be gone without sshd noticing. */
static void forget_silent(struct seed *s) {
    uint64_t now = now_ms();
    if (now - s->moved_ms > ALONE_MS)
        exit_seed(SEED_EXIT_LOST);
    if (s->source.fd && s->source.n_greeting < SEED_GREETING && now - s->source.since_ms > REACH_MS)
        lose_source(s, UNREACHED);
    for (struct seed_taker *t = s->takers; t < s->takers + SEED_TAKERS; t++)
        if (t->fd && !t->proved && now - t->came_ms > STRANGER_MS)
            leave_taker(t);
}

static void wait_and_serve(struct seed *s) {
    struct pollfd fds[MAX_FDS];
    struct seed_taker *of[MAX_FDS];
    struct {
        int64_t sec, ns;
    } timeout = {0, 200000000};
    uint32_t n = 0, first_taker;
    forget_silent(s);
    fds[n++] = (struct pollfd){.fd = 0, .events = POLLIN};
    /* poll ignores -1: before the hashes are here no taker can be served. */
    fds[n++] = (struct pollfd){.fd = s->bytes ? s->listener : -1, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = s->source.fd ? s->source.fd : -1,
                               .events = s->source.connected ? POLLIN : POLLOUT};
    first_taker = n;
    for (struct seed_taker *t = s->takers; t < s->takers + SEED_TAKERS; t++) {
        if (!t->fd)
            continue;
        of[n] = t;
        fds[n++] = (struct pollfd){
            .fd = t->fd,
            .events = (short)(POLLIN | (t->proved && t->sent < have_bytes(s) ? POLLOUT : 0))};
    }
    if (SYS(ppoll, fds, n, &timeout, 0, 8) <= 0) {
        say_have(s);
        return;
    }
    int source = s->source.fd;
    if (fds[2].revents && source)
        hear_source(s);
    for (uint32_t i = first_taker; i < n; i++) {
        if (fds[i].revents & (POLLIN | POLLHUP | POLLERR))
            hear_taker(s, of[i]);
        if (of[i]->fd && fds[i].revents & POLLOUT)
            feed_taker(s, of[i]);
    }
    if (fds[1].revents)
        welcome(s);
    if (fds[0].revents)
        hear_launcher(s);
}

int seed_main(const char *path, const char *marker) {
    struct seed seed = {0}, *s = &seed;
    int port;
    s->marker = marker;
    s->hashes = map_memory((size_t)SEED_CHUNKS_MAX * SEED_HASH);
    s->body = map_memory(SEED_CHUNK > SEED_CHUNKS_MAX * SEED_HASH ? SEED_CHUNK
                                                                  : SEED_CHUNKS_MAX * SEED_HASH);
    s->listener = listen_somewhere(&port);
    long fd = SYS(openat, -100, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd <= 0)
        return SEED_EXIT_NOT_BEGUN;
    s->out = (int)fd;
    s->moved_ms = now_ms();
    say(s, SEED_SAYS_PORT, port, "");
    while (!is_over(s))
        wait_and_serve(s);
    return 0;
}
