/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer's process that is gone for good, under each policy, and a process that is only slow.
 * The other trainers end, wait for another process in its place, or continue without it. The odd
 * trainer is a separate process, which can be killed and stopped. */
#include <setjmp.h>
#include <cmocka.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define TOY_SMALL
#include "tests/support/c/ps_cluster.h"

static const struct toy base = {.n_trainers = 3,
                                .n_servers = 2,
                                .n_dense = 1,
                                .n_sparse = 1,
                                .n_streams = 3,
                                .n_passes = 2,
                                .steps = 4,
                                .optimizer = "adagrad",
                                .lr = 0.1};

enum { ODD = 1, N_PROCESSES = 3 };

/* --- the odd trainer --- */

static uint64_t odd_step;
static int odd_signal, odd_pushes;
static int odd_torn;            /* > 0: it is killed before this message of the end of the step */
static volatile int *torn_seen; /* what the next process is told about that step; 2: not yet */

/* Waits until everything before this step is applied everywhere. Then, in some cases after
 * beginning a contribution, the process sends itself the signal. */
static int signals_itself(struct toy_trainer *me, struct ps_client *c, uint64_t step) {
    static float values[TOY_VALUES], row[TOY_DIM];
    uint64_t keys[TOY_ROWS];
    float *rows = values;
    if (step == odd_step && odd_torn) {
        char fault[40];
        snprintf(fault, sizeof fault, "kill.ps.step_end:%d", odd_torn);
        pd_fault_arm(fault);
        return 0;
    }
    if (step != odd_step || !odd_signal)
        return 0;
    for (int i = 0; i < TOY_ROWS; i++)
        keys[i] = toy_key(i);
    int rc = ps_pull_dense(c, 2, values, TOY_LARGE);
    if (!rc)
        rc = ps_wait(c);
    rows = calloc(TOY_ROWS * TOY_DIM, sizeof *rows);
    if (!rc)
        rc = ps_pull_rows(c, 0, TOY_ROWS, keys, rows, PS_NO_CREATE);
    if (!rc)
        rc = ps_wait(c);
    free(rows);
    if (odd_pushes) {
        float *lent = ps_lend(c, TOY_LARGE); /* the servers still map it after its owner is gone */
        if (lent)
            memcpy(lent, values, TOY_LARGE * sizeof *lent);
        if (!rc)
            rc = ps_push_rows(c, 0, 1, keys, row);
        if (!rc)
            rc = ps_push_dense(c, 2, lent ? lent : values, TOY_LARGE);
    }
    if (!rc)
        raise(odd_signal);
    (void)me;
    return rc;
}

/* The process that takes the place. */
static int notes_torn(struct toy_trainer *me, struct ps_client *c, uint64_t step) {
    (void)me;
    (void)step;
    if (torn_seen && *torn_seen == 2)
        *torn_seen = ps_resumed_torn(c);
    return 0;
}

struct process {
    pid_t pid;
    int go; /* the servers' list is written here */
};

/* Forks before there are threads. The process begins when it gets the list of servers. */
static void process_new(struct process *p, const struct toy *t, int behaves) {
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    p->pid = fork();
    if (p->pid) {
        close(fd[0]);
        p->go = fd[1];
        return;
    }
    static struct toy_result result;
    char list[300] = "";
    close(fd[1]);
    ssize_t n = read(fd[0], list, sizeof list - 1);
    if (n <= 0)
        _exit(0);
    if (odd_torn) /* without shared memory a message leaves before the next one is made */
        pd_fault_arm("net.arena:1,net.arena:2,net.arena:3,net.arena:4");
    struct toy_trainer me = {.t = t,
                             .id = ODD,
                             .servers = list,
                             .result = &result,
                             .before_step = behaves ? signals_itself : notes_torn};
    toy_main(&me);
    if (me.rc)
        fprintf(stderr, "process %d: %s\n", (int)getpid(), me.err.msg);
    _exit(me.rc ? 1 : 0);
}

