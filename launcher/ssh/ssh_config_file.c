/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_config_file.c - see ssh_config_file.h. */
#include "launcher/ssh/ssh_config_file.h"

#include <fnmatch.h>
#include <glob.h>

enum { FILE_MAX_BYTES = 16 << 20, INCLUDE_MAX = 16, WORD_MAX = 1024 };

static int no_memory(struct pd_err *err) { return pd_oom(err, "a file of ssh settings"); }

static int add_block(struct ssh_lines *l, const char *args, int is_match, int parent) {
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
    l->blocks[l->n_blocks] =
        (struct ssh_block){.args = copy, .is_match = is_match, .parent = parent};
    l->current = (int)l->n_blocks++;
    return 0;
}

static int add_line(struct ssh_lines *l, const char *keyword, const char *args, int file,
                    int number) {
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
                           .number = number};
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

/* The next word of `args`, without its quotes, into `out`. 0 at the end. */
static int ssh_word(const char **args, char *out, size_t cap) {
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
        l->has_unread |= strpbrk(word, "%$'\\") || (word[0] == '~' && word[1] != '/');
        if (word[0] == '/'   ? pd_fmt(path, sizeof path, "%s", word)
            : word[0] == '~' ? pd_fmt(path, sizeof path, "%s%s", l->home, word + 1)
                             : pd_fmt(path, sizeof path, "%s/%s", folder, word))
            continue;
        if (glob(path, 0, NULL, &found))
            continue; /* as for ssh, a missing file is no error */
        for (size_t i = 0; !rc && i < found.gl_pathc; i++) {
            l->current = outer;
            rc = ssh_lines_read(l, found.gl_pathv[i], folder, err);
        }
        globfree(&found);
    }
    l->current = outer;
    return rc;
}

/* Parses one line in place. */
static int read_line(struct ssh_lines *l, char *line, int file, int number, int parent,
                     const char *folder, struct pd_err *err) {
    char *s = pd_trim(line);
    if (!*s || *s == '#')
        return 0;
    l->has_unread |= *s == '"'; /* ssh knows a keyword in quotes */
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
    return add_line(l, s, args, file, number) ? no_memory(err) : 0;
}

int ssh_lines_read(struct ssh_lines *l, const char *path, const char *folder, struct pd_err *err) {
    struct pd_buf text = {0};
    struct pd_err read_err = {0};
    int rc, number = 0, parent = l->current;
    if (l->depth >= INCLUDE_MAX)
        return pd_fail(err, PD_ECONF, "%s: too many nested Includes", path);
    rc = pd_read_file(path, FILE_MAX_BYTES, &text, &read_err);
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
        rc = rc ? pd_fail(err, PD_ECONF, "%s", read_err.msg) : no_memory(err);
    }
    int file = (int)l->n_files - 1;
    l->depth++;
    char *save = NULL;
    for (char *s = rc ? NULL : (char *)text.data; !rc && s && *s;) {
        save = s + strcspn(s, "\n");
        int more = *save != 0;
        *save = 0;
        rc = read_line(l, s, file, ++number, parent, folder, err);
        s = save + more;
    }
    l->depth--;
    l->current = parent;
    pd_buf_release(&text);
    return rc;
}

/* --- names --- */

/* 1: the patterns of a Host line cover the name. -1: a negated pattern excludes the name.
 * 0: no pattern fits. ssh takes a [ literally and knows quotes, so such a pattern counts as
 * fitting. */
static int host_patterns(const char *args, const char *alias) {
    char word[WORD_MAX];
    int covers = 0;
    while (ssh_word(&args, word, sizeof word)) {
        int negated = word[0] == '!';
        if (!strpbrk(word, "['\\") && fnmatch(word + negated, alias, FNM_NOESCAPE | FNM_CASEFOLD))
            continue;
        if (negated)
            return -1;
        covers = 1;
    }
    return covers;
}

static int covers_all(const struct ssh_block *b) {
    return b->is_match ? !strcasecmp(b->args, "all") || !strcasecmp(b->args, "final all")
                       : !strcmp(b->args, "*");
}

/* A Match line with `final` is a policy of the system for all programs (Fedora has such a line). A
 * warning about its lines would tell the user nothing, so they count as COVER_NO. */
enum ssh_cover ssh_line_covers(const struct ssh_lines *l, const struct ssh_line *x,
                               const char *alias) {
    enum ssh_cover cover = COVER_YES;
    for (int i = x->block; i > 0; i = l->blocks[i].parent) {
        const struct ssh_block *b = &l->blocks[i];
        if (b->is_match ? strcasestr(b->args, "final") != NULL : host_patterns(b->args, alias) <= 0)
            return COVER_NO;
        if (b->is_match && !covers_all(b))
            cover = COVER_MATCH;
    }
    return cover;
}

int ssh_lines_are_common(const struct ssh_lines *l, const char *alias) {
    for (size_t i = 0; i < l->n; i++)
        if (strcasestr(l->v[i].args, alias))
            return 0;
    for (size_t i = 1; i < l->n_blocks; i++) {
        const struct ssh_block *b = &l->blocks[i];
        if (!covers_all(b) && (b->is_match || host_patterns(b->args, alias)))
            return 0;
    }
    return 1;
}
