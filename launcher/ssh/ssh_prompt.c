/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_prompt.c - see ssh_prompt.h. */
#include "launcher/ssh/ssh_prompt.h"

#include <poll.h>
#include <sodium.h>
#include <spawn.h>
#include <sys/wait.h>
#include <termios.h>

extern char **environ;

static int __attribute__((format(printf, 2, 3)))
no_answer(struct ssh_prompt *p, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->why, sizeof p->why, fmt, ap);
    va_end(ap);
    return -1;
}

/* Reads one line from `fd` into p->answer. -1: p->why has the reason. */
static int read_line(struct ssh_prompt *p, int fd) {
    size_t n = 0;
    for (;;) {
        struct pollfd v[2] = {{.fd = fd, .events = POLLIN}, {.fd = p->cancel_fd, .events = POLLIN}};
        if (poll(v, 2, -1) < 0) { /* no deadline: cancel_fd ends it */
            if (errno == EINTR)
                continue;
            return no_answer(p, "cannot read the answer: %s", strerror(errno));
        }
        if (v[1].revents) {
            p->canceled = 1;
            return no_answer(p, "interrupted");
        }
        if (!v[0].revents)
            continue;
        ssize_t k = read(fd, p->answer + n, sizeof p->answer - n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0 && !n)
            return no_answer(p, "no answer was given");
        char *end = k > 0 ? memchr(p->answer + n, '\n', (size_t)k) : p->answer + n;
        n += k > 0 ? (size_t)k : 0;
        if (end) {
            memset(end, 0, (size_t)(p->answer + sizeof p->answer - end));
            if (end > p->answer && end[-1] == '\r')
                end[-1] = 0;
            return 0;
        }
        if (n == sizeof p->answer)
            return no_answer(p, "the answer is too long");
    }
}

static int ask_on_terminal(struct ssh_prompt *p, int tty) {
    struct termios before, during;
    if (tcgetpgrp(tty) != getpgrp())
        return no_answer(p, "paddlectl is in the background and cannot ask");
    if (tcgetattr(tty, &before))
        return no_answer(p, "cannot use the terminal: %s", strerror(errno));
    during = before;
    during.c_lflag |= ICANON | ISIG;
    if (!p->echo)
        during.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
    tcsetattr(tty, TCSAFLUSH, &during); /* drops what was typed before */
    pd_write_all(tty, p->text, strlen(p->text));
    int rc = read_line(p, tty);
    tcsetattr(tty, TCSADRAIN, &before);
    if (!p->echo || rc)
        pd_write_all(tty, "\n", 1);
    return rc;
}

static int ask_by_program(struct ssh_prompt *p, const char *program) {
    int out[2], status = 0;
    pid_t pid;
    char *argv[] = {(char *)(size_t)program, (char *)(size_t)p->text, NULL};
    posix_spawn_file_actions_t acts;
    if (pipe2(out, O_CLOEXEC))
        return no_answer(p, "cannot run %.100s: %s", program, strerror(errno));
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_adddup2(&acts, out[1], 1);
    int e = posix_spawnp(&pid, program, &acts, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&acts);
    close(out[1]);
    if (e) {
        close(out[0]);
        return no_answer(p, "cannot run %.100s: %s", program, strerror(e));
    }
    int rc = read_line(p, out[0]);
    close(out[0]);
    if (rc)
        kill(pid, SIGTERM);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return rc || !status ? rc : no_answer(p, "%.100s gave no answer", program);
}

static int env_is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

int ssh_prompt_ask(struct ssh_prompt *p) {
    const char *program = getenv("SSH_ASKPASS"), *require = getenv("SSH_ASKPASS_REQUIRE");
    int display = env_is_set("DISPLAY") || env_is_set("WAYLAND_DISPLAY");
    int force = require && !strcmp(require, "force"),
        prefer = require && !strcmp(require, "prefer");
    p->answer[0] = p->why[0] = 0;
    p->canceled = 0;
    if (!program || !*program || (require && !strcmp(require, "never")))
        program = NULL;
    if (program && (force || (prefer && display)))
        return ask_by_program(p, program);
    int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (tty < 0 && program && (display || prefer))
        return ask_by_program(p, program);
    if (tty < 0)
        return no_answer(p, "there is no terminal to ask on");
    int rc = ask_on_terminal(p, tty);
    close(tty);
    if (rc)
        sodium_memzero(p->answer, sizeof p->answer);
    return rc;
}
