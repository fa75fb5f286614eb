/* banned.h - functions of libc that this project does not call. The Makefile includes this header
 * before every source file. A call of such a function does not compile; the error names the
 * replacement.
 *
 * The headers that declare the functions are included first, so that the macros affect only calls.
 */
#pragma once

#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
