/* ssh_config_file.c - see ssh_config_file.h. */
#include "launcher/ssh/ssh_config_file.h"

#include <ctype.h>
#include <glob.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fs.h"
#include "base/str.h"

enum { FILE_MAX_BYTES = 16 << 20, INCLUDE_MAX = 16, WORD_MAX = 1024 };

static int no_memory(struct pd_err *err) { return pd_fail(err, PD_ENOMEM, "out of memory"); }

static int add_block(struct ssh_lines *l, const char *args, int match, int parent) {
    if (l->n_blocks == l->cap_blocks) {
        size_t cap = l->cap_blocks ? 2 * l->cap_blocks : 16;
        struct ssh_block *v = pd_realloc(l->blocks, cap * sizeof *v);
        if (!v)
            return PD_ENOMEM;
        l->blocks = v;
        l->cap_blocks = cap;
    }
    char *copy = pd_strdup(args);
    if (!copy)
        return PD_ENOMEM;
    l->blocks[l->n_blocks] = (struct ssh_block){.args = copy, .match = match, .parent = parent};
    l->current = (int)l->n_blocks++;
    return 0;
}

static int add_line(struct ssh_lines *l, const char *keyword, const char *args, int file, int no) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 32;
        struct ssh_line *v = pd_realloc(l->v, cap * sizeof *v);
        if (!v)
            return PD_ENOMEM;
        l->v = v;
        l->cap = cap;
    }
    struct ssh_line *x = &l->v[l->n];
    *x = (struct ssh_line){.keyword = pd_strdup(keyword),
                           .args = pd_strdup(args),
                           .block = l->current,
                           .file = file,
                           .no = no};
    if (!x->keyword || !x->args) {
        free(x->keyword);
        free(x->args);
        return PD_ENOMEM;
    }
    for (char *s = x->keyword; *s; s++)
        *s = (char)tolower((unsigned char)*s);
    l->n++;
    return 0;
}

int ssh_lines_init(struct ssh_lines *l, const char *home, struct pd_err *err) {
    memset(l, 0, sizeof *l);
    l->home = home;
    return add_block(l, "", 0, -1) ? no_memory(err) : 0;
}

void ssh_lines_release(struct ssh_lines *l) {
    for (size_t i = 0; i < l->n; i++) {
        free(l->v[i].keyword);
        free(l->v[i].args);
    }
    for (size_t i = 0; i < l->n_blocks; i++)
        free(l->blocks[i].args);
    for (size_t i = 0; i < l->n_files; i++)
        free(l->files[i]);
    free(l->v);
    free(l->blocks);
    free(l->files);
    memset(l, 0, sizeof *l);
}

int ssh_word(const char **args, char *out, size_t cap) {
    const char *s = *args + strspn(*args, " \t");
    size_t n = 0;
    int quoted = 0;
    if (!*s || *s == '#')
        return 0;
    for (; *s && (quoted || !strchr(" \t", *s)); s++) {
        if (*s == '"')
            quoted = !quoted;
        else if (n + 1 < cap)
            out[n++] = *s;
    }
    out[n] = 0;
    *args = s;
    return 1;
}

/* --- reading --- */

static int include(struct ssh_lines *l, const char *args, const char *folder, struct pd_err *err) {
    char word[WORD_MAX], path[2 * WORD_MAX];
    int rc = 0, outer = l->current;
    while (!rc && ssh_word(&args, word, sizeof word)) {
        glob_t found;
        if (word[0] == '/'   ? pd_fmt(path, sizeof path, "%s", word)
            : word[0] == '~' ? pd_fmt(path, sizeof path, "%s%s", l->home, word + 1)
                             : pd_fmt(path, sizeof path, "%s/%s", folder, word))
            continue;
        if (glob(path, 0, NULL, &found))
            continue; /* nothing there is no error for ssh, either */
        for (size_t i = 0; !rc && i < found.gl_pathc; i++) {
            l->current = outer;
            rc = ssh_lines_read(l, found.gl_pathv[i], folder, err);
        }
        globfree(&found);
    }
    l->current = outer;
    return rc;
}

/* One line, in place. */
static int take_line(struct ssh_lines *l, char *line, int file, int no, int parent,
                     const char *folder, struct pd_err *err) {
    char *s = pd_trim(line);
    if (!*s || *s == '#')
        return 0;
    char *args = s + strcspn(s, " \t=");
    size_t gap = strspn(args, " \t");
    gap += args[gap] == '=';
    gap += strspn(args + gap, " \t");
    if (gap)
        *args = 0;
    args += gap;
    if (!strcasecmp(s, "include"))
        return include(l, args, folder, err);
    if (!strcasecmp(s, "host") || !strcasecmp(s, "match"))
        return add_block(l, args, !strcasecmp(s, "match"), parent) ? no_memory(err) : 0;
    return add_line(l, s, args, file, no) ? no_memory(err) : 0;
}

