/* SPDX-License-Identifier: Apache-2.0 */
/* err.h - how every library here reports failure.
 *
 * A function that can fail returns 0 or one of the negative PD_E* codes and, where it takes a
 * `struct pd_err *`, writes the message a person will read. The first error wins: once an err is
 * set, later pd_fail calls on it keep the old message, so that the root cause reaches the user.
 */
#pragma once

/* X(name, number, exit status, text) - exit statuses are those of docs/design.md, "Exit status". */
#define PD_ERR_TABLE(X)                         \
    X(PD_EFAIL, -1, 1, "failed")                \
    X(PD_ENOMEM, -2, 1, "out of memory")        \
    X(PD_EIO, -3, 1, "input/output error")      \
    X(PD_EDATA, -4, 1, "bad data")              \
    X(PD_EPROTO, -5, 1, "protocol error")       \
    X(PD_EAUTH, -6, 3, "authentication failed") \
    X(PD_ECLOSED, -7, 1, "connection closed")   \
    X(PD_ETIMEOUT, -8, 3, "timed out")          \
    X(PD_EUSAGE, -9, 2, "wrong usage")          \
    X(PD_ECONF, -10, 2, "wrong configuration")  \
    X(PD_ENOENT, -11, 2, "not found")           \
    X(PD_EHOST, -12, 3, "host cannot be used")  \
    X(PD_ENOSPC, -13, 3, "no space left")       \
    X(PD_ECANCELED, -14, 130, "stopped")        \
    X(PD_EEXIST, -15, 1, "exists already")      \
    X(PD_ENUM, -16, 1, "not a finite number")   \
    X(PD_EGONE, -17, 1, "given up by the others")

enum pd_code {
    PD_OK = 0,
#define X(name, number, status, text) name = number,
    PD_ERR_TABLE(X)
#undef X
};

struct pd_err {
    int code; /* 0 or PD_E* */
    /* The process that failed, if it is another one, like "trainer 2 on 10.0.0.3"; "": this
     * process. */
    char from[80];
    int heard;      /* that process, or one that it told, has reported the error */
    char msg[1000]; /* UTF-8, no trailing newline */
};

/* Set code and message unless `err` already holds an error. `err` may be NULL. Returns `code`. */
int pd_fail(struct pd_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* PD_ENOMEM: "no memory for WHAT". */
int pd_oom(struct pd_err *err, const char *what);

/* Same as pd_fail, followed by ": " and strerror(errnum). ENOSPC and EDQUOT always become
 * PD_ENOSPC, ENOMEM becomes PD_ENOMEM. */
int pd_fail_errno(struct pd_err *err, int code, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Put "prefix: " before the message already in `err`, to add a host, role or step while the error
 * travels up. */
void pd_err_prefix(struct pd_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Set err->from, unless it is set already or there is no error. `err` may be NULL. */
void pd_err_from(struct pd_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Copy *why, with its origin, unless `err` already holds an error. `err` may be NULL. Returns
 * why->code. */
int pd_err_copy(struct pd_err *err, const struct pd_err *why);

void pd_err_clear(struct pd_err *err);

const char *pd_code_name(int code); /* "PD_EIO"; "PD_OK" for 0; "?" if unknown */
const char *pd_code_text(int code); /* "input/output error" */
int pd_code_exit_status(int code);  /* 0, 1, 2, 3 or 130 */
