/* trainer_main.c - `paddle_worker trainer`: options, then the training job. */
#include <errno.h>
#include <stdlib.h>

#include "train/trainer.h"
#include "worker/worker.h"

int trainer_main(int argc, char **argv) {
    struct worker w;
    struct pd_err err = {0};
    int rc = worker_init(&w, "trainer", PD_TRAINER, argc, argv, &err);
    if (!rc && w.cpus.n && pd_pin_thread(&w.cpus, 0))
        rc = pd_fail_errno(&err, PD_EHOST, errno, "cannot pin the trainer's thread");
    if (!rc) {
        struct train_setup setup = {.options = &w.options, .job_id = w.job_id, .key = w.has_key ? w.key : NULL,
                                    .output_dir = getenv("PADDLE_OUTPUT_DIR"), .log = &w.log, .out_fd = 1, .log_lines = w.log_fd != 2, .event_fd = w.event_fd};
        rc = train_run(&setup, &err);
    }
    int status = rc ? worker_failed(&w, "trainer", &err) : 0;
    worker_release(&w);
    return status;
}
