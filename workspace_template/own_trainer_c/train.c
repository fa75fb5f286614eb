/* train.c - a trainer of your own in C: logistic regression on made-up clicks, with its weights in a
 * table at the parameter servers.
 *
 * Every trainer makes its own samples. The servers average the gradients of all trainers and apply
 * FTRL. Build and run: README.md. */
#include <math.h>
#include <paddle_ps.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIELDS = 8, IDS_PER_FIELD = 200, BATCH = 256, STEPS = 300 };

/* A number in [0, 1) that depends on its arguments only: the data is the same on every machine and in
 * every run. */
static double uniform(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9e3779b97f4a7c15u ^ b * 0xc2b2ae3d27d4eb4fu;
    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    x *= 0x94d049bb133111ebu;
    return (double)((x ^ x >> 32) >> 11) / 9007199254740992.0;
}

static double sigmoid(double z) { return 1 / (1 + exp(-z)); }

static int fail(paddle_ps *ps) {
    fprintf(stderr, "train: %s\n", paddle_ps_error(ps));
    paddle_ps_free(ps);
    return 1;
}

int main(void) {
    static uint64_t ids[BATCH * FIELDS];
    static float weight[BATCH * FIELDS], grad[BATCH * FIELDS];
    char why[500];
    /* FTRL divides by beta + sqrt(sum of squared gradients). A gradient is the mean over the job's
     * samples, and an id is in few of them, so that sum is small. With beta = 1, the default,
     * nothing would be learned in 300 steps. */
    paddle_ps *ps = paddle_ps_join(
        "optimizer=ftrl optimizer.learning_rate=0.3 optimizer.beta=0.002", why, sizeof why);
    if (!ps) {
        fprintf(stderr, "train: %s\n", why);
        return 1;
    }
    int table = paddle_ps_table(ps, "weights", 1, 0, NULL);
    if (table < 0 || paddle_ps_start(ps))
        return fail(ps);
    uint64_t me = (uint64_t)paddle_ps_trainer_id(ps), samples = 0;
    double costs = 0, bests = 0; /* sums over the samples since the last printed line */
    for (uint64_t step = 0; step < STEPS; step++) {
        double cost = 0, best = 0;
        for (uint64_t i = 0; i < BATCH * FIELDS; i++)
            ids[i] = i % FIELDS * IDS_PER_FIELD + (uint64_t)(uniform(me << 40 | step << 20 | i, 1) * IDS_PER_FIELD);
        if (paddle_ps_pull_rows(ps, table, BATCH * FIELDS, ids, weight, 1) || paddle_ps_wait(ps))
            return fail(ps);
        for (uint64_t i = 0; i < BATCH; i++) {
            double z = 0, truth = 0;
            for (int f = 0; f < FIELDS; f++) {
                z += weight[i * FIELDS + f];
                truth += 2 * uniform(ids[i * FIELDS + f], 2) - 1; /* the planted weights */
            }
            double p = sigmoid(z), q = sigmoid(truth);
            int clicked = uniform(me << 40 | step << 20 | i, 3) < q;
            cost -= log(clicked ? p : 1 - p);
            best -= q * log(q) + (1 - q) * log(1 - q);
            for (int f = 0; f < FIELDS; f++)
                grad[i * FIELDS + f] = (float)(p - clicked);
        }
        const double sums[2] = {cost, best};
        if (paddle_ps_push_rows(ps, table, BATCH * FIELDS, ids, grad) || paddle_ps_step_end(ps, BATCH, sums, 2))
            return fail(ps);
        uint64_t at, n;
        double all[2];
        while (paddle_ps_step_sums(ps, &at, &n, all, 2) == 1) {
            costs += all[0];
            bests += all[1];
            samples += n;
            if (at % 50)
                continue;
            if (me == 0)
                printf("step %llu: cost %.4f, the best possible %.4f, %llu samples\n",
                       (unsigned long long)at, costs / (double)samples, bests / (double)samples,
                       (unsigned long long)samples);
            costs = bests = 0;
            samples = 0;
        }
        fflush(stdout);
    }
    if (paddle_ps_pass_end(ps) || paddle_ps_save(ps, "output", "model") || paddle_ps_leave(ps))
        return fail(ps);
    paddle_ps_free(ps);
    return 0;
}
