/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - see worker.h. */
#include "worker/worker.h"

#include <malloc.h>
#include <sys/prctl.h>

#include "base/spans.h"
#include "wire/body.h"

enum { DEFAULT_LOG_SIZE = 256 << 20, DEFAULT_LOG_KEEP = 4, MAX_THREADS = 256 };

extern char **environ;

/* OpenBLAS chooses its kernels in a constructor, from a variable that some login environments
 * export and sshd does not pass on. The same job would then run different kernels, with different
 * bits, depending on how it was started. This constructor runs first, because it has a priority,
 * and lets only PADDLE_BLAS_CORETYPE decide (for example Haswell, for the same bits on different
 * machines). */
__attribute__((constructor(101))) static void decide_blas(void) {
    const char *core = getenv("PADDLE_BLAS_CORETYPE");
    if (core && *core)
        setenv("OPENBLAS_CORETYPE", core, 1);
    else
        unsetenv("OPENBLAS_CORETYPE");
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

/* The agent, or a user who starts a worker by hand, may limit the log by environment variables. */
static int limit_log(struct pd_log *log, struct pd_err *err) {
    const char *size = getenv("PADDLE_LOG_MAX_SIZE"), *files = getenv("PADDLE_LOG_KEEP");
    uint64_t max = DEFAULT_LOG_SIZE, keep = DEFAULT_LOG_KEEP;
    if (size && *size && pd_parse_size(size, INT64_MAX / 4, &max))
        return pd_fail(err, PD_ECONF,
                       "PADDLE_LOG_MAX_SIZE is a number of bytes (suffixes K, M, G), not '%.40s'",
                       size);
    if (files && *files && pd_parse_u64(files, 100, &keep))
        return pd_fail(err, PD_ECONF, "PADDLE_LOG_KEEP is 0..100, not '%.40s'", files);
    pd_log_limit(log, max, (unsigned)keep);
    return 0;
}

static int open_log(struct worker *w, const char *role, struct pd_err *err) {
    const char *dir = getenv("PADDLE_LOG_DIR");
    char path[PATH_MAX];
    w->log_fd = 2;
    if (dir && *dir) {
        if (pd_fmt(path, sizeof path, "%s/paddle_%s.INFO", dir, role))
            return pd_fail(err, PD_ECONF, "PADDLE_LOG_DIR is too long");
        if (pd_log_open(&w->log, path, 2, PD_INFO, err))
            return err->code;
        w->log_fd = w->log.fd;
        return limit_log(&w->log, err);
    }
    pd_log_init(&w->log, w->log_fd, -1, PD_INFO);
    return 0;
}

int worker_env_fd(const char *name) {
    int64_t fd;
    const char *s = getenv(name);
    if (!s || pd_parse_i64(s, 3, 1 << 20, &fd) || fcntl((int)fd, F_GETFD) < 0)
        return -1;
    return (int)fd;
}

static int read_options(struct worker *w, enum pd_opt_who who, int argc, char **argv,
                        struct pd_err *err) {
    const char **rest = pd_calloc((size_t)argc + 1, sizeof *rest);
    int n_rest = 0, rc = rest ? 0 : pd_oom(err, "the worker");
    if (!rc)
        rc = pd_options_args(&w->options, who, argc, argv, NULL, rest, &n_rest, err);
    if (!rc && n_rest)
        rc = pd_fail(err, PD_EUSAGE, "unexpected argument '%s'", rest[0]);
    if (!rc)
        rc = pd_options_read_environ(&w->options, who, environ, err);
    free(rest);
    if (!rc && (who == PD_TRAINER || !access(w->options.config, R_OK)))
        rc = pd_options_read_train(&w->options, w->options.config, err);
    return rc ? rc : pd_options_complete_pservers(&w->options, err);
}

/* Every step allocates and frees messages of megabytes. By default glibc returns such memory to the
 * kernel and faults it in again page by page, which costs more than the copying (measured: keeping
 * it doubles the steps per second). */
static void keep_freed_memory(void) {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

/* PADDLE_BIND=cores: the agent or taskset has given this process its CPUs; its threads are pinned
 * to the cores in turn. */
static int read_cpus(struct worker *w, struct pd_err *err) {
    const char *bind = getenv("PADDLE_BIND");
    struct pd_cpuset may;
    char text[300];
    if (!bind || strcmp(bind, "cores"))
        return 0;
    if (pd_cpuset_mine(&may))
        return pd_fail_errno(err, PD_EHOST, errno,
                             "PADDLE_BIND=cores: cannot ask for the CPUs of this process");
    int rc = pd_cpus_read(&w->cpus, PD_SYS_DEVICES, &may, err);
    pd_cpuset_text(&may, text, sizeof text);
    if (!rc)
        pd_info(&w->log, "threads are pinned to the cores of CPUs %s in turn", text);
    return rc;
}

/* trainer_count = auto: one thread for each physical core that this process may use. A step of
 * Slurm may have fewer CPUs than the kernel lets its processes use. */
static int count_threads(struct pd_options *o, struct pd_err *err) {
    struct pd_cpuset may, cores = {{0}};
    struct pd_cpus cpus;
    const char *slurm = getenv("SLURM_CPUS_ON_NODE");
    int64_t most = MAX_THREADS;
    if (o->trainer_count > 0)
        return 0;
    if (pd_cpuset_mine(&may))
        return pd_fail_errno(err, PD_EHOST, errno,
                             "trainer_count = auto: cannot ask for the CPUs of this process");
    int rc = pd_cpus_read(&cpus, PD_SYS_DEVICES, &may, err);
    if (rc)
        return rc;
    for (int i = 0; i < cpus.n; i++)
        pd_cpuset_add(&cores, cpus.v[i].core);
    if (slurm && pd_parse_i64(slurm, 1, MAX_THREADS, &most))
        most = MAX_THREADS;
    o->trainer_count = pd_cpuset_count(&cores) < most ? pd_cpuset_count(&cores) : most;
    pd_cpus_release(&cpus);
    return 0;
}

int worker_init(struct worker *w, const char *role, enum pd_opt_who who, int argc, char **argv,
                struct pd_err *err) {
    char name[32];
    memset(w, 0, sizeof *w);
    w->role = role;
    w->log_fd = 2;
    pd_log_init(&w->log, 2, -1, PD_INFO);
    snprintf(name, sizeof name, "paddle_%s", role);
    prctl(PR_SET_NAME, name);
    keep_freed_memory();
    pd_fault_arm(getenv("PADDLE_FAULT"));
    int rc = pd_options_init(&w->options, err);
    if (rc)
        return rc;
    rc = read_options(w, who, argc, argv, err);
    if (!rc)
        rc = count_threads(&w->options, err);
    if (!rc)
        rc = open_log(w, role, err);
    const char *key = getenv("PADDLE_KEY_FILE");
    if (!rc)
        rc = ps_job_of_environ(w->job_id, err);
    if (*w->options.key_file)
        key = w->options.key_file;
    if (!rc && key && *key) {
        pd_secret_pages(w->key, sizeof w->key);
        rc = wire_key_read(key, w->key, err);
        w->has_key = !rc;
    }
    if (!rc && w->options.encrypt == PD_ENCRYPT_OFF)
        pd_warn(&w->log, "encrypt = off: connections are neither encrypted nor authenticated after "
                         "the handshake");
    w->event_fd = worker_env_fd("PADDLE_EVENT_FD");
    if (!rc && w->options.profile && !(w->spans = pd_spans_new()))
        rc = pd_oom(err, "the profile");
    if (!rc)
        rc = read_cpus(w, err);
    if (rc)
        worker_release(w);
    return rc;
}

int64_t worker_rank(const struct worker *w) {
    const char *number = getenv("PADDLE_TRAINER_ID"); /* set by the agent, for a pserver, too */
    int64_t rank = w->options.trainer_id;
    return number && pd_parse_i64(number, 0, UINT16_MAX, &rank) ? 0 : rank;
}

static void write_profile(struct worker *w) {
    const char *output = getenv("PADDLE_OUTPUT_DIR"), *node = getenv("PADDLE_NODE_ID");
    struct pd_spans_of of = {.role = w->role, .rank = worker_rank(w)};
    char folder[PATH_MAX], path[PATH_MAX];
    struct pd_err err = {0};
    if (node && pd_parse_i64(node, 0, INT32_MAX, &of.node))
        of.node = 0;
    if (pd_fmt(folder, sizeof folder, "%s/profile", output && *output ? output : "output") ||
        pd_fmt(path, sizeof path, "%s/%s-%lld.jsonl", folder, w->role, (long long)of.rank))
        pd_fail(&err, PD_EIO, "the path is too long");
    else if (!pd_mkdirs(folder, 0777, &err))
        pd_spans_write(w->spans, path, &of, &err);
    if (err.code)
        pd_warn(&w->log, "the profile is not written: %s", err.msg);
}

/* SIGTERM, and SIGUSR2: the thread is no longer needed (watch_ends), or the user sent the signal.
 * All threads block both. */
static sigset_t watched_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR2);
    return set;
}

