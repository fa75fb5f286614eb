/* SPDX-License-Identifier: Apache-2.0 */
/* help.c - help texts from the table of options. */
#include "conf/conf_internal.h"

enum { TEXT_COLUMN = 30 };

void pd_option_spelling(size_t i, unsigned who, char out[128]) {
    size_t n;
    const struct pd_option *t = &pd_option_table(&n)[i];
    int shadowed = pd_options_find(t->name, who) !=
                   (int)i; /* two sections may have the same name: the later row counts */
    snprintf(out, 128, "%s%s%s", shadowed ? t->section : "", shadowed ? "." : "", t->name);
}

const char *pd_option_placeholder(const struct pd_option *t) {
    switch (t->type) {
    case PD_CHOICE:
        return t->choices;
    case PD_BOOL:
        return "0|1";
    case PD_INT:
        return t->choices ? "N|auto" : "N";
    case PD_SIZE:
        return "BYTES";
    case PD_F64:
        return !strcmp(t->unit, "s") ? "SECONDS" : "NUMBER";
    case PD_PATH:
        return "FILE";
    default:
        return "TEXT";
    }
}

void pd_option_bounds(const struct pd_option *t, struct pd_buf *out) {
    char range[100] = "", low[32], high[32];
    if (t->type == PD_INT && t->min >= t->max)
        snprintf(range, sizeof range, "%.0f", t->min);
    else if (t->type == PD_INT && t->max >= 1 << 24)
        snprintf(range, sizeof range, "%s%sat least %.0f", t->unit, *t->unit ? ", " : "", t->min);
    else if (t->type == PD_INT)
        snprintf(range, sizeof range, "%.0f..%.0f%s%s%s%s", t->min, t->max, *t->unit ? " " : "",
                 t->unit, t->choices ? ", or " : "", t->choices ? t->choices : "");
    else if (t->type == PD_SIZE)
        snprintf(range, sizeof range, "%s..%s", pd_size_text((uint64_t)t->min, low),
                 pd_size_text((uint64_t)t->max, high));
    else if (t->type == PD_F64)
        snprintf(range, sizeof range, "%g..%g%s%s%s", t->min, t->max, *t->unit ? " " : "", t->unit,
                 t->choices ? ", or 0" : "");
    if (*range || *t->def)
        pd_put_fmt(out, "%s%s%s%s", range, *range && *t->def ? "; " : "",
                   *t->def ? "default: " : "", t->def);
}

static int has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *s = list; (s = strstr(s, word)); s += n)
        if ((s == list || s[-1] == ' ') && (!s[n] || s[n] == ' '))
            return 1;
    return 0;
}

int pd_option_is_listed(const struct pd_option *t, const char *which) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", t->section, t->name);
    return !which || has_word(which, t->section) || has_word(which, full);
}

/* Appends `text` from column `from` on, wrapped at blanks; the cursor is at column `at`. */
static void wrap(struct pd_buf *out, const char *text, size_t at, size_t from, size_t width) {
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (at > from && at + 1 + word > width) {
            pd_put_fmt(out, "\n");
            at = 0;
        }
        if (at < from || at == from)
            pd_put_fmt(out, "%*s", (int)(from - at), "");
        else
            pd_put_fmt(out, " ");
        at = (at < from ? from : at > from ? at + 1 : at) + word;
        pd_put(out, text, word);
        text += word;
        while (*text == ' ' || *text == '\n')
            text++;
    }
    pd_put_fmt(out, "\n");
}

void pd_help_text(struct pd_buf *out, const char *text, int width) {
    wrap(out, text, 0, 0, width < 60 ? 60 : (size_t)width);
}

/* Appends one entry of a list: name and text. */
static void help_row(struct pd_buf *out, const char *left, const char *text, int width) {
    size_t at = 2 + strlen(left);
    pd_put_fmt(out, "  %s", left);
    if (at + 2 > TEXT_COLUMN) {
        pd_put_fmt(out, "\n");
        at = 0;
    }
    wrap(out, text, at, TEXT_COLUMN, width < 60 ? 60 : (size_t)width);
}

static void extra_row(struct pd_buf *out, const struct pd_extra_option *e, int width) {
    char left[200];
    snprintf(left, sizeof left, "--%s%s", e->name, e->flag || strchr(e->name, '=') ? "" : "=VALUE");
    help_row(out, left, e->text, width);
}

void pd_options_help(unsigned who, const char *which, const struct pd_extra_option *extra,
                     int width, struct pd_buf *out) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    for (; extra && extra->name; extra++)
        extra_row(out, extra, width);
    const char *section = "";
    for (size_t i = 0; i < n; i++) {
        char name[128], left[256];
        struct pd_buf text = {0};
        if (!(t[i].who & who) || !pd_option_is_listed(&t[i], which))
            continue;
        if (strcmp(section, t[i].section))
            pd_put_fmt(out, "\n[%s]\n", section = t[i].section);
        pd_option_spelling(i, who, name);
        snprintf(left, sizeof left, "--%s=%s", name, pd_option_placeholder(&t[i]));
        pd_put_fmt(&text, "%s (", t[i].text);
        size_t before = text.len;
        pd_option_bounds(&t[i], &text);
        if (text.len == before)
            text.len -= 2;
        else
            pd_put_fmt(&text, ")");
        pd_put_u8(&text, 0);
        help_row(out, left, text.failed ? t[i].text : (char *)text.data, width);
        pd_buf_release(&text);
    }
}
