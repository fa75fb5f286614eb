/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_main.c - `paddle_worker trainer`: options, then the training job. */
#include "train/trainer.h"
#include "worker/worker.h"

/* SIGUSR1 requests an end with a saved model. With save_on_stop the first INT or TERM does the
 * same, and the second ends the process at once. The signals are blocked and polled between steps,
 * so no handler and no global variable is needed. */
struct stop_signals {
    sigset_t blocked;
};

static void stop_init(struct stop_signals *s) {
    sigemptyset(&s->blocked);
    sigaddset(&s->blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s->blocked, NULL);
}

static void stop_add_terminal(struct stop_signals *s) {
    sigaddset(&s->blocked, SIGINT);
    sigaddset(&s->blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &s->blocked, NULL);
}

static int stop_asked(void *arg) {
    struct stop_signals *s = arg;
    const struct timespec now = {0, 0};
    if (sigtimedwait(&s->blocked, NULL, &now) <= 0)
        return 0;
    sigdelset(&s->blocked, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &s->blocked, NULL);
    return 1;
}

static void report(void *worker, const struct pd_err *err) {
    (void)worker_report_error(worker, "trainer", err);
}

int trainer_main(int argc, char **argv) {
    struct worker w;
    struct pd_err err = {0};
    struct stop_signals stop;
    stop_init(&stop);
    int rc = worker_init(&w, "trainer", PD_TRAINER, argc, argv, &err);
    if (!rc && w.cpus.n && pd_pin_thread(&w.cpus, 0))
        rc = pd_fail_errno(&err, PD_EHOST, errno, "cannot pin the trainer's thread");
    const int stops = w.options.save_on_stop || w.options.job == PD_JOB_ONLINE;
    if (!rc && stops) /* PD_JOB_ONLINE ends in no other way */
        stop_add_terminal(&stop);
    else if (!rc)
        worker_watch_term(&w);
    if (rc) {
        report(&w, &err);
    } else {
        const char *restarts = getenv("PADDLE_RESTART_COUNT"),
                   *first = getenv("PADDLE_FIRST_TRAINERS_NUM");
        uint64_t n_first = 0;
        struct train_setup setup = {.options = &w.options,
                                    .job_id = w.job_id,
                                    .key = w.has_key ? w.key : NULL,
                                    .output_dir = getenv("PADDLE_OUTPUT_DIR"),
                                    .cpus = w.cpus.n ? &w.cpus : NULL,
                                    .log = &w.log,
                                    .spans = w.spans,
                                    .out_fd = 1,
                                    .log_lines = w.log_fd != 2,
                                    .data_fd = worker_env_fd("PADDLE_DATA_FD"),
                                    .event_fd = w.event_fd,
                                    .stop = stop_asked,
                                    .stop_arg = &stop,
                                    .on_failure = report,
                                    .failure_arg = &w,
                                    .lost_nodes = getenv("PADDLE_LOST_NODES")};
        if (restarts && pd_parse_u64(restarts, UINT32_MAX, &setup.restarts))
            setup.restarts = 0;
        if (first && !pd_parse_u64(first, UINT32_MAX, &n_first))
            setup.first_trainers = (uint32_t)n_first;
        rc = train_run(&setup, &err);
        worker_write_profile(&w);
    }
    worker_release(&w);
    return rc ? pd_code_exit_status(err.code) : 0;
}
