/* SPDX-License-Identifier: Apache-2.0 */
/* err.c - the table of error codes, and the functions that write messages. */

static const struct {
    int code, status;
    const char *name, *text;
} codes[] = {{0, 0, "PD_OK", "done"},
#define X(name, number, status, text) {number, status, #name, text},
             PD_ERR_TABLE(X)
#undef X
};

__attribute__((format(printf, 3, 0))) static void set_message(struct pd_err *err, int code,
                                                              const char *fmt, va_list ap) {
    err->code = code;
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    pd_make_printable(err->msg); /* names of files and texts of other machines are in messages */
}

int pd_fail(struct pd_err *err, int code, const char *fmt, ...) {
    if (!err || err->code)
        return code;
    va_list ap;
    va_start(ap, fmt);
    set_message(err, code, fmt, ap);
    va_end(ap);
    return code;
}

int pd_oom(struct pd_err *err, const char *what) {
    return pd_fail(err, PD_ENOMEM, "no memory for %s", what);
}

int pd_fail_errno(struct pd_err *err, int code, int errnum, const char *fmt, ...) {
    if (errnum == ENOSPC || errnum == EDQUOT)
        code = PD_ENOSPC;
    if (errnum == ENOMEM)
        code = PD_ENOMEM;
    if (!err || err->code)
        return code;
    va_list ap;
    va_start(ap, fmt);
    set_message(err, code, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, ": %s", strerror(errnum));
    return code;
}

void pd_err_prefix(struct pd_err *err, const char *fmt, ...) {
    if (!err || !err->code)
        return;
    char old[sizeof err->msg], head[300];
    memcpy(old, err->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    int n = snprintf(err->msg, sizeof err->msg, "%s: ", head);
    if (n >= 0 && (size_t)n < sizeof err->msg)
        snprintf(err->msg + n, sizeof err->msg - (size_t)n, "%.*s",
                 (int)(sizeof err->msg - (size_t)n - 1), old);
}

void pd_err_from(struct pd_err *err, const char *fmt, ...) {
    if (!err || !err->code || *err->from)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->from, sizeof err->from, fmt, ap);
    va_end(ap);
}

int pd_err_copy(struct pd_err *err, const struct pd_err *why) {
    if (err && !err->code)
        *err = *why;
    return why->code;
}

void pd_err_clear(struct pd_err *err) {
    if (err) {
        err->code = err->heard = 0;
        err->from[0] = err->msg[0] = 0;
    }
}

static int find_code(int code) {
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].code == code)
            return (int)i;
    return -1;
}

const char *pd_code_name(int code) {
    int i = find_code(code);
    return i < 0 ? "?" : codes[i].name;
}

const char *pd_code_text(int code) {
    int i = find_code(code);
    return i < 0 ? "unknown error" : codes[i].text;
}

int pd_code_exit_status(int code) {
    int i = find_code(code);
    return i < 0 ? 1 : codes[i].status;
}