static void process_start(const struct process *p, const char *list) {
    assert_int_equal(write(p->go, list, strlen(list) + 1), (ssize_t)strlen(list) + 1);
}

static int process_wait(const struct process *p, int flags) {
    int status = 0;
    assert_int_equal(waitpid(p->pid, &status, flags), p->pid);
    return status;
}

/* --- a job with the odd trainer --- */

struct outcome {
    struct toy_result result[3];
    struct toy_trainer me[3];
    struct pd_err server;
    int server_rc, n_started, last_status;
    char log[1 << 16];
};

/* n processes in a row are the odd trainer; all but the last behave differently. */
static void run(const struct toy *t, enum ps_lost on_lost, uint64_t reconnect_ms, int n,
                struct outcome *o) {
    struct cluster c;
    struct process p[N_PROCESSES];
    pid_t stopped = 0;
    memset(o, 0, sizeof *o);
    int log = memfd_create("log", MFD_CLOEXEC);
    for (int i = 0; i < n; i++)
        process_new(&p[i], t, i + 1 < n || n == 1);
    cluster_on_lost = on_lost;
    cluster_reconnect_ms = reconnect_ms;
    cluster_start(&c, t->n_servers, t->n_dense, t->n_sparse, t->n_trainers, 1000, log);
    cluster_on_lost = PS_LOST_FAIL;
    for (int i = 0; i < t->n_trainers; i++) {
        o->me[i] =
            (struct toy_trainer){.t = t, .id = i, .servers = c.list, .result = &o->result[i]};
        if (i != ODD)
            pthread_create(&o->me[i].thread, NULL, toy_main, &o->me[i]);
    }
    for (int i = 0; i < n; i++) {
        process_start(&p[i], c.list);
        o->last_status = process_wait(&p[i], odd_signal == SIGSTOP ? WUNTRACED : 0);
        /* It stays stopped, and the next process, if any, begins beside it. */
        if (WIFSTOPPED(o->last_status) && cluster_heartbeat_ms) {
            stopped = p[i].pid;
            for (int k = 0; k < 600 && !strstr(o->log, "no sign of life"); k++) {
                usleep(100000);
                ssize_t got = pread(log, o->log, sizeof o->log - 1, 0);
                o->log[got < 0 ? 0 : got] = 0;
            }
        } else if (WIFSTOPPED(o->last_status)) {
            int said =
                0; /* waits longer than the reconnect limit, and until the servers have named it */
            for (int k = 0; k < 600 && !said; k++) {
                usleep(100000);
                ssize_t got = pread(log, o->log, sizeof o->log - 1, 0);
                o->log[got < 0 ? 0 : got] = 0;
                said = k > 10 && strstr(o->log, "waiting for trainer 1") != NULL;
            }
            kill(p[i].pid, SIGCONT);
            o->last_status = process_wait(&p[i], 0);
        }
        close(p[i].go);
        o->n_started++;
    }
    for (int i = 0; i < t->n_trainers; i++)
        if (i != ODD)
            pthread_join(o->me[i].thread, NULL);
    o->server_rc = cluster_join(&c, &o->server);
    cluster_reconnect_ms = 0;
    if (stopped) { /* it continues, and its place is taken */
        int status = 0;
        kill(stopped, SIGCONT);
        assert_int_equal(waitpid(stopped, &status, 0), stopped);
        assert_int_not_equal(status, 0);
    }
    ssize_t got = pread(log, o->log, sizeof o->log - 1, 0);
    o->log[got < 0 ? 0 : got] = 0;
    close(log);
}

static void assert_contains(const char *text, const char *want) {
    if (!strstr(text, want))
        fail_msg("'%s' does not contain '%s'", text, want);
}

static void all_well(const struct outcome *o) {
    for (int i = 0; i < 3; i++)
        if (i != ODD && (o->me[i].rc || o->me[i].incidents))
            fail_msg("trainer %d, %d incidents: %s", i, (int)o->me[i].incidents, o->me[i].err.msg);
    if (o->server_rc)
        fail_msg("a server: %s", o->server.msg);
}

