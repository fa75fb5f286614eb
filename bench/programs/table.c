/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the table of one server thread, in this process, from 1M to 30M rows of 16 floats with
 * AdaGrad's state: memory per row; cost of creating, reading and updating rows; the longest pause
 * while the table grows. For comparison it measures the first touch of 2 MiB of unrelated memory at
 * the same time, because the host of a virtual machine allocates its memory only then.
 *
 * Usage: table [ROWS_IN_MILLIONS]. */
#include "math/hash.h"
#include "ps/plan/optim.h"
#include "ps/table/table.h"
#include "thread/page_memory.h"

enum { REQUEST = 13000, DIM = 16, MILLION = 1000000, SAMPLES = 300 };

static uint64_t key_at(uint64_t i) { return pd_mix64(i + 1); }

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Million existing keys per second: find and read, or find and update. */
static double speed(struct ps_table *t, int update, uint64_t *keys, uint32_t *rows, float *values) {
    const struct ps_optim *adagrad = ps_optim_find("adagrad");
    const struct ps_optim_args a = {.lr = 0.01f, .epsilon = 1e-6f, .n_samples = 1, .clip = 1e30f};
    uint64_t n = ps_table_rows(t), state = 88172645463325252u, spent = 0;
    for (int r = 0; r < SAMPLES; r++) {
        for (int i = 0; i < REQUEST; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            keys[i] = key_at((uint64_t)(((unsigned __int128)state * n) >> 64));
        }
        uint64_t t0 = pd_mono_ns();
        ps_table_find(t, keys, REQUEST, 0, rows);
        if (!update)
            ps_table_gather(t, keys, rows, REQUEST, values);
        for (int i = 0; update && i < REQUEST; i++) {
            if (i + 16 < REQUEST)
                ps_table_prefetch(t, rows[i + 16]);
            float *w = ps_table_change(t, rows[i]);
            ps_optim_apply(adagrad, &a, w, w + DIM, DIM, values + (size_t)i * DIM, DIM);
        }
        spent += pd_mono_ns() - t0;
    }
    return (double)REQUEST * SAMPLES * 1e3 / (double)spent;
}

/* Milliseconds of the worst of N_TOUCH first touches of a huge page of fresh memory. */
static double first_touch(void) {
    enum { N_TOUCH = 64 };
    double worst = 0;
    uint8_t *m = pd_huge_page_map((size_t)N_TOUCH * PD_HUGE_PAGE);
    for (size_t i = 0; m && i < N_TOUCH; i++) {
        uint64_t t0 = pd_mono_ns();
        memset(m + i * PD_HUGE_PAGE, 1, PD_HUGE_PAGE);
        double ms = (double)(pd_mono_ns() - t0) / 1e6;
        worst = ms > worst ? ms : worst;
    }
    if (m)
        pd_huge_page_unmap(m, (size_t)N_TOUCH * PD_HUGE_PAGE);
    return worst;
}

int main(int argc, char **argv) {
    uint64_t target = (argc > 1 ? strtoull(argv[1], NULL, 10) : 30) * MILLION, next = MILLION;
    struct ps_table *t;
    struct ps_table_opts o = {.name = "t", .dim = DIM, .state = 1, .seed = 1, .std = 0.01f};
    uint64_t *keys = malloc(REQUEST * sizeof *keys);
    uint32_t *rows = malloc(REQUEST * sizeof *rows);
    float *values = calloc((size_t)REQUEST * DIM, sizeof *values);
    double *ms = malloc((target / REQUEST + 2) * sizeof *ms);
    size_t n_ms = 0, from = 0;
    if (!keys || !rows || !values || !ms || ps_table_new(&t, &o))
        return 1;
    printf("   rows  bytes/row (values and state %d)   make  read  update Mkeys/s   request of %d "
           "new rows: median, worst ms   2 MiB touched first: worst ms\n",
           DIM * 2 * 4, REQUEST);
    double worst_ratio = 0;
    for (uint64_t made = 0; made < target;) {
        for (int i = 0; i < REQUEST; i++)
            keys[i] = key_at(made + (uint64_t)i);
        uint64_t t0 = pd_mono_ns();
        if (ps_table_find(t, keys, REQUEST, 1, rows))
            return 1;
        ms[n_ms++] = (double)(pd_mono_ns() - t0) / 1e6;
        made += REQUEST;
        if (made < next && made < target)
            continue;
        double sum = 0;
        for (size_t i = from; i < n_ms; i++)
            sum += ms[i];
        qsort(ms + from, n_ms - from, sizeof *ms, by_value);
        double median = ms[(from + n_ms) / 2], worst = ms[n_ms - 1];
        if (from && worst / median > worst_ratio)
            worst_ratio = worst / median;
        printf("%6.1fM  %9.1f %33.1f %6.1f %6.1f %21.2f %8.2f %21.2f\n", (double)made / MILLION,
               (double)ps_table_bytes(t) / (double)ps_table_rows(t),
               (double)REQUEST * (double)(n_ms - from) / sum / 1e3, speed(t, 0, keys, rows, values),
               speed(t, 1, keys, rows, values), median, worst, first_touch());
        fflush(stdout);
        from = n_ms;
        next = next < 10 * MILLION ? next * 2 : next + 10 * MILLION;
    }
    printf(
        "bench table ratio %.2f target <=5 peer \"median request\" ours %.2f x worst theirs 1 x\n",
        worst_ratio, worst_ratio);
    ps_table_free(t);
    free(keys);
    free(rows);
    free(values);
    free(ms);
    return 0;
}
