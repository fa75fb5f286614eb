/* SPDX-License-Identifier: Apache-2.0 */
/* job_on_end.c - the command on_end, which runs once after a job has ended, on this machine. It has
 * a process group of its own and a time limit; whatever it does, the job's exit status stays. */
#include <spawn.h>
#include <sys/wait.h>

#include "base/json_text.h"
#include "launcher/job/job_internal.h"

extern char **environ;

enum { KILL_AFTER_MS = 2000, PAUSE_NS = 20000000, TEXT_MAX = 4000 };

static int set_text(const char *name, const char *value) { return setenv(name, value, 1); }

static int set_number(const char *name, double value) {
    char text[40];
    snprintf(text, sizeof text, "%.9g", value);
    return set_text(name, text);
}

/* NAME, NAME_VALUE, NAME_PASS of an event "test"; empty if there is none. */
static int set_test(const char *name, const json_t *test) {
    const char *by = json_string_value(json_object_get(test, "by"));
    const json_t *value = json_object_get(test, "value"), *pass = json_object_get(test, "pass");
    char key[60];
    int bad = set_text(name, by ? by : "");
    snprintf(key, sizeof key, "%s_VALUE", name);
    bad |= json_is_number(value) ? set_number(key, json_number_value(value)) : set_text(key, "");
    snprintf(key, sizeof key, "%s_PASS", name);
    return bad | (json_is_integer(pass) ? set_number(key, json_number_value(pass) + 1)
                                        : set_text(key, ""));
}

/* "trainer 2 on gpu-02: exit status 7"; "": nothing has failed. */
static void failure_text(const json_t *f, char *out, size_t cap) {
    const json_int_t sig = json_integer_value(json_object_get(f, "signal"));
    const char *reason = pd_json_text(f, "reason");
    *out = 0;
    if (json_is_object(f) && *reason)
        snprintf(out, cap, "%s %lld on %s: %s", pd_json_text(f, "role"),
                 (long long)json_integer_value(json_object_get(f, "rank")), pd_json_text(f, "host"),
                 reason);
    else if (json_is_object(f))
        snprintf(out, cap, "%s %lld on %s: %s %lld", pd_json_text(f, "role"),
                 (long long)json_integer_value(json_object_get(f, "rank")), pd_json_text(f, "host"),
                 sig ? "signal" : "exit status",
                 (long long)(sig ? sig : json_integer_value(json_object_get(f, "exit_code"))));
    pd_make_printable(out);
}

/* docs/records.md names these. The environment of paddlectl itself is changed, as it ends now. */
static int set_environment(const struct job *j, int status, const char *state) {
    char text[TEXT_MAX];
    char *metrics = json_dumps(json_object_get(j->test, "metrics"), JSON_COMPACT);
    failure_text(j->failure, text, sizeof text);
    int bad = set_text("PADDLE_JOB_ID", j->id) | set_text("PADDLE_JOB_NAME", j->opts->job_name) |
              set_text("PADDLE_JOB_STATE", state) | set_number("PADDLE_JOB_EXIT_STATUS", status) |
              set_number("PADDLE_JOB_SECONDS", (double)j->took_ms / 1000) |
              set_text("PADDLE_JOB_OUTPUT", j->out.dir) | set_text("PADDLE_JOB_FAILURE", text) |
              set_text("PADDLE_JOB_METRICS", metrics ? metrics : "{}") |
              set_test("PADDLE_JOB_TEST", j->test) | set_test("PADDLE_JOB_BEST", j->best);
    free(metrics);
    return bad;
}

/* In a process group of its own, with the default signals; its output is on stderr, because stdout
 * may have JSON. */
static int start(const char *command, pid_t *pid) {
    const char *const argv[] = {"/bin/sh", "-c", command, NULL};
    posix_spawn_file_actions_t acts;
    posix_spawnattr_t attr;
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    sigaddset(&standard, SIGTTIN);
    sigaddset(&standard, SIGTTOU);
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_addopen(&acts, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&acts, STDERR_FILENO, 1);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &standard);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETSIGDEF);
    const int e = posix_spawn(pid, argv[0], &acts, &attr, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&acts);
    return e;
}

static volatile sig_atomic_t signal_taken; /* that wants paddlectl to end */

static void on_signal(int signum) { signal_taken = signum; }

/* For all threads of paddlectl. SIGHUP stays ignored under nohup. */
static void take_signals(struct sigaction before[3], int take) {
    static const int signums[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction ours = {.sa_handler = on_signal};
    for (size_t i = 0; i < sizeof signums / sizeof signums[0]; i++)
        if (!take)
            sigaction(signums[i], &before[i], NULL);
        else if (!sigaction(signums[i], NULL, &before[i]) && before[i].sa_handler != SIG_IGN)
            sigaction(signums[i], &ours, NULL);
}

static int has_ended(pid_t pid, int *exit_status) {
    const pid_t got = waitpid(pid, exit_status, WNOHANG);
    return got == pid || (got < 0 && errno != EINTR);
}

/* Waits for the command until the time limit, or a signal. 1: it has ended. */
static int wait_for(pid_t pid, uint64_t limit_ms, int *exit_status) {
    const uint64_t end = pd_mono_ns() / 1000000 + limit_ms;
    while (!has_ended(pid, exit_status)) {
        if (signal_taken || pd_mono_ns() / 1000000 >= end)
            return 0;
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
    return 1;
}

/* TERM, then KILL, to all of its process group. */
static void end_group(pid_t pid) {
    const uint64_t end = pd_mono_ns() / 1000000 + KILL_AFTER_MS;
    int exit_status, leader_ended = 0;
    kill(-pid, SIGTERM);
    while (pd_mono_ns() / 1000000 < end && !kill(-pid, 0)) {
        leader_ended = leader_ended || has_ended(pid, &exit_status);
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
    kill(-pid, SIGKILL);
    if (!leader_ended)
        waitpid(pid, &exit_status, 0);
}

void job_on_end(struct job *j, int status, const char *state) {
    const char *command = j->opts->on_end;
    struct sigaction before[3];
    pid_t pid;
    int exit_status = 0;
    if (!*command)
        return;
    signal_taken = 0;
    take_signals(before, 1);
    if (set_environment(j, status, state) || start(command, &pid)) {
        dprintf(STDERR_FILENO, "paddlectl: warning: on_end cannot be started\n");
    } else if (!wait_for(pid, (uint64_t)(j->opts->on_end_timeout * 1000), &exit_status)) {
        const int by_signal = signal_taken != 0;
        end_group(pid);
        if (by_signal)
            dprintf(STDERR_FILENO, "paddlectl: warning: on_end was ended by a signal\n");
        else
            dprintf(STDERR_FILENO,
                    "paddlectl: warning: on_end was ended after %g s (on_end_timeout)\n",
                    j->opts->on_end_timeout);
    } else if (!WIFEXITED(exit_status) || WEXITSTATUS(exit_status)) {
        dprintf(STDERR_FILENO, "paddlectl: warning: on_end has failed with status %d\n",
                WIFEXITED(exit_status) ? WEXITSTATUS(exit_status) : 128 + WTERMSIG(exit_status));
    }
    take_signals(before, 0);
}
