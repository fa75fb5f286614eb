/* ssh_prompt.h - one question to the person at the terminal. Blocks: called by a thread of its own.
 *
 * /dev/tty with echo off; when there is none, the program that SSH_ASKPASS names, by the rules of
 * ssh(1) (DISPLAY or WAYLAND_DISPLAY must be set, or SSH_ASKPASS_REQUIRE says force or prefer;
 * never forbids it). */
#ifndef LAUNCHER_SSH_PROMPT_H
#define LAUNCHER_SSH_PROMPT_H

#include <stddef.h>

enum { SSH_ANSWER_MAX = 1024 };

struct ssh_prompt {
    const char *text;
    int echo;
    int cancel_fd;               /* readable or closed: the question is withdrawn */
    char answer[SSH_ANSWER_MAX]; /* a line, without its end; the caller wipes it */
    int canceled;
    char why[200]; /* there is no answer */
};

int ssh_prompt_ask(struct ssh_prompt *p); /* 0 or -1; the terminal is as it was before */

#endif
