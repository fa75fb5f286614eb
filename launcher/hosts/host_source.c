/* SPDX-License-Identifier: Apache-2.0 */
/* host_source.c - see host_source.h. */
#include "launcher/hosts/host_source.h"

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

enum { GRACE_NS = 1000000000, PAUSE_NS = 10000000 };

static int too_long(const char *where, const char *command, struct pd_err *err) {
    return pd_fail(err, PD_ECONF, "%s: %.200s did not end within %d s", where, command,
                   HOST_SOURCE_MS / 1000);
}

/* Read until the end of the pipe. The caller ends the command after a failure. */
static int read_all(int fd, uint64_t end, const char *where, const char *command,
                    struct pd_buf *out, struct pd_err *err) {
    uint8_t piece[8192];
    for (;;) {
        uint64_t now = pd_mono_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (now >= end)
            return too_long(where, command, err);
        if (poll(&p, 1, (int)((end - now) / 1000000) + 1) <= 0)
            continue;
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return pd_fail_errno(err, PD_ECONF, errno, "%s: cannot read what %.200s prints", where,
                                 command);
        if (!n)
            return 0;
        pd_put(out, piece, (size_t)n);
        if (out->failed)
            return pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
        if (out->len > HOST_SOURCE_MAX)
            return pd_fail(err, PD_ECONF, "%s: %.200s prints more than %d MB", where, command,
                           HOST_SOURCE_MAX >> 20);
    }
}

static int start(const char *command, int fd[2], pid_t *pid) {
    char sh[] = "/bin/sh", flag[] = "-c";
    char *const argv[] = {sh, flag, (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t pipe_signal; /* paddlectl ignores it; `LIST | head` relies on it */
    if (pipe2(fd, O_CLOEXEC))
        return errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    posix_spawnattr_setsigdefault(&attr, &pipe_signal);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fd[1], STDOUT_FILENO);
    int rc = posix_spawn(pid, sh, &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    pd_close(fd[1]);
    if (rc)
        pd_close(fd[0]);
    return rc;
}

/* Wait for the end of the shell. 0, or -1: it was killed because it did not end in time. */
static int wait_until(pid_t pid, uint64_t end, int *status) {
    int killed = 0;
    pid_t got;
    while ((got = waitpid(pid, status, killed ? 0 : WNOHANG)) != pid) {
        if (got < 0 && errno != EINTR)
            break;
        if (!killed && pd_mono_ns() >= end) {
            kill(pid, SIGKILL);
            killed = 1;
        } else if (!killed) {
            nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
        }
    }
    return -killed;
}

/* The command has the process group of paddlectl: Ctrl-C ends both. */
int host_source_run(const char *command, const char *where, struct pd_buf *out,
                    struct pd_err *err) {
    int fd[2], status = 0, rc;
    pid_t pid;
    int e = start(command, fd, &pid);
    if (e)
        return pd_fail_errno(err, PD_ECONF, e, "%s: cannot start %.200s", where, command);
    uint64_t end = pd_mono_ns() + HOST_SOURCE_MS * 1000000ull;
    rc = read_all(fd[0], end, where, command, out, err);
    pd_close(fd[0]);
    if (rc) {
        kill(pid, SIGTERM);
        end = pd_mono_ns() + GRACE_NS;
    }
    int killed = wait_until(pid, end, &status);
    if (!rc && killed)
        rc = too_long(where, command, err);
    else if (!rc && WIFSIGNALED(status))
        rc = pd_fail(err, PD_ECONF, "%s: %.200s was ended by signal %d", where, command,
                     WTERMSIG(status));
    else if (!rc && WEXITSTATUS(status))
        rc = pd_fail(err, PD_ECONF, "%s: %.200s ended with exit status %d", where, command,
                     WEXITSTATUS(status));
    else if (!rc && out->len && memchr(out->data, 0, out->len))
        rc = pd_fail(err, PD_ECONF, "%s: %.200s does not print text", where, command);
    return rc;
}

/* Blanks in place of comments, so that the lines are one expression. */
static void drop_comments(char *s) {
    int comment = 0;
    for (; *s; s++) {
        comment = *s != '\n' && (comment || *s == '#');
        if (comment)
            *s = ' ';
    }
}

static int read_command(const char *text, size_t n, const char *where, struct pd_buf *out,
                        struct pd_err *err) {
    char *command = strndup(text + 2, n - 3);
    if (!command)
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
    int rc = host_source_run(command, where, out, err);
    pd_put_u8(out, 0);
    if (!rc && out->failed)
        rc = pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
    if (!rc) {
        drop_comments((char *)out->data);
        if (!*pd_trim((char *)out->data))
            rc = pd_fail(err, PD_ECONF, "%s: %.200s prints no hosts", where, command);
    }
    free(command);
    return rc;
}

int host_source_is_launch(const struct pd_options *opts) { return !strcmp(opts->hosts, "mpi"); }

static int read_source(const struct pd_options *opts, const char *where, struct pd_buf *out,
                       struct pd_err *err) {
    const char *text = opts->hosts;
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    size_t n = strlen(text);
    if (pd_starts_with(text, "$(") && text[n - 1] == ')')
        return read_command(text, n, where, out, err);
    if (!strcmp(text, "slurm") && (!nodes || !*nodes))
        return pd_fail(err, PD_ECONF,
                       "%s: hosts = slurm, but SLURM_JOB_NODELIST is not set: run paddlectl in an "
                       "allocation (salloc, sbatch)",
                       where);
    if (host_source_is_launch(opts))
        return pd_fail(err, PD_ECONF,
                       "%s: hosts = mpi: the nodes are those that launch starts, as in launch = "
                       "mpirun --hostfile FILE, and known only then",
                       where);
    pd_put_fmt(out, "%s", strcmp(text, "slurm") ? text : nodes);
    pd_put_u8(out, 0);
    return out->failed ? pd_fail(err, PD_ENOMEM, "%s: out of memory", where) : 0;
}

int host_source_load(struct hosts *out, const struct pd_options *opts, struct pd_err *err) {
    struct pd_buf list = {0};
    int rc =
        read_source(opts, opts->origin[pd_options_find("hosts", PD_LAUNCHER)].where, &list, err);
    if (!rc)
        rc = hosts_load_list(out, opts, (char *)list.data, err);
    pd_buf_release(&list);
    return rc;
}
