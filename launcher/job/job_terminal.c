/* SPDX-License-Identifier: Apache-2.0 */
/* job_terminal.c - the person at the terminal of run and attach: keys, Ctrl-Z, a closed terminal,
 * and the time in which paddlectl itself was stopped (Ctrl-Z, a laptop that sleeps). */
#include "launcher/job/job_internal.h"

enum {
    HELP_MS = 10000,
    STATUS_MS = 30000,
    /* Ticks come once a second. A larger gap means that paddlectl did not run. */
    GAP_MS = 3000,
    CONTINUED_GAP_MS = 1500, /* after SIGCONT, which shows that paddlectl was stopped */
};

static uint64_t boot_ms(void) { /* counts while the machine sleeps */
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- what became of the job while paddlectl was stopped --- */

static void tell_fate(struct job *j, const char *state) {
    static const char *const over[] = {"done", "failed", "stopped", "lost"};
    const char *text = "the job still runs";
    j->asks_fate = 0;
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++)
        if (!strcmp(state, over[i]))
            text = "the job has ended meanwhile";
    if (!strcmp(state, "ending"))
        text = "the job is being ended";
    watch_print(j, "%s", text);
}

static int on_status(struct link *l, const struct wire_frame *f, json_t *body,
                     const struct pd_err *err, void *arg) {
    struct job *j = arg;
    struct ag_status_answer a;
    (void)l;
    (void)f;
    if (!err && j->asks_fate && !wire_get(&wire_ag_status_answer, &a, body, NULL))
        tell_fate(j, a.state);
    return 1; /* after an error the connection is lost: job_ask_fate comes again */
}

void job_ask_fate(struct job *j) {
    struct job_node *n = job_node_by_id(j, j->head);
    if (!j->asks_fate || !n)
        return;
    if (n->has_result)
        tell_fate(j, "done");
    else if (n->link && n->greeted && link_is_open(n->link))
        (void)link_request(n->link, WIRE_AG_STATUS, json_object(), NULL, 0, STATUS_MS,
                           "asking for the status", on_status, j);
}

static int job_runs(const struct job *j) {
    return (j->ran || j->joined) && (j->phase == JOB_RUN || j->phase == JOB_FOLLOW);
}

static void notice_gap(struct job *j, uint64_t least_ms) {
    uint64_t now = boot_ms(), ms = now - j->seen_ms;
    j->seen_ms = now;
    if (ms < least_ms)
        return;
    if (job_runs(j) && j->owns)
        watch_print(j, "paddlectl was stopped for %llu s; the job's lease is %g s",
                    (unsigned long long)ms / 1000, j->opts->attach_lease);
    else
        watch_print(j, "paddlectl was stopped for %llu s", (unsigned long long)ms / 1000);
    j->asks_fate = job_runs(j);
    job_ask_fate(j);
}

/* --- keys --- */

/* Log-ins ask for passwords on the same terminal. */
static int wants_keys(const struct job *j) {
    return j->phase < JOB_BYE && !job_any(j, AT(NODE_NEW) | AT(NODE_CONNECT));
}

static void check_keys(struct job *j) {
    if (!j->keys || !wants_keys(j))
        return;
    int active = keys_check(j->keys);
    if (active && j->phase == JOB_FOLLOW && !j->told_keys) {
        j->told_keys = 1;
        watch_print(j, "keys: d detach, q stop, ? help");
    }
}

static void on_note(uv_timer_t *t) { live_note(((struct job *)t->data)->live, ""); }

static void note(struct job *j, const char *text, uint64_t ms) {
    live_note(j->live, text);
    uv_timer_stop(&j->note_timer);
    if (ms)
        uv_timer_start(&j->note_timer, on_note, ms, 0);
}

int job_detach(struct job *j) {
    if (job_takes_over(j)) {
        if (!j->hung_up)
            watch_print(j, "cannot detach now: another node is about to become the head");
        return -1;
    }
    for (int i = 0; i < j->n_nodes && j->owns; i++) {
        const struct job_node *n = j->by_id[i];
        if (n && AT(n->step) & (AT(NODE_RUNNING) | AT(NODE_ENDED)) &&
            !(n->link && link_is_open(n->link))) {
            if (!j->hung_up)
                watch_print(j, "cannot detach now: %s is being connected again", n->host->label);
            return -1;
        }
    }
    j->left = 1;
    return 0;
}

static void on_key(void *arg, char key) {
    struct job *j = arg;
    if (j->asks_stop) {
        j->asks_stop = 0;
        keys_question(j->keys, 0);
        note(j, "", 0);
        if (key == 'y' || key == 'Y')
            job_stop_by_user(j, "q", 1);
        return;
    }
    switch (key) {
    case 'd':
        if (j->phase != JOB_FOLLOW)
            note(j, "d: the job does not run yet, or ends", HELP_MS);
        else if (!job_detach(j))
            job_leave(j);
        break;
    case 'q':
        j->asks_stop = 1;
        keys_question(j->keys, 1);
        note(j, "stop the job? y: stop it, any other key: go on", 0);
        break;
    case '?':
    case 'h':
        note(j, "d detach  q stop  Ctrl-L redraw  Ctrl-Z suspend", HELP_MS);
        break;
    case '\f':
        view_clear(j->view);
        live_redraw(j->live);
        break;
    default:
        break;
    }
}

/* --- stopped and continued --- */

static void on_suspend(void *arg, int signum) {
    struct job *j = arg;
    if (job_runs(j) && j->owns)
        watch_print(j,
                    "%s: without paddlectl the nodes end the job after %g s (attach_lease); fg or "
                    "bg continue paddlectl",
                    signum == SIGTSTP ? "Ctrl-Z" : strsignal(signum), j->opts->attach_lease);
    watch_flush(j);
    j->seen_ms = boot_ms();
}

static void on_resume(void *arg, int by_key) {
    struct job *j = arg;
    check_keys(j);
    live_redraw(j->live);
    notice_gap(j, by_key ? 1000 : CONTINUED_GAP_MS);
}

void job_terminal_tick(struct job *j) {
    check_keys(j);
    notice_gap(j, GAP_MS);
}

int job_terminal_open(struct job *j, struct pd_err *err) {
    int rc = 0;
    j->seen_ms = boot_ms();
    uv_timer_init(&j->c.loop, &j->note_timer);
    j->note_timer.data = j;
    if (view_is_live(j->view) && !j->flags.json && !j->flags.detach)
        rc = keys_new(&j->keys, &j->c.loop, on_key, j, err);
    j->suspend = (struct suspend){
        .view = j->view, .keys = j->keys, .on_stop = on_suspend, .on_resume = on_resume, .arg = j};
    suspend_open(&j->suspend, &j->c.loop);
    return rc;
}

void job_terminal_close(struct job *j) {
    keys_close(j->keys);
    uv_close((uv_handle_t *)&j->note_timer, NULL);
    suspend_close(&j->suspend);
}
