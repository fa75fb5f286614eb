/* SPDX-License-Identifier: Apache-2.0 */
/* run_later.h - work that nobody needs to wait for, such as freeing much memory or slow system
 * calls. */
#pragma once

/* Run f(arg) soon in a detached thread with all signals blocked; if no thread can be started, run
 * it at once in the caller. The process may end before f runs. Not for children of fork. */
void pd_run_later(void (*f)(void *arg), void *arg);
