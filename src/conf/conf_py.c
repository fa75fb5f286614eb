/* SPDX-License-Identifier: Apache-2.0 */
/* conf_py.c - see conf_py.h. */
#include "conf/conf_py.h"

#include "conf/options.h"

/* The names of conf.py. `to` NULL: nothing to set. */
static const struct conf_py_name {
    const char *name, *section, *to;
    int is_list; /* HOSTS */
    const char *note;
} settings[] = {
    {"HOSTS", "cluster", "hosts", 1, NULL},
    {"ROOT_DIR", "cluster", "root_dir", 0, NULL},
    {"PADDLE_NIC", "cluster", "nic", 0, NULL},
    {"PADDLE_PORT", "cluster", "port", 0, NULL},
    {"PADDLE_PORTS_NUM", "cluster", "ports_num", 0, NULL},
    {"PADDLE_PORTS_NUM_FOR_SPARSE", "cluster", "ports_num_for_sparse", 0, NULL},
    {"LD_LIBRARY_PATH", "env", "LD_LIBRARY_PATH", 0, NULL},
    {"PADDLE_USE_GPU", NULL, NULL, 0, "training runs on CPUs"},
};
enum { N_SETTINGS = sizeof settings / sizeof settings[0] };

struct conf_py {
    const char *file, *p;
    int line;
    struct pd_buf value[N_SETTINGS]; /* with NUL; empty: not given */
    int line_of[N_SETTINGS];
    struct pd_buf *warnings;
    struct pd_err *err;
};

static int bad(struct conf_py *r, const char *why) {
    return pd_fail(r->err, PD_ECONF, "%s:%d: %s", r->file, r->line, why);
}

static int not_literal(struct conf_py *r) {
    return bad(r, "only a text, a number, or a list of them can be read here");
}

/* Blanks and comments; newlines as well if `lines`. */
static void skip(struct conf_py *r, int lines) {
    for (;; r->p++) {
        if (*r->p == '#')
            r->p += strcspn(r->p, "\n");
        if (*r->p == '\n' && lines)
            r->line++;
        else if (r->p[0] == '\\' && r->p[1] == '\n')
            r->line++, r->p++;
        else if (!*r->p || !strchr(" \t\r", *r->p))
            return;
    }
}

/* 'x', "x", and the same with three quotes. `out` NULL: a comment. */
static int read_text(struct conf_py *r, struct pd_buf *out) {
    char quote = *r->p, three[4] = {quote, quote, quote, 0};
    int long_one = !strncmp(r->p, three, 3);
    size_t n = long_one ? 3 : 1;
    for (r->p += n; strncmp(r->p, three, n); r->p++) {
        if (!*r->p || (*r->p == '\n' && !long_one))
            return bad(r, "the text has no end");
        r->line += *r->p == '\n';
        if (!out)
            continue;
        if (*r->p == '\\' && strchr("\\'\"", r->p[1]) && r->p[1])
            r->p++;
        else if (*r->p == '\\' || (unsigned char)*r->p < 32 || *r->p == 127)
            return bad(r, "the text has a backslash or a control character");
        pd_put_u8(out, (uint8_t)*r->p);
    }
    r->p += n;
    return 0;
}

/* A text (also of several literals side by side) or a number. */
static int read_word(struct conf_py *r, int lines, struct pd_buf *out) {
    if (*r->p == '\'' || *r->p == '"') {
        while (*r->p == '\'' || *r->p == '"') {
            if (read_text(r, out))
                return r->err->code;
            skip(r, lines);
        }
        return 0;
    }
    size_t n = strspn(r->p, "0123456789");
    if (!n && (pd_starts_with(r->p, "True") || pd_starts_with(r->p, "False")))
        n = strcspn(r->p, "e") + 1;
    pd_put(out, r->p, n);
    r->p += n;
    skip(r, lines);
    return n ? 0 : not_literal(r);
}

/* Characters of [user@]host[:port]; others have a meaning in conf.ini. */
static int is_host(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && (!s[i] || !strchr(i ? "@:.-_[]%" : "[", s[i])))
            return 0;
    return n > 0;
}

static int read_list(struct conf_py *r, int of_hosts, struct pd_buf *out) {
    char end = *r->p++ == '[' ? ']' : ')';
    for (skip(r, 1); *r->p != end; skip(r, 1)) {
        if (out->len)
            pd_put(out, ", ", 2);
        size_t before = out->len;
        if (read_word(r, 1, out))
            return r->err->code;
        if (of_hosts &&
            (out->len == before || !is_host((char *)out->data + before, out->len - before)))
            return bad(r, "an element of the list is no host: [user@]host[:port]");
        if (*r->p != ',' && *r->p != end)
            return not_literal(r);
        r->p += *r->p == ',';
    }
    r->p++;
    return 0;
}

