/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - the cost of a checkpoint for a running job. A pserver has one dense and one sparse
 * thread and a table of MILLIONS of rows of 16 floats with AdaGrad's state. A trainer pulls and
 * pushes 4096 rows per step. Row ids follow Zipf's law (row i with a frequency of about 1/i) or are
 * uniform.
 *
 * Usage: checkpoint MILLIONS FOLDER zipf|even
 *
 * Prints
 * - steps without a save: median and longest ms, steps per second
 * - steps during two saves, the bytes of the saves, and the better rate
 * - steps during dd, which copies the written file with fsync at the nice value of the writer, and
 * its better rate of two
 * - steps during a process of that nice value that only computes: what the machine leaves beside
 * any writer
 * - memory of server and writer during a save (PSS) relative to the server's memory before */
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench/programs/server.h"
#include "math/hash.h"
#include "ps/client/client.h"

enum {
    NICE = 5 /* nice value of the server's writer */,
    DIM = 16,
    KEYS = 4096,
    DENSE = 1 << 16,
    STEPS_MAX = 1 << 20
};

static void die(const char *what, const char *why) {
    fprintf(stderr, "checkpoint: %s: %s\n", what, why);
    exit(1);
}

struct job {
    struct ps_client *c;
    pid_t server;
    uint64_t n_rows, random;
    int even, table, dense;
    uint64_t keys[KEYS];
    float rows[KEYS * DIM], *w;
    double *ms;
    size_t n;
};

static void must(const struct job *j, int rc, const char *what) {
    if (rc < 0)
        die(what, ps_client_err(j->c)->msg);
}

