/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_prompt.h - one question to the user. The call blocks, so a thread of its own makes it.
 *
 * The question goes to /dev/tty, with echo off. Without a terminal, the program that SSH_ASKPASS
 * names asks, by the rules of ssh(1): DISPLAY or WAYLAND_DISPLAY must be set, or
 * SSH_ASKPASS_REQUIRE is `force` or `prefer`; `never` forbids it. */
#pragma once

enum { SSH_ANSWER_MAX = 1024 };

struct ssh_prompt {
    const char *text;
    int echo;
    int cancel_fd;               /* readable or closed: the question is canceled */
    char answer[SSH_ANSWER_MAX]; /* a line without its newline; the caller wipes it */
    int canceled;
    char why[200]; /* why there is no answer */
};

int ssh_prompt_ask(struct ssh_prompt *p); /* 0, or -1 with `why`; restores the terminal */
