/* SPDX-License-Identifier: Apache-2.0 */
/* word2vec.c - the original word2vec algorithm, skip-gram with negative sampling, as the bench's
 * and the tests' peer: one thread, one step of plain gradient descent for each pair, as Mikolov et
 * al. (NIPS 2013) published it and their program does it:
 *
 *   frequent words are left out with probability 1 - (sqrt(f/t) + 1) t/f; a window of 1 to W words
 * to each side, drawn for each word; for each word near, `negative` words from a table filled in
 * proportion to count^0.75 beside the word itself; sigmoid by a table of 1000 values between -6 and
 * 6, beyond which it is 0 or 1; the rate falls linearly to 1e-4 of itself, told anew every 10,000
 * words; the in-vectors begin uniform within 0.5 / size, the out-vectors with 0
 *
 *   word2vec COUNTS OUT size=100 window=5 negative=5 sample=1e-3 alpha=0.025 passes=5 seed=1 --
 * FILE...
 *
 * COUNTS has the count of word i in line i; a line of a FILE is a sentence of ids, so nothing is
 * hashed (which favours it). OUT.in and OUT.out are word2vec's binary format with numbers for
 * words. Prints "words N cpu_s S", the reading of files included.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SENTENCE = 1000, EXP_N = 1000, MAX_EXP = 6, TABLE_N = 100000000 };

struct model {
    long vocabulary, size, window, negative, passes;
    double alpha, sample, train_words; /* of one pass */
    uint64_t random, done;
    double *count;
    float *in, *out, *err, rate, sigmoid[EXP_N];
    int32_t *table;
};

static void fail(const char *what) {
    fprintf(stderr, "word2vec: %s\n", what);
    exit(1);
}

static void *take(size_t n, size_t size) {
    void *p = NULL;
    if (posix_memalign(&p, 128, n * size))
        fail("no memory");
    memset(p, 0, n * size);
    return p;
}

static uint64_t draw(struct model *m) { return m->random = m->random * UINT64_C(25214903917) + 11; }

static void read_counts(struct model *m, const char *path) {
    FILE *f = fopen(path, "re");
    char line[64];
    size_t cap = 0;
    if (!f)
        fail("cannot open the counts");
    while (fgets(line, sizeof line, f)) {
        if ((size_t)m->vocabulary == cap) {
            cap = cap ? 2 * cap : 1024;
            if (!(m->count = realloc(m->count, cap * sizeof *m->count)))
                fail("no memory");
        }
        m->train_words += m->count[m->vocabulary++] = strtod(line, NULL);
    }
    fclose(f);
}

static void start(struct model *m) {
    size_t n = (size_t)m->vocabulary * (size_t)m->size;
    double sum = 0, before = 0;
    m->in = take(n, sizeof *m->in);
    m->out = take(n, sizeof *m->out);
    m->err = take((size_t)m->size, sizeof *m->err);
    m->table = take(TABLE_N, sizeof *m->table);
    for (size_t i = 0; i < n; i++)
        m->in[i] = ((float)(draw(m) & 0xffff) / 65536 - 0.5f) / (float)m->size;
    for (int i = 0; i < EXP_N; i++)
        m->sigmoid[i] = (float)(1 / (1 + exp(-((double)i / EXP_N * 2 - 1) * MAX_EXP)));
    for (long i = 0; i < m->vocabulary; i++)
        sum += pow(m->count[i], 0.75);
    for (long i = 0, at = 0; i < m->vocabulary; i++) {
        before += pow(m->count[i], 0.75) / sum;
        for (; at < TABLE_N && ((double)at < before * TABLE_N || i + 1 == m->vocabulary); at++)
            m->table[at] = (int32_t)i;
    }
}

/* A word near against the word itself and the drawn ones. */
static void pair(struct model *m, long word, long near) {
    const long size = m->size;
    float *restrict in = m->in + near * size, *restrict err = m->err;
    memset(err, 0, (size_t)size * sizeof *err);
    for (long d = 0; d <= m->negative; d++) {
        long target = word;
        if (d) {
            target = m->table[(draw(m) >> 16) % TABLE_N];
            if (target == word)
                continue;
        }
        float *restrict out = m->out + target * size, f = 0, g;
        for (long k = 0; k < size; k++)
            f += in[k] * out[k];
        float label = d == 0;
        if (f > MAX_EXP)
            g = (label - 1) * m->rate;
        else if (f < -MAX_EXP)
            g = label * m->rate;
        else
            g = (label - m->sigmoid[(int)((f + MAX_EXP) * (EXP_N / MAX_EXP / 2.0f))]) * m->rate;
        for (long k = 0; k < size; k++)
            err[k] += g * out[k];
        for (long k = 0; k < size; k++)
            out[k] += g * in[k];
    }
    for (long k = 0; k < size; k++)
        in[k] += err[k];
}