static int by_key(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int by_ms(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* first > 0: the ids from `first` on, to create these rows. */
static size_t draw(struct job *j, uint64_t first) {
    for (uint64_t i = 0; i < KEYS; i++) {
        j->random = j->random * 6364136223846793005u + 1442695040888963407u;
        double u = (double)(j->random >> 11) * 0x1p-53;
        uint64_t row = first + i;
        if (first == UINT64_MAX)
            row = (uint64_t)(j->even ? u * (double)j->n_rows : exp(u * log((double)j->n_rows)));
        j->keys[i] = pd_mix64(row % j->n_rows + 1);
    }
    qsort(j->keys, KEYS, sizeof *j->keys, by_key);
    size_t n = 0;
    for (size_t i = 0; i < KEYS; i++)
        if (!n || j->keys[n - 1] != j->keys[i])
            j->keys[n++] = j->keys[i];
    return n;
}

static void step(struct job *j, uint64_t first) {
    size_t n = draw(j, first);
    uint64_t t0 = pd_mono_ns();
    must(j, ps_pull_rows(j->c, j->table, n, j->keys, j->rows, PS_CREATE), "pull");
    must(j, ps_pull_dense(j->c, j->dense, j->w, DENSE), "pull");
    must(j, ps_wait(j->c), "wait");
    must(j, ps_push_rows(j->c, j->table, n, j->keys, j->rows), "push");
    must(j, ps_push_dense(j->c, j->dense, j->w, DENSE), "push");
    must(j, ps_step_end(j->c, 1, NULL, 0), "step");
    must(j, ps_wait(j->c), "wait");
    if (j->n < STEPS_MAX)
        j->ms[j->n++] = (double)(pd_mono_ns() - t0) * 1e-6;
}

static void say(struct job *j, const char *what, double seconds) {
    qsort(j->ms, j->n, sizeof *j->ms, by_ms);
    printf("%s: %zu steps, median %.2f ms, 99%% %.2f ms, longest %.2f ms, %.0f steps/s\n", what,
           j->n, j->ms[j->n / 2], j->ms[j->n * 99 / 100], j->ms[j->n - 1], (double)j->n / seconds);
    j->n = 0;
}

static double pss_mb(pid_t pid) {
    char path[64], line[200];
    double kb = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        (void)sscanf(line, "Pss: %lf kB", &kb);
    if (f)
        fclose(f);
    return kb / 1024;
}

/* Memory of the server and its children. */
static double all_mb(pid_t server) {
    char path[300];
    double sum = pss_mb(server);
    snprintf(path, sizeof path, "/proc/%d/task", (int)server);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        int child;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.200s/children", (int)server, e->d_name);
        FILE *f = fopen(path, "r");
        while (f && fscanf(f, "%d", &child) == 1)
            sum += pss_mb(child);
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
    return sum;
}

/* Runs steps during a save. With `sample` it also measures memory, which takes time of its own.
 * Returns the seconds of the save. */
static double save(struct job *j, const char *dir, const char *name, enum ps_chain chain,
                   double *peak_mb) {
    static const struct ps_progress none = {0, 0};
    struct ps_save_opts o = {
        .dir = dir, .name = name, .config = "", .resume = &none, .chain = chain};
    uint64_t t0 = pd_mono_ns(), looked = 0;
    must(j, ps_save_start(j->c, &o), "save");
    do { /* at least one step, even if the save is quick */
        step(j, UINT64_MAX);
        if (peak_mb && pd_mono_ns() - looked > 100000000) {
            double mb = all_mb(j->server);
            *peak_mb = mb > *peak_mb ? mb : *peak_mb;
            looked = pd_mono_ns();
        }
    } while (ps_save_busy(j->c) == 1);
    must(j, ps_save_wait(j->c), "save");
    return (double)(pd_mono_ns() - t0) * 1e-9;
}

/* Runs steps while the child lives, for at most `most` seconds; then ends the child. Returns the
 * seconds. */
static double beside(struct job *j, pid_t child, double most) {
    uint64_t t0 = pd_mono_ns();
    double s;
    int over = 0;
    while (!over && (s = (double)(pd_mono_ns() - t0) * 1e-9) < most) {
        step(j, UINT64_MAX);
        over = waitpid(child, NULL, WNOHANG) == child;
    }
    s = (double)(pd_mono_ns() - t0) * 1e-9;
    if (!over) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return s;
}

static pid_t busy_process(void) {
    pid_t pid = fork();
    if (pid)
        return pid;
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    for (volatile uint64_t i = 0;; i++) {
    }
}

static pid_t copying_process(const char *from, const char *to) {
    char in[700], out[700];
    pid_t pid = fork();
    if (pid)
        return pid;
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    snprintf(in, sizeof in, "if=%s", from);
    snprintf(out, sizeof out, "of=%s", to);
    execlp("dd", "dd", in, out, "bs=1M", "conv=fsync", "status=none", (char *)NULL);
    _exit(1);
}

static double folder_mb(const char *dir, const char *name) {
    char path[600];
    double sum = 0;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s/%.200s", dir, name, e->d_name);
        if (!stat(path, &st) && S_ISREG(st.st_mode) && st.st_nlink == 1)
            sum += (double)st.st_size * 1e-6;
    }
    if (d)
        closedir(d);
    return sum;
}

int main(int argc, char **argv) {
    if (argc < 4)
        die("usage", "checkpoint MILLIONS FOLDER zipf|even [SECONDS]");
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct job *j = calloc(1, sizeof *j);
    struct pd_err err = {0};
    char list[64];
    if (!j || !(j->w = calloc(DENSE, sizeof *j->w)) || !(j->ms = calloc(STEPS_MAX, sizeof *j->ms)))
        die("memory", "none");
    j->n_rows = (uint64_t)(strtod(argv[1], NULL) * 1e6);
    j->even = !strcmp(argv[3], "even");
    const uint64_t for_ns = (uint64_t)((argc > 4 ? strtod(argv[4], NULL) : 3) * 1e9);
    j->random = 88172645463325252u;
    j->server = start_server(list, sizeof list);
    struct ps_client_opts o = {.pservers = list,
                               .n_trainers = 1,
                               .seed = 1,
                               .optimizer = {"adagrad", 0.01, 0},
                               .job = "bench",
                               .key = key32,
                               .plain = bench_plain()};
    if (ps_client_new(&j->c, &o, &err))
        die("client", err.msg);
    struct ps_dense_spec w = {
        .name = "w", .n_dims = 1, .shape = {DENSE}, .init_std = 0.01f, .lr_factor = 1};
    struct ps_table_spec t = {.name = "emb", .dim = DIM, .init_std = 0.01f, .lr_factor = 1};
    must(j, j->dense = ps_declare_dense(j->c, &w), "declare");
    must(j, j->table = ps_declare_table(j->c, &t), "declare");
    must(j, ps_start(j->c), "start");
    for (uint64_t i = 0; i < j->n_rows; i += KEYS)
        step(j, i);
    for (int i = 0; i < 50; i++)
        step(j, UINT64_MAX);
    j->n = 0;

    const char *dir = argv[2];
    uint64_t t0 = pd_mono_ns();
    while (pd_mono_ns() - t0 < for_ns)
        step(j, UINT64_MAX);
    say(j, "without a save", (double)(pd_mono_ns() - t0) * 1e-9);
    double s[2], mb = 0;
    for (int i = 0; i < 2; i++) {
        s[i] = save(j, dir, i ? "pass-00001" : "pass-00000", PS_CHAIN_BASE, NULL);
        mb = folder_mb(dir, i ? "pass-00001" : "pass-00000");
    }
    say(j, "beside a save", s[0] + s[1]);
    printf("save of %.0f MB: written in %.2f and %.2f s, %.0f MB/s\n", mb, s[0], s[1],
           mb / fmin(s[0], s[1]));
    char from[600], to[600];
    snprintf(from, sizeof from, "%s/pass-00001/sparse-00000-of-00001.bin", dir);
    snprintf(to, sizeof to, "%s/copy", dir);
    for (int i = 0; i < 2; i++) {
        s[i] = beside(j, copying_process(from, to), 60);
        unlink(to);
    }
    say(j, "beside dd", s[0] + s[1]);
    printf("dd of %.0f MB: written in %.2f and %.2f s, %.0f MB/s\n", mb, s[0], s[1],
           mb / fmin(s[0], s[1]));
    s[0] = beside(j, busy_process(), (double)for_ns * 1e-9 * 2 / 3);
    say(j, "beside a busy process", s[0]);
    t0 = pd_mono_ns();
    while (pd_mono_ns() - t0 < for_ns * 2 / 3)
        step(j, UINT64_MAX);
    say(j, "after it", (double)(pd_mono_ns() - t0) * 1e-9);
    s[0] = save(j, dir, "pass-00002", PS_CHAIN_DELTA, NULL);
    say(j, "beside a save of changes", s[0]);
    printf("save of changes: %.0f MB in %.2f s\n", folder_mb(dir, "pass-00002"), s[0]);
    usleep(500000); /* the copies of the last save are freed in the background */
    double before = all_mb(j->server), peak = before;
    s[0] = save(j, dir, "pass-00003", PS_CHAIN_NONE, &peak);
    printf("memory: server %.0f MB, with the writer at most %.0f MB: ratio %.3f in %.2f s\n",
           before, peak, peak / before, s[0]);
    must(j, ps_bye(j->c), "bye");
    ps_client_free(j->c);
    waitpid(j->server, NULL, 0);
    return 0;
}
