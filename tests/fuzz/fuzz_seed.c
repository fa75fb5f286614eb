/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_seed.c - libFuzzer: a seed (src/seed) on a kernel of the fuzzer's own, which says what is
 * ready, what comes, and what fails.
 *
 * The payload is bytes of one value. A stream (stdin, a source, a taker) gets pieces that the input
 * chooses: a record, a proof or chunks that are right, or bytes of the input. Whatever comes: only
 * checked bytes are handed on or written, and only to who has proved the secret. */
#define PD_SEED_SYS_H /* instead of seed/sys.h */
#include <asm/unistd.h>

static long sys6(long n, long a, long b, long c, long d, long e, long f);
#define SYS(name, ...) SYS_N(__NR_##name, __VA_ARGS__, 0L, 0L, 0L, 0L, 0L, 0L)
#define SYS_N(n, a, b, c, d, e, f, ...) \
    sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#include "seed/blake2b.c"
#include "seed/seed.c"

#include <setjmp.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAYLOAD = SEED_CHUNK + 77, CHUNKS = 2, VALUE = 0x5a, FDS = 64, ROOMS = 4, OUT_FD = 3 };
enum kind { CLOSED, FILE_OUT, LISTENER, SOURCE, TAKER };

static struct {
    const uint8_t *p, *end;
    jmp_buf over;
    uint64_t ms;
    void *rooms[ROOMS];
    int n_rooms;
    struct {
        enum kind kind;
        int sent, said, proved;
        uint8_t *in;
        size_t n_in, at;
    } fd[FDS]; /* in: what is still to be read there */
} k;

static uint8_t next(void) { return k.p < k.end ? *k.p++ : 0; }

static void queue(int fd, const void *p, size_t n, int value) {
    k.fd[fd].in = malloc(n ? n : 1);
    if (p)
        mem_copy(k.fd[fd].in, p, n);
    for (size_t i = 0; !p && i < n; i++)
        k.fd[fd].in[i] = (uint8_t)value;
    k.fd[fd].n_in = n;
    k.fd[fd].at = 0;
}

static void queue_input(int fd) {
    size_t n = next(), left = (size_t)(k.end - k.p);
    n = n < left ? n : left;
    queue(fd, k.p, n, 0);
    k.p += n;
}

static uint32_t bytes_of(uint32_t chunk) {
    return chunk + 1 < CHUNKS ? SEED_CHUNK : PAYLOAD - (CHUNKS - 1) * SEED_CHUNK;
}

static const uint8_t *hashes(void) {
    static uint8_t of[CHUNKS][SEED_HASH], chunk[SEED_CHUNK];
    if (chunk[0])
        return of[0];
    for (uint32_t x = 0; x < SEED_CHUNK; x++)
        chunk[x] = VALUE;
    for (uint32_t i = 0; i < CHUNKS; i++)
        blake2b_256(of[i], 0, 0, chunk, bytes_of(i));
    return of[0];
}

/* Stdin: a record and its body. */
static void queue_record(void) {
    uint8_t all[SEED_RECORD + SEED_CHUNK];
    struct seed_record r = {.op = next() % 7};
    size_t n = sizeof r;
    if (r.op == 6) {
        queue_input(0);
        return;
    }
    if (r.op == SEED_OP_INIT) {
        r.a = PAYLOAD;
        r.b = SEED_CHUNK;
        mem_copy(all + n, hashes(), CHUNKS * SEED_HASH);
        n += CHUNKS * SEED_HASH;
    } else if (r.op == SEED_OP_CHUNK) {
        r.a = next() % CHUNKS;
        for (r.b = bytes_of(r.a); n < sizeof r + r.b;)
            all[n++] = VALUE;
    } else if (r.op == SEED_OP_PEER) {
        r.a = next() & 1 ? 4 : 6;
        r.b = 1 + next();
    }
    mem_copy(all, &r, sizeof r);
    queue(0, all, n, 0);
}

static void queue_for_taker(int fd) {
    uint8_t text[sizeof SEED_PROOF_LABEL - 1 + SEED_NONCE + 4] = SEED_PROOF_LABEL,
                                                            proof[SEED_PROOF], secret[32] = {0};
    const uint8_t how = next();
    const uint32_t first = how & 3;
    const int right = !(how & 4);
    if (first == 3 || k.fd[fd].said) { /* said once */
        queue_input(fd);
        return;
    }
    k.fd[fd].said = 1;
    mem_copy(text + sizeof text - 4, &first, 4); /* the nonce is zeros */
    mem_copy(proof, &first, 4);
    blake2b_256(proof + 4, secret, sizeof secret, text, sizeof text);
    proof[20] ^= (uint8_t)!right;
    queue(fd, proof, sizeof proof, 0);
    k.fd[fd].proved = right;
}