static void sentence(struct model *m, const long *word, long n) {
    for (long i = 0; i < n; i++) {
        long width = 1 + (long)((draw(m) >> 16) % (uint64_t)m->window);
        for (long j = i - width < 0 ? 0 : i - width; j <= i + width && j < n; j++)
            if (j != i)
                pair(m, word[i], word[j]);
    }
}

static void pass(struct model *m, char **file, int n_files) {
    char *line = NULL;
    size_t cap = 0;
    long word[MAX_SENTENCE];
    const double at = m->sample * m->train_words;
    for (int k = 0; k < n_files; k++) {
        FILE *f = fopen(file[k], "re");
        if (!f)
            fail("cannot open a file");
        while (getline(&line, &cap, f) > 0) {
            long n = 0;
            char *end;
            for (char *s = line;; s = end) {
                long id = strtol(s, &end, 10);
                if (end == s || n == MAX_SENTENCE)
                    break;
                if (m->done++ % 10000 == 0) {
                    double left = 1 - (double)m->done / ((double)m->passes * m->train_words + 1);
                    m->rate = (float)(m->alpha * (left < 1e-4 ? 1e-4 : left));
                }
                if (id < 0 || id >= m->vocabulary)
                    fail("an id is not in the vocabulary");
                double keep = (sqrt(m->count[id] / at) + 1) * at / m->count[id];
                if (m->sample > 0 && keep < (double)(draw(m) >> 16 & 0xffff) / 65536)
                    continue;
                word[n++] = id;
            }
            sentence(m, word, n);
        }
        fclose(f);
    }
    free(line);
}

static void save(const struct model *m, const char *out, const char *suffix, const float *rows) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%s", out, suffix);
    FILE *f = fopen(path, "we");
    if (!f)
        fail("cannot write");
    fprintf(f, "%ld %ld\n", m->vocabulary, m->size);
    for (long i = 0; i < m->vocabulary; i++) {
        fprintf(f, "%ld ", i);
        fwrite(rows + i * m->size, sizeof *rows, (size_t)m->size, f);
        fputc('\n', f);
    }
    if (fclose(f))
        fail("cannot write");
}

int main(int argc, char **argv) {
    struct model m = {.size = 100,
                      .window = 5,
                      .negative = 5,
                      .passes = 5,
                      .alpha = 0.025,
                      .sample = 1e-3,
                      .random = 1};
    int i = 3;
    for (; i < argc && strcmp(argv[i], "--"); i++) {
        const char *v = strchr(argv[i], '=');
        if (!v)
            fail("NAME=VALUE is wanted");
        double x = strtod(v + 1, NULL);
        if (!strncmp(argv[i], "size=", 5))
            m.size = (long)x;
        else if (!strncmp(argv[i], "window=", 7))
            m.window = (long)x;
        else if (!strncmp(argv[i], "negative=", 9))
            m.negative = (long)x;
        else if (!strncmp(argv[i], "sample=", 7))
            m.sample = x;
        else if (!strncmp(argv[i], "alpha=", 6))
            m.alpha = x;
        else if (!strncmp(argv[i], "passes=", 7))
            m.passes = (long)x;
        else if (!strncmp(argv[i], "seed=", 5))
            m.random = (uint64_t)x;
        else
            fail("unknown setting");
    }
    if (i + 1 >= argc)
        fail("usage: word2vec COUNTS OUT [NAME=VALUE]... -- FILE...");
    read_counts(&m, argv[1]);
    start(&m);
    struct timespec t0, t1;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
    for (long p = 0; p < m.passes; p++)
        pass(&m, argv + i + 1, argc - i - 1);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
    save(&m, argv[2], "in", m.in);
    save(&m, argv[2], "out", m.out);
    printf("words %llu cpu_s %.3f\n", (unsigned long long)m.done,
           (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-9);
    return 0;
}
