/* SPDX-License-Identifier: Apache-2.0 */
/* fault_point.h - named points where a test can make a program fail, the same way every time.
 *
 * At start a program arms them from PADDLE_FAULT="name:count[,name:count]" (pd_fault_arm):
 *
 *     alloc:7         the 7th pd_malloc, pd_realloc or pd_calloc fails
 *     save.write:2    the 2nd pd_fault("save.write") returns 1
 *     kill.NAME:n     the n-th pd_fault("NAME") ends the process with SIGKILL
 *     slow.NAME:n     every pd_fault("NAME") sleeps n milliseconds
 *
 * An unarmed point costs one load. */
#pragma once

/* NULL or "" disarms. For the start of a program and for tests, also while threads run. */
void pd_fault_arm(const char *spec);
int pd_fault(const char *name); /* 1: the caller must fail here as if the operation had failed */