static long take(int fd, uint8_t *to, size_t n) {
    if (k.fd[fd].at == k.fd[fd].n_in) {
        if (k.p == k.end)
            return 0;
        free(k.fd[fd].in);
        if (!fd)
            queue_record();
        else if (k.fd[fd].kind == TAKER)
            queue_for_taker(fd);
        else if (next() & 1)
            queue(fd, NULL, (size_t)next() * 512, VALUE);
        else
            queue_input(fd);
    }
    size_t left = k.fd[fd].n_in - k.fd[fd].at, most = n < left ? n : left;
    const uint8_t cut = next();
    if (cut == 255)
        return -ECONNRESET;
    if (cut > 200 || !most)
        return -EAGAIN;
    most = cut & 1 ? (most + 1) / 2 : most;
    mem_copy(to, k.fd[fd].in + k.fd[fd].at, most);
    k.fd[fd].at += most;
    return (long)most;
}

static long opened(enum kind kind) {
    if (next() == 255)
        return -EMFILE;
    for (int i = OUT_FD; i < FDS; i++)
        if (!k.fd[i].kind) {
            free(k.fd[i].in);
            k.fd[i].in = NULL;
            k.fd[i].n_in = k.fd[i].at = 0;
            k.fd[i].sent = k.fd[i].said = k.fd[i].proved = 0;
            k.fd[i].kind = kind;
            return i;
        }
    abort(); /* it leaks them */
}

static long give(int fd, const uint8_t *p, size_t n) {
    const uint8_t how = next();
    if (how > 250)
        return how == 251 ? -EAGAIN : -EPIPE;
    if (k.fd[fd].kind == TAKER && k.fd[fd].sent) {
        if (!k.fd[fd].proved)
            abort();
        for (size_t i = 0; i < n; i++)
            if (p[i] != VALUE)
                abort();
    }
    k.fd[fd].sent = 1;
    return how & 1 && n > 1 && n != SEED_NONCE && n != SEED_PROOF ? (long)(n / 2) : (long)n;
}

static long written(int fd, const uint8_t *p, size_t n) {
    if (fd == 1)
        return n == 0 || p[0] != 'M' ? (abort(), 0) : (long)n;
    if (fd >= FDS || k.fd[fd].kind != FILE_OUT)
        abort();
    const uint8_t how = next();
    for (size_t i = 0; i < n; i++)
        if (p[i] != VALUE)
            abort();
    return how == 255 ? -ENOSPC : how == 254 ? -EINTR : how & 1 && n > 1 ? (long)(n / 2) : (long)n;
}

static long ready(struct pollfd *v, long n) {
    long some = 0;
    for (long i = 0; i < n; i++) {
        v[i].revents = 0;
        if (v[i].fd < 0)
            continue;
        if (v[i].fd && !k.fd[v[i].fd].kind)
            abort(); /* closed */
        const uint8_t how = k.p == k.end ? 1 : next();
        v[i].revents = (short)((how & 1 ? v[i].events : 0) | ((how & 0x1c) == 4 ? POLLHUP : 0));
        some += v[i].revents != 0;
    }
    k.ms += (uint64_t)next() * 16;
    return some;
}

static long sys6(long n, long a, long b, long c, long d, long e, long f) {
    (void)e;
    (void)f;
    switch (n) {
    case __NR_exit_group:
        longjmp(k.over, 1);
    case __NR_mmap:
        if (k.n_rooms == ROOMS)
            abort();
        return (long)(k.rooms[k.n_rooms++] = calloc(1, (size_t)b));
    case __NR_clock_gettime:
        ((int64_t *)b)[0] = (int64_t)(k.ms / 1000);
        ((int64_t *)b)[1] = (int64_t)(k.ms % 1000) * 1000000;
        return 0;
    case __NR_openat:
        return opened(FILE_OUT);
    case __NR_socket:
        return opened(k.fd[OUT_FD].kind ? SOURCE : LISTENER);
    case __NR_accept4:
        return opened(TAKER);
    case __NR_close:
        if (a < OUT_FD || a >= FDS || !k.fd[a].kind)
            abort(); /* twice */
        k.fd[a].kind = CLOSED;
        return next() == 255 ? -EIO : 0;
    case __NR_read:
        return take((int)a, (uint8_t *)b, (size_t)c);
    case __NR_recvfrom:
        return take((int)a, (uint8_t *)b, (size_t)c);
    case __NR_write:
        return written((int)a, (const uint8_t *)b, (size_t)c);
    case __NR_sendto:
        return give((int)a, (const uint8_t *)b, (size_t)c);
    case __NR_getsockopt:
        *(int *)d = next() == 255 ? ECONNREFUSED : 0;
        return 0;
    case __NR_connect:
        return next() == 255 ? -ENETUNREACH : -EINPROGRESS;
    case __NR_getrandom:
        return b; /* of zeros */
    case __NR_ppoll:
        return ready((struct pollfd *)a, b);
    default: /* bind, listen, getsockname, setsockopt */
        return 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mem_zero(&k, sizeof k);
    k.p = data;
    k.end = data + size;
    if (!setjmp(k.over))
        (void)seed_main("out", "M");
    for (int i = 0; i < k.n_rooms; i++)
        free(k.rooms[i]);
    for (int i = 0; i < FDS; i++)
        free(k.fd[i].in);
    return 0;
}
