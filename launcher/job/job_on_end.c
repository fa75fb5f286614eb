/* SPDX-License-Identifier: Apache-2.0 */
/* job_on_end.c - the command on_end, which runs once after a job has ended, on this machine. It has
 * a process group of its own and a time limit; whatever it does, the job's exit status stays. */
#include <spawn.h>
#include <sys/wait.h>

#include "launcher/job/job_internal.h"

extern char **environ;

enum { KILL_AFTER_MS = 2000, TEXT_MAX = 4000 };

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

static const char *member(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* "trainer 2 on gpu-02: exit status 7"; "": nothing has failed. */
static void failure_text(const json_t *f, char *out, size_t cap) {
    const json_int_t sig = json_integer_value(json_object_get(f, "signal"));
    const char *reason = member(f, "reason");
    *out = 0;
    if (json_is_object(f) && *reason)
        snprintf(out, cap, "%s %lld on %s: %s", member(f, "role"),
                 (long long)json_integer_value(json_object_get(f, "rank")), member(f, "host"),
                 reason);
    else if (json_is_object(f))
        snprintf(out, cap, "%s %lld on %s: %s %lld", member(f, "role"),
                 (long long)json_integer_value(json_object_get(f, "rank")), member(f, "host"),
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

/* Waits for the command until the time limit, or a signal that wants paddlectl to end. 1: it has
 * ended, with *status. */
static int wait_for(pid_t pid, uint64_t limit_ms, const sigset_t *set, int *status, int *signum) {
    const uint64_t end = pd_mono_ns() / 1000000 + limit_ms;
    for (;;) {
        const pid_t ended = waitpid(pid, status, WNOHANG);
        const uint64_t now = pd_mono_ns() / 1000000;
        if (ended == pid || (ended < 0 && errno != EINTR))
            return 1;
        if (now >= end)
            return 0;
        const uint64_t left = end - now;
        const struct timespec t = {(time_t)(left / 1000), (long)(left % 1000) * 1000000};
        const int got = sigtimedwait(set, NULL, &t);
        if (got > 0 && got != SIGCHLD) {
            *signum = got;
            return 0;
        }
    }
}

void job_on_end(struct job *j, int status, const char *state) {
    const char *command = j->opts->on_end;
    const uint64_t limit_ms = (uint64_t)(j->opts->on_end_timeout * 1000);
    sigset_t set, before;
    pid_t pid;
    int said = 0, signum = 0, e;
    if (!*command)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &before);
    if (set_environment(j, status, state) || (e = start(command, &pid))) {
        dprintf(STDERR_FILENO, "paddlectl: warning: on_end cannot be started\n");
    } else if (!wait_for(pid, limit_ms, &set, &said, &signum)) {
        kill(-pid, SIGTERM);
        if (!wait_for(pid, KILL_AFTER_MS, &set, &said, &signum)) {
            kill(-pid, SIGKILL);
            waitpid(pid, &said, 0);
        }
        if (signum)
            dprintf(STDERR_FILENO, "paddlectl: warning: on_end was ended by a signal\n");
        else
            dprintf(STDERR_FILENO,
                    "paddlectl: warning: on_end was ended after %g s (on_end_timeout)\n",
                    j->opts->on_end_timeout);
    } else if (!WIFEXITED(said) || WEXITSTATUS(said)) {
        dprintf(STDERR_FILENO, "paddlectl: warning: on_end has failed with status %d\n",
                WIFEXITED(said) ? WEXITSTATUS(said) : 128 + WTERMSIG(said));
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}
