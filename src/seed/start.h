/* SPDX-License-Identifier: Apache-2.0 */
/* start.h - the function that start.c calls. */
#pragma once

/* The program with its two arguments; returns the exit status. */
int seed_main(const char *path, const char *marker);