static void *watch_term(void *arg) {
    struct worker *w = arg;
    const sigset_t set = watched_signals();
    int got;
    if (sigwait(&set, &got) || (got == SIGUSR2 && atomic_load(&w->watch_ends)))
        return NULL;
    write_profile(w);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(got); /* the process ends as it would have done without a profile */
    return NULL;
}

void worker_watch_term(struct worker *w) {
    const sigset_t set = watched_signals();
    if (!w->spans)
        return;
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    w->is_watched = !pthread_create(&w->watch, NULL, watch_term, w);
    if (!w->is_watched)
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void end_watch(struct worker *w) {
    const sigset_t set = watched_signals();
    if (!w->is_watched)
        return;
    w->is_watched = 0;
    atomic_store(&w->watch_ends, 1);
    pthread_kill(w->watch, SIGUSR2);
    pthread_join(w->watch, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void worker_write_profile(struct worker *w) {
    end_watch(w);
    if (w->spans)
        write_profile(w);
}

void worker_release(struct worker *w) {
    end_watch(w);
    pd_spans_free(w->spans);
    w->spans = NULL;
    pd_options_release(&w->options);
    pd_cpus_release(&w->cpus);
    pd_log_close(&w->log);
    w->log_fd = 2;
    pd_log_init(&w->log, 2, -1, PD_INFO);
    explicit_bzero(w->key, sizeof w->key);
}

/* These errors (data, configuration, numbers) would come back after a restart. A lost peer, a full
 * disk or a killed process may not. */
static int would_fail_again(int code) {
    return code == PD_EDATA || code == PD_EUSAGE || code == PD_ECONF || code == PD_ENOENT ||
           code == PD_ENUM;
}

/* The error of this process. Another process may have told it so: the trainer that asked for a save
 * tells the pserver that its disk is full. */
static int is_own(const struct worker *w, const struct pd_err *err, const char *role) {
    char self[60];
    const char *rank = getenv("PADDLE_TRAINER_ID"); /* set by the agent, for a pserver, too */
    if (!strcmp(role, "pserver"))
        snprintf(self, sizeof self, "pserver %.20s on ", rank ? rank : "?");
    else
        snprintf(self, sizeof self, "trainer %lld on ", (long long)w->options.trainer_id);
    return !*err->from || !strncmp(err->from, self, strlen(self));
}

static void tell_agent(int fd, const char *role, const struct pd_err *err, const char *from) {
    json_t *event =
        json_pack("{s:I, s:s, s:s, s:s, s:b, s:o, s:o}", "t", (json_int_t)(pd_wall_us() / 1000),
                  "ev", "failed", "role", role, "code", pd_code_name(err->code), "final",
                  would_fail_again(err->code), "from", wire_text(from, strlen(from)), "text",
                  wire_text(err->msg, strlen(err->msg)));
    char *line = event ? json_dumps(event, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    if (line && !pd_write_all(fd, line, strlen(line)))
        (void)pd_write_all(fd, "\n", 1);
    free(line);
    json_decref(event);
}

/* Each error is reported once, by the process in which it happened. A process that ends because of
 * another one tells its agent, which writes the name of the process that failed into the log.
 * Without an agent it says so itself. */
int worker_report_error(const struct worker *w, const char *role, const struct pd_err *err) {
    char text[sizeof err->msg + sizeof err->from + 30];
    const int fd = worker_env_fd("PADDLE_EVENT_FD"), own = is_own(w, err, role);
    if (own)
        snprintf(text, sizeof text, "%s", err->msg);
    else
        snprintf(text, sizeof text, "stopping: %s", err->msg);
    if (own || fd < 0)
        fprintf(stderr, "paddle_%s: %s\n", role, text);
    if (fd >= 0)
        tell_agent(fd, role, err, own ? "" : err->from);
    if (w->log_fd > 2) {
        struct pd_log quiet = {.fd = w->log_fd, .also_fd = -1, .level = PD_INFO};
        pd_log_write(&quiet, own ? PD_ERROR : PD_WARN, __FILE__, __LINE__, "%s", text);
    }
    return pd_code_exit_status(err->code);
}