static int read_value(struct conf_py *r, const char *name) {
    struct pd_buf ignored = {0}, *out = &ignored;
    int which = 0;
    while (which < N_SETTINGS && strcmp(settings[which].name, name))
        which++;
    if (which < N_SETTINGS) { /* as in Python, the last assignment counts */
        out = &r->value[which];
        pd_buf_release(out);
        r->line_of[which] = r->line;
    } else {
        pd_put_fmt(r->warnings, "%s:%d: %s is not known and left out\n", r->file, r->line, name);
    }
    int list = *r->p == '[' || *r->p == '(', rc = 0;
    if (which < N_SETTINGS && list != settings[which].is_list)
        rc = bad(r, list ? "a list is not expected here" : "HOSTS is a list: [\"user@host\"]");
    else if (which == N_SETTINGS && !list && !strchr("'\"0123456789TF", *r->p))
        r->p += strcspn(r->p, "\n"); /* an expression that nobody needs */
    else
        rc = list ? read_list(r, which < N_SETTINGS, out) : read_word(r, 0, out);
    pd_put_u8(out, 0);
    if (!rc && out->failed)
        rc = pd_oom(r->err, "conf.py");
    if (!rc && which < N_SETTINGS && (strstr((char *)out->data, " ;") || strchr(";", *out->data)))
        rc = bad(r, *out->data ? "conf.ini cannot hold the text ' ;'" : "the value is empty");
    pd_buf_release(&ignored);
    return rc;
}

static int read_lines(struct conf_py *r) {
    for (skip(r, 1); *r->p; skip(r, 1)) {
        char name[64];
        size_t n = 0;
        while (isalnum((unsigned char)r->p[n]) || r->p[n] == '_')
            n++;
        int rc = 0;
        if (*r->p == '\'' || *r->p == '"') {
            rc = read_text(r, NULL);
        } else if (!n || n >= sizeof name) {
            rc = bad(r, "only lines NAME = VALUE and comments can be read");
        } else {
            pd_fmt(name, sizeof name, "%.*s", (int)n, r->p);
            r->p += n;
            skip(r, 0);
            if (r->p[0] != '=' || r->p[1] == '=')
                return bad(r, "only lines NAME = VALUE and comments can be read");
            r->p++;
            skip(r, 0);
            rc = read_value(r, name);
        }
        skip(r, 0);
        if (!rc && *r->p && *r->p != '\n')
            rc = not_literal(r);
        if (rc)
            return rc;
    }
    return 0;
}

/* A host on each line: a line of conf.ini has a limit, a list of hosts has none. */
static void write_value(const char *value, int is_list, struct pd_buf *out) {
    for (; *value; value++) {
        pd_put_u8(out, (uint8_t)*value);
        if (is_list && *value == ',')
            pd_put_fmt(out, "\n   ");
    }
    pd_put_u8(out, '\n');
}

static void write_section(const struct conf_py *r, const char *section, struct pd_buf *out) {
    int any = 0;
    for (int i = 0; i < N_SETTINGS; i++) {
        if (!settings[i].section || strcmp(settings[i].section, section) || !r->line_of[i])
            continue;
        if (!any++)
            pd_put_fmt(out, "\n[%s]\n", section);
        pd_put_fmt(out, "%s = ", settings[i].to);
        write_value((char *)r->value[i].data, settings[i].is_list, out);
    }
}

/* Lets the table of options judge the values, so a bad port is reported with its line of conf.py.
 */
static int check(struct conf_py *r) {
    struct pd_options o;
    int rc = pd_options_init(&o, r->err);
    for (int i = 0; !rc && i < N_SETTINGS; i++) {
        char where[PATH_MAX + 20];
        pd_fmt(where, sizeof where, "%s:%d", r->file, r->line_of[i]);
        if (r->line_of[i] && settings[i].section && strcmp(settings[i].section, "env"))
            rc = pd_options_set(&o, PD_LAUNCHER, settings[i].section, settings[i].to,
                                (char *)r->value[i].data, PD_FROM_CONF_INI, where, NULL, r->err);
        if (!rc && r->line_of[i] && settings[i].note && strcmp((char *)r->value[i].data, "False"))
            pd_put_fmt(r->warnings, "%s: %s has no counterpart: %s\n", where, settings[i].name,
                       settings[i].note);
    }
    pd_options_release(&o);
    if (!rc && !r->line_of[0])
        rc = pd_fail(r->err, PD_ECONF, "%s has no HOSTS", r->file);
    return rc;
}

int pd_conf_py_read(const char *file, const char *text, struct pd_buf *out, struct pd_buf *warnings,
                    struct pd_err *err) {
    struct conf_py r = {.file = file, .p = text, .line = 1, .warnings = warnings, .err = err};
    int rc = read_lines(&r);
    if (!rc)
        rc = check(&r);
    if (!rc) {
        pd_put_fmt(out, "# Made of %s. 'paddlectl conf' shows every option.\n", file);
        write_section(&r, "cluster", out);
        pd_put_fmt(out, "\n[job]\njob_dispatch_package = ./workspace\n");
        write_section(&r, "env", out);
        rc = out->failed || warnings->failed ? pd_oom(err, "conf.ini") : 0;
    }
    for (int i = 0; i < N_SETTINGS; i++)
        pd_buf_release(&r.value[i]);
    return rc;
}
