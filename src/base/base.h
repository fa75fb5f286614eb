/* SPDX-License-Identifier: Apache-2.0 */
/* base.h - what every source file has: the common headers of libc, the ban of some of its
 * functions, and memory, errors, buffers, texts, files, logs and clocks of this project.
 *
 * The Makefile includes it before every source file. A file includes only what it needs beyond. */
#pragma once
#include <alloca.h>
#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/str.h"
#include "base/buf.h"
#include "base/fs.h"

/* --- functions of libc that this project does not call --- */

/* A call does not compile; the error names the replacement. The headers above declare the functions
 * before these macros, which therefore affect only calls. */

/* They write without a bound, or may leave a string unterminated. */
#define strcpy(...) strcpy_is_banned_call_pd_fmt
#define stpcpy(...) stpcpy_is_banned_call_pd_fmt
#define strcat(...) strcat_is_banned_call_pd_fmt
#define strncpy(...) strncpy_is_banned_call_pd_fmt
#define strncat(...) strncat_is_banned_call_pd_fmt
#define sprintf(...) sprintf_is_banned_call_pd_fmt
#define vsprintf(...) vsprintf_is_banned_call_vsnprintf
#define gets(...) gets_is_banned_call_fgets
#undef alloca
#define alloca(...) alloca_is_banned_call_pd_malloc

/* Their result is shared by all threads. */
#define strtok(...) strtok_is_banned_call_strtok_r
#define gmtime(...) gmtime_is_banned_call_gmtime_r
#define localtime(...) localtime_is_banned_call_localtime_r
#define ctime(...) ctime_is_banned_call_strftime
#define asctime(...) asctime_is_banned_call_strftime

/* They report no error. */
#define atoi(...) atoi_is_banned_call_pd_parse_i64
#define atol(...) atol_is_banned_call_pd_parse_i64
#define atoll(...) atoll_is_banned_call_pd_parse_i64
#define atof(...) atof_is_banned_call_pd_parse_f64

/* Their numbers differ between systems, and all threads share their state. */
#define rand(...) rand_is_banned_call_pd_rng_below
#define srand(...) srand_is_banned_call_pd_rng_below
#define random(...) random_is_banned_call_pd_rng_below
#define srandom(...) srandom_is_banned_call_pd_rng_below
#define drand48(...) drand48_is_banned_call_pd_rng_below

/* Another process can create the name first. */
#define tmpnam(...) tmpnam_is_banned_call_mkstemp
#define tempnam(...) tempnam_is_banned_call_mkstemp
#define mktemp(...) mktemp_is_banned_call_mkdtemp

/* Programs start other programs without a shell. Tests may use a shell. */
#ifndef PD_TEST
#define system(...) system_is_banned_call_posix_spawn
#define popen(...) popen_is_banned_call_posix_spawn
#endif
