/* SPDX-License-Identifier: Apache-2.0 */
/* glob.c - see glob.h. The pattern is parsed into steps once. For each byte of the path all
 * reachable steps advance together, so that no pattern takes exponential time. */
#include "pack/scan/glob.h"

enum { STEPS_MAX = PATH_MAX };

enum step_kind {
    BYTE,       /* this byte */
    ANY,        /* one byte, no slash in a path */
    SET,        /* [...] */
    STAR,       /* any bytes, no slash in a path */
    STARSTAR,   /* any bytes */
    MAYBE_DIRS, /* "**" and the slash behind it: nothing, or anything that ends with a slash */
    NEVER,      /* can't match: an open [ or an unknown class */
};

struct glob_step {
    unsigned char kind, byte;
    const char *set; /* behind the [ */
};

static int in_class(const char *name, size_t n, int c) {
    static const struct {
        const char *name;
        int (*is)(int);
    } classes[] = {{"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank},
                   {"cntrl", iscntrl}, {"digit", isdigit}, {"graph", isgraph},
                   {"lower", islower}, {"print", isprint}, {"punct", ispunct},
                   {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (strlen(classes[i].name) == n && !memcmp(classes[i].name, name, n))
            return c < 128 && classes[i].is(c) != 0;
    return -1;
}

/* 1 if byte `c` is in the set that begins at `s`; -1: not a valid set (open, or with an unknown
 * class). *end is the set's "]". */
static int in_set(const char *s, unsigned char c, const char **end) {
    int negated = *s == '!' || *s == '^', found = 0;
    unsigned char before = 0; /* possible first byte of a range */
    s += negated;
    for (int first = 1; first || *s != ']'; first = 0, s++) {
        unsigned char b = (unsigned char)*s;
        if (!b)
            return -1;
        if (b == '\\') {
            if (!(b = (unsigned char)*++s))
                return -1;
            found |= c == b;
            before = b;
        } else if (b == '-' && before && s[1] && s[1] != ']') {
            b = (unsigned char)*++s;
            if (b == '\\' && !(b = (unsigned char)*++s))
                return -1;
            found |= before <= c && c <= b;
            before = 0;
        } else if (b == '[' && s[1] == ':') {
            const char *close = strchr(s + 2, ']');
            if (!close)
                return -1;
            if (close == s + 2 || close[-1] != ':') { /* an ordinary [ */
                found |= c == '[';
                before = '[';
                continue;
            }
            int k = in_class(s + 2, (size_t)(close - 1 - (s + 2)), c);
            if (k < 0)
                return -1;
            found |= k;
            before = 0;
            s = close;
        } else {
            found |= c == b;
            before = b;
        }
    }
    *end = s;
    return found != negated;
}

static size_t read_pattern(const char *pattern, int is_path, struct glob_step *v) {
    size_t n = 0;
    for (const char *p = pattern; *p && n < STEPS_MAX; p++) {
        if (*p == '*') {
            const char *first = p;
            while (p[1] == '*')
                p++;
            int whole = p > first && (first == pattern || first[-1] == '/') &&
                        (!p[1] || p[1] == '/' || (p[1] == '\\' && p[2] == '/'));
            v[n++].kind = is_path && whole ? (p[1] == '/' ? MAYBE_DIRS : STARSTAR) : STAR;
            p += v[n - 1].kind == MAYBE_DIRS;
        } else if (*p == '?') {
            v[n++].kind = ANY;
        } else if (*p == '[') {
            const char *end;
            v[n].kind = in_set(p + 1, 'x', &end) < 0 ? NEVER : SET;
            v[n].set = p + 1;
            if (v[n++].kind == NEVER)
                break;
            p = end;
        } else {
            if (*p == '\\')
                p++;
            v[n].kind = *p ? BYTE : NEVER; /* a backslash at the end escapes nothing */
            v[n++].byte = (unsigned char)*p;
            if (!*p)
                break;
        }
    }
    return n;
}

/* Marks step i as reached, and the following steps if steps between may match nothing. */
static void reach(unsigned char *at, const struct glob_step *v, size_t n, size_t i) {
    for (;; i++) {
        if (at[i])
            return;
        at[i] = 1;
        if (i == n || (v[i].kind != STAR && v[i].kind != STARSTAR && v[i].kind != MAYBE_DIRS))
            return;
    }
}

static int takes(const struct glob_step *s, unsigned char c, int is_path) {
    const char *end;
    if (s->kind == BYTE)
        return c == s->byte;
    if (is_path && c == '/')
        return 0;
    return s->kind == ANY || (s->kind == SET && in_set(s->set, c, &end) == 1);
}

int pack_glob(const char *pattern, const char *path, int is_path) {
    struct glob_step v[STEPS_MAX];
    unsigned char a[STEPS_MAX + 1], b[STEPS_MAX + 1], *now = a, *next = b;
    if (strlen(pattern) >= STEPS_MAX)
        return 0;
    size_t n = read_pattern(pattern, is_path, v);
    memset(now, 0, n + 1);
    reach(now, v, n, 0);
    for (const char *s = path; *s; s++) {
        memset(next, 0, n + 1);
        for (size_t i = 0; i < n; i++) {
            if (!now[i])
                continue;
            if (v[i].kind == STARSTAR || v[i].kind == MAYBE_DIRS ||
                (v[i].kind == STAR && !(is_path && *s == '/'))) {
                next[i] = 1; /* a STAR may also end here, so the step behind it is reached */
                if (v[i].kind != MAYBE_DIRS || *s == '/')
                    reach(next, v, n, i + 1);
            } else if (takes(&v[i], (unsigned char)*s, is_path)) {
                reach(next, v, n, i + 1);
            }
        }
        unsigned char *t = now;
        now = next;
        next = t;
    }
    return now[n];
}
