/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c - lines of Criteo TSV per CPU second: our reader, and a loop of getline, strtok-like
 * splitting and strtoul over the same file.
 *
 *   reader gen N FILE     write N made-up lines of about the lengths of Criteo's
 *   reader ours FILE      print lines, and lines per CPU second (all in this thread)
 *   reader plain FILE     the same with the loop */
#include "data/read/reader.h"

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int generate(uint64_t n, const char *path) {
    FILE *f = fopen(path, "w");
    uint64_t x = 88172645463325252u;
    if (!f)
        return 1;
    for (uint64_t i = 0; i < n; i++) {
        fprintf(f, "%d", (int)(i % 4 == 0));
        for (int k = 0; k < 39; k++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            uint32_t r = (uint32_t)(x >> 33);
            if (r % 12 == 0)
                fputc('\t', f);
            else if (k < 13)
                fprintf(f, "\t%u", r >> (r % 24 + 7));
            else
                fprintf(f, "\t%08x", r % (1u << (k - 5)) * 2654435761u);
        }
        fputc('\n', f);
    }
    return fclose(f) != 0;
}

static int ours(const char *path) {
    const struct data_setting set[] = {{"", "format", "criteo", 1}};
    struct data_schema *s;
    struct data_files files = {0};
    struct data_reader *r;
    struct pd_batch b;
    struct pd_field f[PD_MAX_FIELDS];
    struct pd_err err = {0};
    uint64_t lines = 0, sum = 0;
    int line, n;
    if (data_schema_make(&s, set, 1, 0, 0, 0, &line, &err) || data_files_add(&files, path))
        return 1;
    for (uint32_t k = 0; k < s->n_fields; k++)
        f[k] = s->field[k].batch;
    struct data_spec spec = {.schema = s};
    if (data_reader_new(&r, &spec, ".", &files, 0, 1, &err) ||
        pd_batch_init(&b, f, s->n_fields, 512))
        return 1;
    double t0 = cpu_s();
    while ((n = data_reader_next(r, 512, &b, &err)) > 0) {
        lines += (uint64_t)n;
        sum += b.ids[5][0];
        pd_batch_clear(&b);
    }
    printf("%llu lines %.0f per CPU second (%llx)\n", (unsigned long long)lines,
           (double)lines / (cpu_s() - t0), (unsigned long long)sum);
    if (n < 0)
        fprintf(stderr, "%s\n", err.msg);
    pd_batch_release(&b);
    data_reader_free(r);
    data_files_release(&files);
    data_schema_free(s);
    return n < 0;
}

/* The straightforward program: getline, and strtoul of every column, categories as hexadecimal
 * numbers. */
static int plain(const char *path) {
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    uint64_t lines = 0, sum = 0;
    if (!f)
        return 1;
    double t0 = cpu_s();
    while (getline(&line, &cap, f) > 0) {
        char *p = line;
        for (int k = 0; k < 40; k++) {
            char *end;
            sum += strtoul(p, &end, k < 14 ? 10 : 16);
            p = end + (*end == '\t');
        }
        lines++;
    }
    printf("%llu lines %.0f per CPU second (%llx)\n", (unsigned long long)lines,
           (double)lines / (cpu_s() - t0), (unsigned long long)sum);
    free(line);
    return fclose(f) != 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "gen"))
        return generate(strtoull(argv[2], NULL, 10), argv[3]);
    if (argc == 3 && !strcmp(argv[1], "ours"))
        return ours(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "plain"))
        return plain(argv[2]);
    fprintf(stderr, "usage: reader gen N FILE | ours FILE | plain FILE\n");
    return 2;
}