static void same_model(const struct toy_result *a, const struct toy_result *b) {
    assert_int_equal(a->steps, b->steps);
    assert_memory_equal(a->dense, b->dense, sizeof a->dense);
    assert_memory_equal(a->rows, b->rows, sizeof a->rows);
}

static struct outcome o;
static struct toy_result calm;

/* A process is killed at several places, once or twice. Another process continues in its place, and
 * the result is the same. */
static void test_wait_until_it_is_started_again(void **state) {
    (void)state;
    struct pd_err err = {0};
    static const struct {
        uint64_t step;
        int pushes, processes;
    } row[] = {{0, 0, 2}, {2, 0, 2}, {2, 1, 3}, {4, 1, 2}, {6, 0, 2}, {8, 1, 2}};
    if (toy_run(&base, &calm, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        odd_signal = SIGKILL;
        odd_step = row[i].step;
        odd_pushes = row[i].pushes;
        run(&base, PS_LOST_WAIT, 200, row[i].processes, &o);
        assert_int_equal(o.last_status, 0);
        all_well(&o);
        same_model(&calm, &o.result[0]);
        assert_contains(o.log, "trainer 1 was started again and continues in step");
    }
}

/* A process is killed between its messages about the end of a step to four server threads. Its
 * successor knows that it cannot repeat the step with the same values. */
static void test_a_step_that_was_ended_at_some_servers_only_is_torn(void **state) {
    (void)state;
    const int n_messages = base.n_servers * (base.n_dense + base.n_sparse);
    void *p =
        mmap(NULL, sizeof *torn_seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    torn_seen = p;
    odd_step = 3;
    for (int n = 1; n <= n_messages + 1; n++) {
        /* The last one dies in the next step, of which it has sent nothing. */
        const int torn = n > 1 && n <= n_messages;
        int same = 0;
        /* On a busy machine the earlier messages may not have left the process. */
        for (int tries = 0; tries < 10 && !same; tries++) {
            *torn_seen = 2;
            odd_torn = n;
            run(&base, PS_LOST_WAIT, 200, 2, &o);
            odd_torn = 0;
            assert_int_equal(o.last_status, 0);
            all_well(&o);
            assert_contains(o.log, "trainer 1 was started again and continues in step");
            same = *torn_seen == torn;
            if (!torn)
                assert_true(same);
        }
        if (!same)
            fail_msg("killed before message %d of %d: never torn", n, n_messages);
    }
    torn_seen = NULL;
    munmap(p, sizeof *torn_seen);
}

/* The job continues, as with a trainer whose data ends there. */
static void test_continue_without_it(void **state) {
    (void)state;
    struct pd_err err = {0};
    struct toy t = base;
    t.n_passes = 1;
    t.short_stream = ODD;
    t.short_steps = 2;
    if (toy_run(&t, &calm, &err))
        fail_msg("%s", err.msg);
    t.short_steps = 0;
    t.n_lost = 1;
    for (odd_pushes = 0; odd_pushes < 2; odd_pushes++) {
        odd_signal = SIGKILL;
        odd_step = 2;
        run(&t, PS_LOST_CONTINUE, 200, 1, &o);
        assert_true(WIFSIGNALED(o.last_status));
        all_well(&o);
        same_model(&calm, &o.result[0]);
        assert_contains(o.log,
                        "it did not come back in 0.2 s; its streams 1-1 are left out from here on");
    }
}

/* The same when the trainer itself reports that it cannot continue. */
static int fails_at_2(struct toy_trainer *me, struct ps_client *c, uint64_t step) {
    struct pd_err why = {0};
    if (step != 2)
        return 0;
    (void)me;
    ps_abandon(c, (pd_fail(&why, PD_EDATA, "bad data"), &why));
    return PD_EDATA;
}

static void test_continue_without_one_that_fails(void **state) {
    (void)state;
    static struct toy_result sink[3];
    struct toy t = base;
    struct cluster c;
    struct toy_trainer me[3];
    for (int n_fail = 1; n_fail <= 3; n_fail += 2) { /* one trainer fails; all fail */
        t.n_lost = n_fail;
        cluster_on_lost = PS_LOST_CONTINUE;
        cluster_start(&c, 2, 1, 1, 3, 0, -1);
        cluster_on_lost = PS_LOST_FAIL;
        for (int i = 0; i < 3; i++) {
            me[i] =
                (struct toy_trainer){.t = &t,
                                     .id = i,
                                     .servers = c.list,
                                     .result = &sink[i],
                                     .before_step = i == ODD || n_fail == 3 ? fails_at_2 : NULL};
            pthread_create(&me[i].thread, NULL, toy_main, &me[i]);
        }
        for (int i = 0; i < 3; i++)
            pthread_join(me[i].thread, NULL);
        struct pd_err err = {0};
        int rc = cluster_join(&c, &err);
        assert_int_equal(rc, n_fail == 3 ? PD_EFAIL : 0);
        if (n_fail == 3)
            assert_contains(err.msg, "no trainer is left");
        for (int i = 0; i < 3; i++)
            if (i != ODD && n_fail == 1 && me[i].rc)
                fail_msg("trainer %d: %s", i, me[i].err.msg);
    }
}

/* The same when its gradient is not a number and the job refuses such gradients. The reason is in
 * its log and in the servers' logs. */
static int pushes_nan_at_2(struct toy_trainer *me, struct ps_client *c, uint64_t step) {
    static float nan[TOY_LARGE];
    if (step != 2)
        return 0;
    (void)me;
    nan[7] = NAN;
    int rc = ps_push_dense(c, 2, nan, TOY_LARGE);
    return rc ? rc : ps_step_end(c, 1, NULL, 0);
}

static void test_continue_without_one_that_pushes_nan(void **state) {
    (void)state;
    static struct toy_result sink[3];
    struct toy t = base;
    struct cluster c;
    struct toy_trainer me[3];
    t.n_lost = 1;
    t.reject_nan = 1;
    cluster_on_lost = PS_LOST_CONTINUE;
    cluster_start(&c, 2, 1, 1, 3, 0, -1);
    cluster_on_lost = PS_LOST_FAIL;
    for (int i = 0; i < 3; i++) {
        me[i] = (struct toy_trainer){.t = &t,
                                     .id = i,
                                     .servers = c.list,
                                     .result = &sink[i],
                                     .before_step = i == ODD ? pushes_nan_at_2 : NULL};
        pthread_create(&me[i].thread, NULL, toy_main, &me[i]);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(me[i].thread, NULL);
    struct pd_err err = {0};
    if (cluster_join(&c, &err))
        fail_msg("servers: %s", err.msg);
    for (int i = 0; i < 3; i++)
        if (i != ODD && me[i].rc)
            fail_msg("trainer %d: %s", i, me[i].err.msg);
    assert_int_not_equal(me[ODD].rc, 0);
    assert_contains(me[ODD].err.msg, "is not a finite number (reject_nan)");
}

/* Without heartbeats the job waits for a stopped process, since its host answers. */
static void test_stopped_is_not_lost(void **state) {
    (void)state;
    struct pd_err err = {0};
    if (toy_run(&base, &calm, &err))
        fail_msg("%s", err.msg);
    odd_signal = SIGSTOP;
    odd_step = 3;
    odd_pushes = 1;
    struct toy t = base;
    t.n_lost = 0;
    odd_pushes = 0;
    run(&t, PS_LOST_FAIL, 200, 1, &o);
    assert_int_equal(o.last_status, 0);
    all_well(&o);
    same_model(&calm, &o.result[0]);
    assert_contains(o.log, "waiting for trainer 1 (streams 1-1) in step 3, for");
}

/* With heartbeats the process is lost after the limit, and the policy decides. */
static void test_a_stopped_one_is_lost_when_its_heartbeats_are_missing(void **state) {
    (void)state;
    struct pd_err err = {0};
    if (toy_run(&base, &calm, &err))
        fail_msg("%s", err.msg);
    odd_signal = SIGSTOP;
    odd_step = 3;
    odd_pushes = 0;
    cluster_heartbeat_ms = 2000;
    run(&base, PS_LOST_FAIL, 200, 1, &o);
    assert_int_equal(o.server_rc, PD_EFAIL);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(o.me[i].rc, PD_EFAIL);
        assert_contains(o.me[i].err.msg, "trainer 1 (127.0.0.1:");
        assert_contains(o.me[i].err.msg, ") is gone in step 3: no sign of life for 2 s");
    }
    run(&base, PS_LOST_WAIT, 200, 2, &o);
    assert_int_equal(o.last_status, 0);
    all_well(&o);
    same_model(&calm, &o.result[0]);
    struct toy t = base;
    t.n_lost = 1;
    run(&t, PS_LOST_CONTINUE, 200, 1, &o);
    all_well(&o);
    assert_contains(o.log, "are left out from here on");
    cluster_heartbeat_ms = 0;
}

/* Neither a trainer that computes for longer than the limit is silent, nor a server whose threads
 * are busy for longer. */
static void test_what_is_slow_is_not_silent(void **state) {
    (void)state;
    struct toy t = base;
    struct cluster c;
    struct toy_trainer me[3];
    static struct toy_result result[3];
    t.n_passes = t.steps = 1; /* steps of the trainers: 1, 2 and 3 */
    cluster_heartbeat_ms = 2000;
    for (int slow_server = 0; slow_server < 2; slow_server++) {
        if (slow_server)
            pd_fault_arm("slow.ps.step:3000");
        cluster_start(&c, t.n_servers, t.n_dense, t.n_sparse, t.n_trainers, 0, -1);
        for (int i = 0; i < 3; i++) {
            me[i] = (struct toy_trainer){.t = &t,
                                         .id = i,
                                         .servers = c.list,
                                         .result = &result[i],
                                         .before_step =
                                             i == ODD && !slow_server ? toy_takes_long_at_1 : NULL};
            pthread_create(&me[i].thread, NULL, toy_main, &me[i]);
        }
        for (int i = 0; i < 3; i++)
            pthread_join(me[i].thread, NULL);
        struct pd_err err = {0};
        if (cluster_join(&c, &err))
            fail_msg("a server: %s", err.msg);
        for (int i = 0; i < 3; i++)
            if (me[i].rc)
                fail_msg("trainer %d: %s", i, me[i].err.msg);
        pd_fault_arm(NULL);
    }
    cluster_heartbeat_ms = 0;
}

static void test_fail_names_it(void **state) {
    (void)state;
    odd_signal = SIGKILL;
    odd_step = 2;
    odd_pushes = 1;
    run(&base, PS_LOST_FAIL, 200, 1, &o);
    assert_int_equal(o.server_rc, PD_EFAIL);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(o.me[i].rc, PD_EFAIL);
        assert_contains(o.me[i].err.msg, "trainer 1 (127.0.0.1:");
        assert_contains(o.me[i].err.msg, ") is gone in step 2");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wait_until_it_is_started_again),
        cmocka_unit_test(test_a_step_that_was_ended_at_some_servers_only_is_torn),
        cmocka_unit_test(test_continue_without_it),
        cmocka_unit_test(test_continue_without_one_that_fails),
        cmocka_unit_test(test_continue_without_one_that_pushes_nan),
        cmocka_unit_test(test_stopped_is_not_lost),
        cmocka_unit_test(test_a_stopped_one_is_lost_when_its_heartbeats_are_missing),
        cmocka_unit_test(test_what_is_slow_is_not_silent),
        cmocka_unit_test(test_fail_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
