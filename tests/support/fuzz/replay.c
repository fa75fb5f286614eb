/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - runs a fuzzer without libFuzzer: with all seeds, then for some seconds with seeds that
 * are changed at random, always in the same order.
 *
 *     replay/fuzz_NAME SECONDS FOLDER...
 *
 * The input of a finding is written to replay/fuzz_NAME.finding. It does not look
 * for new branches, as libFuzzer does (docs/fuzzing.md), but gcc compiles it with the objects of
 * the tests. */
#include <sanitizer/common_interface_defs.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_SEEDS = 1000, MAX_LEN = 8192, CHANGES = 6 };

static struct seed {
    uint8_t *p;
    size_t n;
} seeds[MAX_SEEDS], now;
static size_t n_seeds;
static char finding[PATH_MAX];
static uint64_t state = 1; /* xorshift64: Marsaglia 2003 */

static size_t below(size_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return n ? (size_t)(state % n) : 0;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static void save(void) {
    const int fd = open(finding, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || pd_write_all(fd, now.p, now.n))
        fprintf(stderr, "the input cannot be written\n");
}

static void on_abort(int sig) {
    save();
    signal(sig, SIG_DFL);
    raise(sig);
}

/* A copy of exactly n bytes: reading behind it is noticed. */
static void run(const uint8_t *p, size_t n) {
    now.p = malloc(n ? n : 1);
    if (!now.p)
        abort();
    memcpy(now.p, p, now.n = n);
    LLVMFuzzerTestOneInput(now.p, n);
    free(now.p);
}

static size_t change(uint8_t *p, size_t n) {
    static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
    const struct seed *other = &seeds[below(n_seeds)];
    const size_t at = below(n), k = below(n - at) + 1, from = below(other->n);
    if (!n)
        return n;
    switch (below(6)) {
    case 0:
        p[at] ^= (uint8_t)(1u << below(8));
        return n;
    case 1:
        p[at] = values[below(sizeof values)];
        return n;
    case 2: /* cut off */
        return at;
    case 3: /* left out */
        memmove(p + at, p + at + k, n - at - k);
        return n - k;
    case 4: /* twice */
        if (n + k > MAX_LEN)
            return n;
        memmove(p + at + k, p + at, n - at);
        return n + k;
    default: /* of another seed */
        memcpy(p + at, other->p + from, smaller(k, other->n - from));
        return n;
    }
}

static void read_seeds(const char *folder) {
    struct dirent **entry;
    struct pd_err err = {0};
    char path[PATH_MAX];
    const int n = scandir(folder, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        struct pd_buf b;
        pd_buf_init(&b);
        pd_fmt(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        if (*entry[i]->d_name != '.' && n_seeds < MAX_SEEDS) {
            if (pd_read_file(path, 1 << 20, &b, &err)) {
                fprintf(stderr, "%s\n", err.msg);
                exit(2);
            }
            seeds[n_seeds++] = (struct seed){b.data, b.len};
        }
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
}

int main(int argc, char **argv) {
    uint8_t changed[MAX_LEN];
    size_t n_runs = 0;
    uint64_t secs;
    if (argc < 3 || pd_parse_u64(argv[1], 1000000, &secs) ||
        pd_fmt(finding, sizeof finding, "%s.finding", *argv)) {
        fprintf(stderr, "usage: %s SECONDS FOLDER...\n", *argv);
        return 2;
    }
    for (int i = 2; i < argc; i++)
        read_seeds(argv[i]);
    if (!n_seeds) {
        fprintf(stderr, "%s: no seeds\n", *argv);
        return 2;
    }
    __sanitizer_set_death_callback(save);
    signal(SIGABRT, on_abort);
    for (size_t i = 0; i < n_seeds; i++)
        run(seeds[i].p, seeds[i].n);
    const uint64_t end = pd_mono_ns() + secs * UINT64_C(1000000000);
    for (; pd_mono_ns() < end; n_runs++) {
        const struct seed *s = &seeds[below(n_seeds)];
        size_t n = smaller(s->n, MAX_LEN);
        memcpy(changed, s->p, n);
        for (size_t k = below(CHANGES) + 1; k; k--)
            n = change(changed, n);
        run(changed, n);
    }
    printf("%zu seeds, %zu changed inputs\n", n_seeds, n_runs);
    for (size_t i = 0; i < n_seeds; i++)
        free(seeds[i].p);
    return 0;
}
