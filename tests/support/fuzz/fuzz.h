/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - the skeleton of all fuzzers. A fuzzer is one file, a folder of seeds in corpus/ and a
 * row in docs/fuzzing.md:
 *
 *     FUZZ(in) {                                in: struct pd_reader over the input
 *         char *text = fuzz_text(in);           parts of text end at a byte 0xff
 *         path = fuzz_file("conf.ini", text, strlen(text));
 *         ...
 *         fuzz_check(...);                      aborts: a finding
 *     }
 *
 * Memory from fuzz_text is freed after the run. Files are in a folder of the process, in memory if
 * possible, and are removed at its end. */
#pragma once

#define FUZZ(in)                                                   \
    static void fuzz_one(struct pd_reader *in);                    \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);  \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { \
        struct pd_reader reader;                                   \
        pd_reader_init(&reader, data, size);                       \
        fuzz_one(&reader);                                         \
        while (fuzz_kept.n)                                        \
            free(fuzz_kept.p[--fuzz_kept.n]);                      \
        return 0;                                                  \
    }                                                              \
    static void fuzz_one(struct pd_reader *in)

enum { FUZZ_TEXTS = 64 };
static struct {
    void *p[FUZZ_TEXTS];
    size_t n;
} fuzz_kept;

/* A condition that must hold for every input. */
#define fuzz_check(x)                                               \
    do                                                              \
        if (!(x)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
            abort();                                                \
        }                                                           \
    while (0)

/* 0 or a negative code with a message. */
static inline int fuzz_rc(int rc, const struct pd_err *err) {
    fuzz_check(rc <= 0 && (rc == 0) == !*err->msg);
    return rc;
}

static inline size_t fuzz_left(const struct pd_reader *in) { return (size_t)(in->end - in->p); }

/* The next n bytes (0 behind the end), as long as the run. */
static inline uint8_t *fuzz_bytes(struct pd_reader *in, size_t n) {
    uint8_t *copy = calloc(1, n + 1);
    const size_t k = n < fuzz_left(in) ? n : fuzz_left(in);
    if (!copy || fuzz_kept.n == FUZZ_TEXTS)
        abort();
    if (k)
        memcpy(copy, in->p, k);
    in->p += k;
    fuzz_kept.p[fuzz_kept.n++] = copy;
    return copy;
}

/* The bytes up to the next 0xff, or the rest, and a NUL. It may contain NULs: *n. */
static inline char *fuzz_part(struct pd_reader *in, size_t *n) {
    const uint8_t *end = fuzz_left(in) ? memchr(in->p, 0xff, fuzz_left(in)) : NULL;
    *n = end ? (size_t)(end - in->p) : fuzz_left(in);
    char *text = (char *)fuzz_bytes(in, *n);
    in->p += end != NULL;
    return text;
}
static inline char *fuzz_text(struct pd_reader *in) {
    size_t n;
    return fuzz_part(in, &n);
}
static inline uint8_t fuzz_u8(struct pd_reader *in) { return fuzz_left(in) ? pd_get_u8(in) : 0; }
static inline uint32_t fuzz_u32(struct pd_reader *in) {
    return fuzz_left(in) < 4 ? fuzz_u8(in) : pd_get_u32(in);
}

static char fuzz_dir[PATH_MAX];
static inline void fuzz_remove_dir(void) { (void)pd_rm_tree(fuzz_dir, NULL); }

/* The folder of this process. */
static inline const char *fuzz_folder(void) {
    if (*fuzz_dir)
        return fuzz_dir;
    snprintf(fuzz_dir, sizeof fuzz_dir, "%s/paddle-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(fuzz_dir) || atexit(fuzz_remove_dir))
        abort();
    return fuzz_dir;
}

/* A file in that folder with these bytes; its path, valid until the next call for this name. */
static inline const char *fuzz_file(const char *name, const void *p, size_t n) {
    static char path[4][PATH_MAX];
    static unsigned turn;
    char *to = path[turn++ % 4];
    if (pd_fmt(to, PATH_MAX, "%s/%s", fuzz_folder(), name))
        abort();
    const int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || pd_write_all(fd, p, n) || close(fd))
        abort();
    return to;
}