int ssh_lines_read(struct ssh_lines *l, const char *path, const char *folder, struct pd_err *err) {
    struct pd_buf text;
    struct pd_err own = {0};
    int rc, no = 0, parent = l->current;
    if (l->depth >= INCLUDE_MAX)
        return pd_fail(err, PD_ECONF, "%s: too many Includes inside each other", path);
    pd_buf_init(&text);
    rc = pd_read_file(path, FILE_MAX_BYTES, &text, &own);
    if (rc == PD_ENOENT) {
        pd_buf_release(&text);
        return 0;
    }
    char **files = rc ? NULL : pd_realloc(l->files, (l->n_files + 1) * sizeof *files);
    if (files) {
        l->files = files;
        if ((files[l->n_files] = pd_strdup(path)))
            l->n_files++;
        else
            rc = no_memory(err);
    } else {
        rc = rc ? pd_fail(err, PD_ECONF, "%s", own.msg) : no_memory(err);
    }
    int file = (int)l->n_files - 1;
    l->depth++;
    char *save = NULL;
    for (char *s = rc ? NULL : (char *)text.data; !rc && s && *s;) {
        save = s + strcspn(s, "\n");
        int more = *save != 0;
        *save = 0;
        rc = take_line(l, s, file, ++no, parent, folder, err);
        s = save + more;
    }
    l->depth--;
    l->current = parent;
    pd_buf_release(&text);
    return rc;
}

/* --- covering --- */

static int wildcard(const char *p, size_t n, const char *s, int fold) {
    for (; n; p++, n--) {
        if (*p == '*') {
            while (n > 1 && p[1] == '*')
                p++, n--;
            for (;; s++) {
                if (wildcard(p + 1, n - 1, s, fold))
                    return 1;
                if (!*s)
                    return 0;
            }
        }
        int a = (unsigned char)*p, b = (unsigned char)*s;
        if (!b || (a != '?' && (fold ? tolower(a) != tolower(b) : a != b)))
            return 0;
        s++;
    }
    return !*s;
}

/* Patterns apart by `sep`; one that begins with ! and fits spoils it. */
static int list_covers(const char *list, const char *sep, const char *name, int fold) {
    int hit = 0;
    for (const char *p = list + strspn(list, sep); *p; p += strspn(p, sep)) {
        size_t n = strcspn(p, sep);
        int negated = *p == '!';
        if (wildcard(p + negated, n - (size_t)negated, name, fold)) {
            if (negated)
                return 0;
            hit = 1;
        }
        p += n;
    }
    return hit;
}

static int host_covers(const char *args, const char *alias) {
    char word[WORD_MAX];
    int hit = 0;
    while (ssh_word(&args, word, sizeof word)) {
        if (!list_covers(word + (word[0] == '!'), " ", alias, 0))
            continue;
        if (word[0] == '!')
            return 0;
        hit = 1;
    }
    return hit;
}

static enum ssh_cover match_covers(const char *args, const char *alias, const char *host,
                                   const char *user) {
    char what[WORD_MAX], list[WORD_MAX];
    enum ssh_cover verdict = COVER_YES;
    while (ssh_word(&args, what, sizeof what)) {
        int negated = what[0] == '!';
        const char *name = what + negated, *value;
        struct passwd *pw;
        if (!strcasecmp(name, "all"))
            continue;
        if (!strcasecmp(name, "host"))
            value = host;
        else if (!strcasecmp(name, "originalhost"))
            value = alias;
        else if (!strcasecmp(name, "user"))
            value = user;
        else if (!strcasecmp(name, "localuser") && (pw = getpwuid(getuid())))
            value = pw->pw_name;
        else
            return verdict == COVER_NO ? COVER_NO : COVER_UNKNOWN;
        if (!ssh_word(&args, list, sizeof list))
            return COVER_UNKNOWN;
        if (list_covers(list, ",", value ? value : "", !strcasecmp(name, "host")) == negated)
            verdict = COVER_NO;
    }
    return verdict;
}

enum ssh_cover ssh_block_covers(const struct ssh_lines *l, int block, const char *alias,
                                const char *host, const char *user) {
    enum ssh_cover verdict = COVER_YES;
    for (; block > 0 && verdict != COVER_NO; block = l->blocks[block].parent) {
        const struct ssh_block *b = &l->blocks[block];
        enum ssh_cover one = b->match ? match_covers(b->args, alias, host, user)
                             : host_covers(b->args, alias) ? COVER_YES
                                                           : COVER_NO;
        if (one != COVER_YES)
            verdict = one;
    }
    return verdict;
}

int ssh_lines_signature(const struct ssh_lines *l, const char *alias, struct pd_buf *out) {
    int own_class = 0;
    for (size_t i = 1; i < l->n_blocks; i++) {
        const struct ssh_block *b = &l->blocks[i];
        const char *args = b->args;
        char what[WORD_MAX], list[WORD_MAX];
        if (!b->match)
            pd_put_u8(out, host_covers(args, alias) ? '1' : '0');
        while (b->match && ssh_word(&args, what, sizeof what)) {
            const char *name = what + (what[0] == '!');
            int of_host = !strcasecmp(name, "host") || !strcasecmp(name, "originalhost");
            if (!strcasecmp(name, "all"))
                continue;
            if ((!of_host && strcasecmp(name, "user") && strcasecmp(name, "localuser")) ||
                !ssh_word(&args, list, sizeof list))
                own_class = 1;
            else if (of_host)
                pd_put_u8(out,
                          list_covers(list, ",", alias, !strcasecmp(name, "host")) ? '1' : '0');
        }
        pd_put_u8(out, '.');
    }
    return own_class;
}
