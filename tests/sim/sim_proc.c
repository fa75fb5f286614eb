/* SPDX-License-Identifier: Apache-2.0 */
/* sim_proc.c - the processes that agents start: what fork, signals, waitpid and a listening port
 * do.
 *
 * All trainers of an attempt run together: they end with 0 after their work if all of their peers
 * are there and can be reached; otherwise they wait. When a process ends before that, its peers
 * notice it and fail, or notice nothing and wait. Our pservers end after the last trainer; a user's
 * pserver waits for TERM. */
#include <sys/wait.h>

#include "agent/core/roles.h"
#include "agent/process/proc.h"
#include "tests/sim/sim.h"

enum { FIRST_PID = 1000, DRAIN_MS = 200, TRY_MS = 500, LATE_MS = 3000 };

struct process {
    struct process *next;
    struct proc *p; /* NULL: a child that a user's program has left behind */
    int machine, pid, role, rank, attempt, n_trainers, n_pservers, port, users;
    int alive, zombie, status;
    int listens, begun, done; /* done: it has ended with 0, after its work */
    int stopped, deaf, term, lines;
    char from[80]; /* why it fails: the event that it sends */
    int final;
};

struct proc {
    struct proc *next;
    struct process *x;
    struct actor *a;
    struct proc_events ev;
    void *arg;
    uint64_t exit_us;
    int reaped, reported, closing, eof;
    void (*closed)(void *);
    void *closed_arg;
};

static struct process *processes;
static struct proc *procs;
static int last_pid;

static int peers(const struct process *x, const struct process *y) {
    return x != y && x->p && y->p && x->attempt == y->attempt;
}

int sim_proc_running(int machine) {
    int n = 0;
    for (const struct process *x = processes; x; x = x->next)
        n += x->alive && (machine < 0 || x->machine == machine);
    return n;
}

int sim_proc_trains(void) {
    int runs = 0;
    for (const struct process *x = processes; x; x = x->next)
        if (x->p && x->role == ROLE_TRAINER) {
            if (x->done)
                return 0;
            runs |= x->alive;
        }
    return runs;
}

int sim_port_answers(int machine, int port);
int sim_port_answers(int machine, int port) {
    for (const struct process *x = processes; x; x = x->next)
        if (x->alive && x->machine == machine && x->port == port && x->listens && !x->stopped)
            return 1;
    return 0;
}

/* --- output --- */

struct text {
    struct proc *p;
    int is_event;
    char s[200];
};

static void on_text(void *arg) {
    const struct text *t = arg;
    if (t->p->closing)
        return;
    (t->is_event ? t->p->ev.on_event : t->p->ev.on_output)(t->p, t->s, strlen(t->s), t->p->arg);
}

static void write_text(struct process *x, int is_event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void write_text(struct process *x, int is_event, const char *fmt, ...) {
    struct text *t = calloc(1, sizeof *t);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->s, sizeof t->s, fmt, ap);
    va_end(ap);
    t->p = x->p;
    t->is_event = is_event;
    sim_after_once(x->p->a, 0, on_text, t);
}

static void write_line(struct process *x) {
    if (x->p)
        write_text(x, 0, "P%d %d of %s %d\n", x->pid, x->lines++, role_names[x->role], x->rank);
}

static void write_pass(struct process *x) {
    if (!S.m[x->machine].agent || S.m[x->machine].agent->dead)
        return;
    write_text(x, 1, "{\"ev\":\"saved\",\"path\":\"output/pass-%05d\"}\n", S.n_passes_sent++);
}

/* --- ends --- */

static int held_open(const struct process *x) { /* a child of it holds its pipes */
    for (const struct process *y = processes; y; y = y->next)
        if (y->alive && !y->p && y->machine == x->machine)
            return 1;
    return 0;
}

static void note_peers(struct process *x);

static void die(struct process *x, int status) {
    if (!x->alive)
        return;
    sim_trace("process %d on node %d (%s %d of attempt %d) ends: %s %d", x->pid, x->machine,
              x->p ? role_names[x->role] : "a child", x->rank, x->attempt,
              WIFSIGNALED(status) ? "signal" : "status",
              WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    x->alive = x->listens = 0;
    x->zombie = 1;
    x->status = status;
    S.n_ended++;
    if (x->p && *x->from)
        write_text(x, 1, "{\"ev\":\"failed\",\"from\":\"%s\",\"final\":%s,\"text\":\"lost\"}\n",
                   *x->from == '-' ? "" : x->from, x->final ? "true" : "false");
    write_line(x);
    if (S.m[x->machine].agent)
        sim_signal(S.m[x->machine].agent, SIGCHLD);
    if (x->p && !x->done)
        note_peers(x);
}

static int exit_status(int code) { return code << 8; }

/* A user's shell may leave a child that does not hear TERM at once. */
static void leave_child(const struct process *x) {
    struct process *y = calloc(1, sizeof *y);
    *y = (struct process){.next = processes,
                          .machine = x->machine,
                          .pid = ++last_pid,
                          .alive = 1,
                          .attempt = x->attempt,
                          .users = 1,
                          .deaf = sim_chance(50)};
    processes = y;
    S.n_started++;
}

static void on_notice(void *arg) {
    struct process *x = arg;
    if (x->alive && !x->stopped && !x->term)
        die(x, exit_status(1));
    else
        *x->from = 0;
}

static void fail_because_of(struct process *x, const struct process *other, uint64_t ms) {
    if (x->users) /* it cannot say why it ends */
        sim_cause(x->machine, x->role, x->rank);
    else if (!*x->from)
        snprintf(x->from, sizeof x->from, "%s %d on host-%d", role_names[other->role], other->rank,
                 other->machine);
    sim_after(NULL, ms * MS, on_notice, x);
}

static void note_peers(struct process *x) {
    if (x->role == ROLE_TRAINER && S.plan.wait_for_trainer && !x->users)
        return;
    for (struct process *y = processes; y; y = y->next)
        if (y->alive && peers(x, y) && sim_reaches(x->machine, y->machine) &&
            (x->role == ROLE_TRAINER || y->role == ROLE_TRAINER) && sim_chance(60))
            fail_because_of(y, x, sim_between(20, 3000));
}

void sim_proc_network(int machine) {
    for (struct process *x = processes; x; x = x->next)
        for (struct process *y = processes; y; y = y->next)
            if (x->alive && y->alive && peers(x, y) && x->machine == machine &&
                !sim_reaches(x->machine, y->machine) && sim_chance(30)) {
                const int near = sim_chance(50);
                sim_cause(x->machine, x->role, x->rank);
                sim_cause(y->machine, y->role, y->rank);
                fail_because_of(near ? x : y, near ? y : x, sim_between(1, 4000));
                return;
            }
}

/* --- life --- */

static void on_done(void *arg);

static int all_there(const struct process *x) {
    int n[SIM_ROLES] = {0};
    for (const struct process *y = processes; y; y = y->next)
        if (y->p && y->attempt == x->attempt && (y->alive || y->done) && !y->stopped &&
            (y == x ||
             (sim_reaches(x->machine, y->machine) && sim_reaches(y->machine, x->machine))))
            n[y->role]++;
    return n[ROLE_PSERVER] >= x->n_pservers && n[ROLE_TRAINER] >= x->n_trainers;
}

static int trainers_done(const struct process *x) {
    int n = 0;
    for (const struct process *y = processes; y; y = y->next)
        n += y->p && y->attempt == x->attempt && y->role == ROLE_TRAINER && y->done;
    return x->n_trainers && n >= x->n_trainers;
}

static void on_done(void *arg) {
    struct process *x = arg;
    if (!x->alive || x->term)
        return;
    if (x->role == ROLE_PSERVER ? !trainers_done(x) || x->stopped : !all_there(x)) {
        sim_after(NULL, TRY_MS * MS, on_done, x);
        return;
    }
    if (x->role == ROLE_TRAINER && x->rank == 0)
        write_pass(x);
    x->done = 1;
    die(x, 0);
}

static void on_progress(void *arg) {
    struct process *x = arg;
    if (!x->alive || x->stopped)
        return;
    if (all_there(x)) {
        write_text(x, 1, "{\"ev\":\"progress\"}\n");
        if (x->rank == 0)
            write_pass(x);
    }
    write_line(x);
    sim_after(NULL, sim_between(300, 2000) * MS, on_progress, x);
}

static void on_listens(void *arg) {
    struct process *x = arg;
    x->listens = x->alive;
    if (!x->users)
        sim_after(NULL, TRY_MS * MS, on_done, x);
}

static void begin(struct process *x) {
    write_line(x);
    if (x->role == ROLE_PSERVER) {
        sim_after(NULL, sim_between(5, 900) * MS, on_listens, x);
        return;
    }
    sim_after(NULL, sim_between(100, 500) * MS, on_progress, x);
    sim_after(NULL, sim_between(S.plan.work_ms / 2, S.plan.work_ms) * MS, on_done, x);
}

/* --- signals --- */

struct signal_to {
    struct process *x;
    int status;
};
static void on_signal_end(void *arg) {
    const struct signal_to *t = arg;
    if (!t->x->stopped || t->status == SIGKILL)
        die(t->x, t->status);
}

static void end_in(struct process *x, int status, uint64_t ms) {
    struct signal_to *t = malloc(sizeof *t);
    *t = (struct signal_to){x, status};
    sim_after_once(NULL, ms * MS, on_signal_end, t);
}

static void take_term(struct process *x) {
    if (x->deaf || x->stopped)
        return;
    if (x->users && x->p && sim_chance(15))
        leave_child(x);
    end_in(x, x->users ? SIGTERM : exit_status(143),
           sim_chance(80) ? sim_below(200) : sim_below(2500));
}

static void on_saved(void *arg) {
    struct process *x = arg;
    if (!x->alive || x->term)
        return;
    if (!all_there(x) && !trainers_done(x)) {
        sim_after(NULL, TRY_MS * MS, on_saved, x);
        return;
    }
    if (x->rank == 0)
        write_pass(x);
    x->done = 1;
    die(x, 0);
}

static void take_signal(struct process *x, int sig) {
    if (sig == SIGKILL) {
        end_in(x, SIGKILL, sim_below(3));
    } else if (sig == SIGTERM) {
        const int first = !x->term;
        x->term = 1;
        if (first)
            take_term(x);
    } else if (sig == SIGCONT && x->stopped) {
        x->stopped = 0;
        if (x->term)
            take_term(x);
    } else if (sig == SIGUSR1 && x->role == ROLE_TRAINER) {
        sim_after(NULL, sim_between(50, 2000) * MS, on_saved, x);
    }
}

static struct process *find(int machine, int pid) {
    for (struct process *x = processes; x; x = x->next)
        if (x->machine == machine && x->pid == pid && (x->alive || x->zombie))
            return x;
    return NULL;
}

int __wrap_kill(pid_t pid, int sig);
int __wrap_kill(pid_t pid, int sig) {
    struct process *x = find(S.here->machine, pid < 0 ? -pid : pid);
    if (!x)
        sim_fail("signal %d to process %d, which is reaped or another machine's", sig, (int)pid);
    if (x->alive)
        take_signal(x, sig);
    return 0;
}
int __wrap_process_tree_signal_below(pid_t top, pid_t spare, int sig);
int __wrap_process_tree_signal_below(pid_t top, pid_t spare, int sig) {
    int n = 0;
    (void)top;
    for (struct process *x = processes; x; x = x->next)
        if (x->alive && x->machine == S.here->machine && x->pid != spare) {
            take_signal(x, sig);
            n++;
        }
    return n;
}
int __wrap_process_tree_stopped(pid_t pid);
int __wrap_process_tree_stopped(pid_t pid) {
    const struct process *x = find(S.here->machine, pid);
    return x && x->alive && x->stopped;
}

int __wrap_waitid(idtype_t which, id_t id, siginfo_t *si, int how);
int __wrap_waitid(idtype_t which, id_t id, siginfo_t *si, int how) {
    int any = 0;
    (void)which;
    (void)id;
    (void)how;
    si->si_pid = 0;
    for (const struct process *x = processes; x; x = x->next) {
        if (x->machine != S.here->machine || !(x->alive || x->zombie))
            continue;
        any = 1;
        if (x->zombie && (!si->si_pid || sim_chance(50)))
            si->si_pid = x->pid;
    }
    if (any)
        return 0;
    errno = ECHILD;
    return -1;
}
pid_t __real_waitpid(pid_t pid, int *status, int how);
pid_t __wrap_waitpid(pid_t pid, int *status, int how);
pid_t __wrap_waitpid(pid_t pid, int *status, int how) {
    if (!S.here)
        return __real_waitpid(pid, status, how);
    struct process *x = find(S.here->machine, pid);
    if (!x || !x->zombie)
        return 0;
    x->zombie = 0;
    *status = x->status;
    return pid;
}

/* --- agent/process/proc.h --- */

static const char *env_value(char *const *env, const char *name) {
    const size_t n = strlen(name);
    for (; *env; env++)
        if (!strncmp(*env, name, n) && (*env)[n] == '=')
            return *env + n + 1;
    return "";
}

static int number(char *const *env, const char *name) {
    return (int)strtol(env_value(env, name), NULL, 10);
}

/* A process of an earlier attempt has ended before the new one starts, on the same node always. A
 * node that is cut off, or whose agent is stopped, may be late: the number of the attempt keeps
 * its processes out. They end with its lease, which begins when the agent goes on. */
static void on_late(void *arg) {
    const struct process *x = arg;
    const struct actor *a = S.m[x->machine].agent;
    const uint64_t lease_ms = (uint64_t)(S.plan.attach_lease * 1000);
    if (x->alive && !(a && a->stopped && a->stopped + (LATE_MS + lease_ms) * MS > S.now) &&
        !S.m[x->machine].down)
        sim_fail("process %d, %s %d of attempt %d on node %d, runs beside a later attempt", x->pid,
                 role_names[x->role], x->rank, x->attempt, x->machine);
}
static void check_alone(const struct process *x) {
    for (struct process *y = processes; y; y = y->next) {
        if (!y->alive || !y->p || y->role != x->role || y->rank != x->rank)
            continue;
        if (y->machine == x->machine || y->attempt == x->attempt)
            sim_fail("%s %d of attempt %d starts on node %d, and runs on node %d as process %d",
                     role_names[x->role], x->rank, x->attempt, x->machine, y->machine, y->pid);
        sim_after(NULL, (LATE_MS + (uint64_t)(S.plan.detach_lease * 1000)) * MS, on_late, y);
    }
}

int __wrap_proc_start(struct proc **out, uv_loop_t *loop, const struct proc_command *cmd,
                      const struct proc_events *ev, void *arg, struct pd_err *err);
int __wrap_proc_start(struct proc **out, uv_loop_t *loop, const struct proc_command *cmd,
                      const struct proc_events *ev, void *arg, struct pd_err *err) {
    struct actor *a = loop->data;
    struct machine *m = &S.m[a->machine];
    if (m->no_exec) {
        m->no_exec--;
        return pd_fail(err, PD_EHOST, "cannot run %s (simulated)", cmd->path);
    }
    struct process *x = calloc(1, sizeof *x);
    struct proc *p = *out = calloc(1, sizeof *p);
    *x = (struct process){.next = processes,
                          .p = p,
                          .machine = a->machine,
                          .pid = ++last_pid,
                          .role = !strcmp(env_value(cmd->envp, "TRAINING_ROLE"), "TRAINER"),
                          .rank = number(cmd->envp, "PADDLE_TRAINER_ID"),
                          .attempt = number(cmd->envp, "PADDLE_RESTART_COUNT"),
                          .n_trainers = number(cmd->envp, "PADDLE_TRAINERS_NUM"),
                          .port = number(cmd->envp, "PADDLE_PORT"),
                          .users = !strcmp(cmd->argv[0], "sh"),
                          .alive = 1};
    const char *list = env_value(cmd->envp, "PADDLE_PSERVERS_IP_PORT_LIST");
    x->n_pservers = *list != 0;
    while ((list = strchr(list, ',')))
        list++, x->n_pservers++;
    *p = (struct proc){.next = procs, .x = x, .a = a, .ev = *ev, .arg = arg};
    procs = p;
    sim_trace("%s %d of attempt %d starts as process %d", role_names[x->role], x->rank, x->attempt,
              x->pid);
    check_alone(x);
    processes = x;
    S.n_started++;
    sim_alive(a, 1);
    begin(x);
    return 0;
}
pid_t __wrap_proc_pid(const struct proc *p);
pid_t __wrap_proc_pid(const struct proc *p) { return p->reaped ? 0 : p->x->pid; }
uint64_t __wrap_proc_exit_us(const struct proc *p);
uint64_t __wrap_proc_exit_us(const struct proc *p) { return p->exit_us; }
int __wrap_proc_drained(const struct proc *p);
int __wrap_proc_drained(const struct proc *p) {
    return !p->x->alive && p->reported && !held_open(p->x);
}

static void on_report(void *arg) {
    struct proc *p = arg;
    const int st = p->x->status;
    if (p->closing || p->reported)
        return;
    p->reported = 1;
    p->ev.on_exit(p, WIFEXITED(st) ? WEXITSTATUS(st) : -1, WIFSIGNALED(st) ? WTERMSIG(st) : 0,
                  p->arg);
}
int __wrap_proc_reaped(struct proc *p, pid_t pid, int status, uint64_t wall_us);
int __wrap_proc_reaped(struct proc *p, pid_t pid, int status, uint64_t wall_us) {
    (void)status;
    if (p->reaped || pid != p->x->pid)
        return 0;
    p->reaped = 1;
    p->exit_us = wall_us;
    sim_after(p->a, (held_open(p->x) ? DRAIN_MS : sim_below(3)) * MS, on_report, p);
    return 1;
}
static void on_proc_closed(void *arg) {
    struct proc *p = arg;
    if (p->closed)
        p->closed(p->closed_arg);
    sim_alive(p->a, -1);
}
void __wrap_proc_close(struct proc *p, void (*closed)(void *), void *arg);
void __wrap_proc_close(struct proc *p, void (*closed)(void *), void *arg) {
    if (p->x->alive && !p->a->dead)
        sim_fail("process %d still runs, and its agent forgets it", p->x->pid);
    p->closing = 1;
    p->closed = closed;
    p->closed_arg = arg;
    sim_after(p->a, 0, on_proc_closed, p);
}

/* --- faults --- */

void sim_proc_harm(enum harm h) {
    struct process *chosen = NULL;
    unsigned n = 0;
    for (struct process *x = processes; x; x = x->next)
        if (x->alive && x->p && !x->term && !x->stopped && !*x->from &&
            (h != HARM_EXIT0 || (x->role == ROLE_PSERVER && x->users)) && !sim_below(++n))
            chosen = x;
    if (!chosen)
        return;
    struct process *x = chosen;
    sim_trace("fault: %s %d of attempt %d on node %d is harmed (%d)", role_names[x->role], x->rank,
              x->attempt, x->machine, (int)h);
    S.is_final |= h == HARM_FINAL || h == HARM_EXIT0 || trainers_done(x);
    if (h != HARM_DEAF)
        sim_cause(x->machine, x->role, x->rank);
    if (h == HARM_STOP)
        x->stopped = 1;
    if (h == HARM_DEAF)
        x->deaf = 1;
    if (h == HARM_FINAL) {
        x->from[0] = '-';
        x->final = 1;
    }
    if (h == HARM_KILL || h == HARM_SEGV)
        die(x, h == HARM_KILL ? SIGKILL : SIGSEGV);
    if (h == HARM_EXIT1 || h == HARM_FINAL)
        die(x, exit_status(1));
    if (h == HARM_EXIT0)
        die(x, 0);
}

void sim_proc_kill_all(int machine) {
    for (struct process *x = processes; x; x = x->next)
        if (x->machine == machine)
            die(x, SIGKILL);
}

void sim_proc_reset(void) {
    while (processes) {
        struct process *x = processes;
        processes = x->next;
        free(x);
    }
    while (procs) {
        struct proc *p = procs;
        procs = p->next;
        free(p);
    }
    last_pid = FIRST_PID;
}
