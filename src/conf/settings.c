/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c - see settings.h. */
#include "conf/settings.h"

#include "conf/conf_internal.h"
#include "conf/ini_file.h"

enum { MAX_VALUE = 60000, MAX_PART = 512 }; /* a line of an INI file has at most 64 KiB */

#define MARK " ; --set" /* comment of a line that comes from the command line */

static const struct pd_set_section {
    const char *word;
    enum pd_set_file file;
    int named;      /* SECTION.NAME.KEY */
    int must_exist; /* in train.ini */
} known[] = {
    {"cluster", PD_SET_OPTION, 0, 0},      {"ssh", PD_SET_OPTION, 0, 0},
    {"kubernetes", PD_SET_OPTION, 0, 0},   {"job", PD_SET_OPTION, 0, 0},
    {"train", PD_SET_OPTION, 0, 0},        {"worker", PD_SET_OPTION, 0, 0},
    {"env", PD_SET_CONF_INI, 0, 0},        {"groups", PD_SET_CONF_INI, 0, 0},
    {"host", PD_SET_CONF_INI, 1, 0},       {"data", PD_SET_TRAIN_INI, 0, 0},
    {"field", PD_SET_TRAIN_INI, 1, 0},     {"layer", PD_SET_TRAIN_INI, 1, 1},
    {"cost", PD_SET_TRAIN_INI, 1, 1},      {"optimizer", PD_SET_TRAIN_INI, 0, 0},
    {"evaluator", PD_SET_TRAIN_INI, 1, 1},
};
enum { N_KNOWN = sizeof known / sizeof known[0] };

/* --- SECTION.KEY=VALUE --- */

struct set_words { /* "layer.hidden.size=512" */
    char section[64], name[MAX_PART], key[MAX_PART];
    const char *value;
    const struct pd_set_section *is;
};

static int is_name(const char *s) {
    return *s && !s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")];
}

static int find_section(struct set_words *w, const char *text, struct pd_err *err) {
    const char *near = NULL;
    size_t best = 3;
    for (size_t i = 0; i < N_KNOWN && !w->is; i++) {
        size_t d = pd_edit_distance(known[i].word, w->section);
        if (!d)
            w->is = &known[i];
        if (d < best) {
            best = d;
            near = known[i].word;
        }
    }
    if (w->is)
        return 0;
    if (near)
        return pd_fail(err, PD_EUSAGE, "--set %.300s: there is no section '%s'; did you mean '%s'?",
                       text, w->section, near);
    return pd_fail(
        err, PD_EUSAGE,
        "--set %.300s: there is no section '%s' (of conf.ini: cluster, groups, "
        "host.NAME, kubernetes, ssh, job, env, train; of train.ini: data, field.NAME, layer.NAME, "
        "cost.NAME, optimizer, evaluator.NAME, train)",
        text, w->section);
}

/* The name of a host or layer may have dots: the key is behind the last dot. For a host
 * env.VARIABLE is one key. NULL: there is no key. */
static const char *key_of(const struct set_words *w, const char *rest) {
    const char *dot = strrchr(rest, '.');
    if (!w->is->named)
        return rest;
    for (const char *p = rest; w->is->file == PD_SET_CONF_INI && (p = strstr(p, ".env.")); p++)
        dot = p;
    return dot && dot > rest ? dot + 1 : NULL;
}

static int take_words(struct set_words *w, const char *text, struct pd_err *err) {
    char left[2 * MAX_PART];
    const char *eq = strchr(text, '=');
    size_t n = eq ? (size_t)(eq - text) : 0, word = strcspn(text, ".");
    memset(w, 0, sizeof *w);
    if (!eq || word >= n || word >= sizeof w->section || n >= sizeof left)
        return pd_fail(err, PD_EUSAGE,
                       "--set %.300s: a setting is written SECTION.KEY=VALUE, such as "
                       "optimizer.learning_rate=0.1",
                       text);
    w->value = eq + 1;
    pd_fmt(w->section, sizeof w->section, "%.*s", (int)word, text);
    pd_fmt(left, sizeof left, "%.*s", (int)(n - word - 1), text + word + 1);
    int rc = find_section(w, text, err);
    if (rc)
        return rc;
    const char *key = key_of(w, left);
    size_t name = key && w->is->named ? (size_t)(key - left) - 1 : 0;
    if (!key || !is_name(key) || pd_fmt(w->key, sizeof w->key, "%s", key) ||
        pd_fmt(w->name, sizeof w->name, "%.*s", (int)name, left) ||
        (name && w->is->file == PD_SET_TRAIN_INI && !is_name(w->name)))
        return pd_fail(err, PD_EUSAGE,
                       "--set %.300s: a setting of this section is written %s.%sKEY=VALUE", text,
                       w->section, w->is->named ? "NAME." : "");
    return 0;
}

/* Refuse what a file could not hold. */
static int check_value(const char *text, const char *value, struct pd_err *err) {
    size_t n = strlen(value);
    if (n > MAX_VALUE)
        return pd_fail(err, PD_EUSAGE, "--set %.100s...: the value has more than %d bytes", text,
                       MAX_VALUE);
    if (pd_utf8_valid(value, n) != n)
        return pd_fail(err, PD_EUSAGE, "--set %.300s: the value is not UTF-8 text", text);
    for (const char *s = value; *s; s++)
        if (iscntrl((unsigned char)*s) ||
            (*s == ';' && (s == value || isblank((unsigned char)s[-1]))))
            return pd_fail(err, PD_EUSAGE,
                           "--set %.300s: a value has neither control characters nor a semicolon "
                           "after a blank, where the comment of a line begins",
                           text);
    return 0;
}

/* --- the list --- */

static int same_key(const struct pd_setting *s, const char *text) {
    size_t n = strcspn(text, "=");
    return strcspn(s->text, "=") == n && !strncmp(s->text, text, n);
}

static int keep(struct pd_options *o, const struct set_words *w, const char *text,
                enum pd_origin_level level, struct pd_err *err) {
    size_t i = 0;
    while (i < o->n_settings && !same_key(&o->settings[i], text))
        i++;
    if (i < o->n_settings && o->settings[i].level > level)
        return 0;
    if (i == o->n_settings) {
        if (o->n_settings == PD_MAX_SETTINGS)
            return pd_fail(err, PD_EUSAGE, "--set: more than %d settings", PD_MAX_SETTINGS);
        struct pd_setting *more = pd_realloc(o->settings, (i + 1) * sizeof *more);
        if (!more)
            return pd_oom(err, "a setting");
        o->settings = more;
        more[o->n_settings++] = (struct pd_setting){0};
    }
    struct pd_setting *s = &o->settings[i];
    size_t cap = strlen(w->section) + strlen(w->name) + 2;
    free(s->text);
    free(s->section);
    *s = (struct pd_setting){
        .text = pd_strdup(text), .section = pd_malloc(cap), .file = w->is->file, .level = level};
    if (!s->text || !s->section) {
        o->n_settings = (size_t)(s - o->settings); /* the others are not needed after an error */
        free(s->text);
        free(s->section);
        return pd_oom(err, "a setting");
    }
    pd_fmt(s->section, cap, "%s%s%s", w->section, *w->name ? " " : "", w->name);
    s->key = s->text + strlen(s->section) + 1;
    s->value = s->text + strcspn(text, "=") + 1;
    return 0;
}

void pd_settings_release(struct pd_options *o) {
    for (size_t i = 0; i < o->n_settings; i++) {
        free(o->settings[i].text);
        free(o->settings[i].section);
    }
    free(o->settings);
}

int pd_settings_add(struct pd_options *o, unsigned who, const char *text,
                    enum pd_origin_level level, struct pd_err *err) {
    char where[300 + 10];
    struct set_words w;
    int rc = take_words(&w, text, err);
    if (!rc)
        rc = check_value(text, w.value, err);
    if (rc)
        return rc;
    if (w.is->file == PD_SET_CONF_INI && !(who & PD_LAUNCHER))
        return pd_fail(err, PD_EUSAGE, "--set %.300s: this program reads no conf.ini", text);
    if (w.is->file == PD_SET_OPTION) {
        snprintf(where, sizeof where, "--set %.*s", (int)(w.value - text) - 1, text);
        rc = pd_options_set(o, who, w.section, w.key, w.value, level, where, NULL, err);
        if (rc || strcmp(w.section, "train"))
            return rc;
    }
    return keep(o, &w, text, level, err);
}

int pd_settings_to_sections(struct pd_options *o, struct pd_err *err) {
    int rc = 0;
    for (size_t i = 0; i < o->n_settings && !rc; i++) {
        const struct pd_setting *s = &o->settings[i];
        char where[300], key[MAX_PART];
        if (s->file != PD_SET_CONF_INI)
            continue;
        pd_fmt(key, sizeof key, "%.*s", (int)(s->value - s->key) - 1, s->key);
        snprintf(where, sizeof where, "--set %.*s", (int)(s->value - s->text) - 1, s->text);
        const char *pattern = pd_host_pattern(s->section);
        if (!strcmp(s->section, "env"))
            rc = pd_env_override(o, key, s->value, where, err);
        else if (!pattern)
            rc = pd_group_override(o, key, s->value, where, err);
        else if (!(rc = pd_host_section_begin(o, pattern, where, err)))
            rc = pd_host_section_set(o, key, s->value, where, NULL, err);
    }
    return rc;
}

/* --- train.ini --- */

static int is_of_train_ini(const struct pd_setting *s) {
    return s->file == PD_SET_TRAIN_INI || !strcmp(s->section, "train");
}

/* The value; that of an option, which --NAME=VALUE may have set since. */
static void put_value(const struct pd_options *o, const struct pd_setting *s, struct pd_buf *out) {
    char key[64];
    int row = -1;
    if (s->file == PD_SET_OPTION &&
        !pd_fmt(key, sizeof key, "%.*s", (int)(s->value - s->key) - 1, s->key))
        row = pd_options_find(key, PD_LAUNCHER | PD_WORKER);
    if (row >= 0)
        pd_options_text(o, (size_t)row, out);
    else
        pd_put(out, s->value, strlen(s->value));
}

void pd_settings_text(const struct pd_options *o, struct pd_buf *out) {
    for (size_t i = 0; i < o->n_settings; i++) {
        const struct pd_setting *s = &o->settings[i];
        if (!is_of_train_ini(s))
            continue;
        pd_put(out, s->text, (size_t)(s->value - s->text));
        put_value(o, s, out);
        pd_put_u8(out, '\n');
    }
}

char **pd_settings_argv(const struct pd_options *o, const char *const *first, const char *last) {
    size_t n = 0, more = 0;
    while (first[n])
        n++;
    const char **v = pd_malloc((n + 2 * o->n_settings + 2) * sizeof *v);
    if (!v)
        return NULL;
    memcpy(v, first, n * sizeof *v);
    for (size_t i = 0; i < o->n_settings; i++) {
        if (!is_of_train_ini(&o->settings[i]))
            continue;
        v[n + more++] = "--set";
        v[n + more++] = o->settings[i].text;
    }
    v[n + more] = last;
    v[n + more + 1] = NULL;
    return (char **)(uintptr_t)v;
}

/* The names of fields in "age:dense job:category". */
static int lists_field(const char *fields, const char *name) {
    const size_t n = strlen(name);
    for (const char *p = fields; *p; p += strcspn(p, " \t,"), p += strspn(p, " \t,"))
        if (!strncmp(p, name, n) && strchr(": \t,", p[n]))
            return 1;
    return 0;
}

/* The place of one setting in the text. */
struct place {
    int first, last;     /* lines of the pair; 0: none */
    int has_section;     /* the text has the section with any pair */
    char near[MAX_PART]; /* the most similar name of a section of this kind */
    size_t distance;     /* of `near` */
};

struct applying {
    const struct pd_options *o;
    struct place *at; /* [o->n_settings] */
};

/* Sections are equal if their words and names are, with any blanks between. */
static int same_section(const char *a, const char *b) {
    size_t n = strcspn(a, " \t");
    return strcspn(b, " \t") == n && !strncmp(a, b, n) &&
           !strcmp(a + n + strspn(a + n, " \t"), b + n + strspn(b + n, " \t"));
}

static void compare_name(struct place *at, const char *wanted, const char *section) {
    size_t n = strcspn(wanted, " ");
    if (!wanted[n] || strncmp(wanted, section, n) || !isblank((unsigned char)section[n]))
        return;
    const char *name = section + n + strspn(section + n, " \t");
    size_t d = pd_edit_distance(name, wanted + n + 1);
    if (d < at->distance && !pd_fmt(at->near, sizeof at->near, "%s", name))
        at->distance = d;
}

static void on_span(void *arg, const char *section, const char *name, const char *value, int first,
                    int last) {
    struct applying *a = arg;
    for (size_t i = 0; i < a->o->n_settings; i++) {
        const struct pd_setting *s = &a->o->settings[i];
        struct place *at = &a->at[i];
        size_t key = (size_t)(s->value - s->key) - 1;
        if (!strcmp(section, "data") && !strcmp(name, "fields") &&
            pd_starts_with(s->section, "field ") && lists_field(value, s->section + 6))
            at->has_section = 1;
        if (!same_section(section, s->section)) {
            compare_name(at, s->section, section);
            continue;
        }
        at->has_section = 1;
        if (strlen(name) == key && !strncmp(name, s->key, key)) {
            at->first = first;
            at->last = last;
        }
    }
}

static int check_place(const struct pd_setting *s, const struct place *at, const char *name,
                       struct pd_err *err) {
    size_t word = strcspn(s->section, " ");
    for (size_t i = 0; i < N_KNOWN; i++) {
        if (at->has_section || !known[i].must_exist || strlen(known[i].word) != word ||
            strncmp(known[i].word, s->section, word))
            continue;
        if (at->distance < 3)
            return pd_fail(err, PD_ECONF, "--set %.300s: there is no %s '%s'; did you mean '%s'?",
                           s->text, known[i].word, s->section + word + 1, at->near);
        return pd_fail(err, PD_ECONF, "--set %.300s: there is no %s '%s' in %s", s->text,
                       known[i].word, s->section + word + 1, name);
    }
    return 0;
}

static void put_pair(const struct pd_options *o, const struct pd_setting *s, struct pd_buf *out) {
    pd_put(out, s->key, (size_t)(s->value - s->key) - 1);
    pd_put_fmt(out, " = ");
    put_value(o, s, out);
    pd_put_fmt(out, MARK "\n");
}

/* Copy a line, or put the pair that replaces it. The other lines of the old value become comments.
 */
static void put_line(const struct applying *a, const char *line, size_t n, int number,
                     struct pd_buf *out) {
    for (size_t i = 0; i < a->o->n_settings; i++) {
        const struct place *at = &a->at[i];
        if (number == at->first) {
            put_pair(a->o, &a->o->settings[i], out);
            return;
        }
        if (number > at->first && number <= at->last)
            pd_put_fmt(out, "; ");
    }
    pd_put(out, line, n);
    pd_put_u8(out, '\n');
}

/* 1: this command line or environment gives the key of "SECTION.KEY=VALUE". */
static int is_given(const struct pd_options *o, const char *text) {
    char name[MAX_PART];
    for (size_t i = 0; i < o->n_settings; i++)
        if (same_key(&o->settings[i], text))
            return 1;
    if (!pd_starts_with(text, "train.") ||
        pd_fmt(name, sizeof name, "%.*s", (int)strcspn(text + 6, "="), text + 6))
        return 0;
    const int row = pd_options_find(name, PD_LAUNCHER);
    return row >= 0 && o->origin[row].level >= PD_FROM_ENV;
}

/* The origin of the setting that was just taken. */
static void mark_again(struct pd_options *o, const char *text) {
    struct pd_setting *s = o->n_settings ? &o->settings[o->n_settings - 1] : NULL;
    char key[MAX_PART];
    if (!s || !same_key(s, text))
        return;
    s->again = 1;
    pd_fmt(key, sizeof key, "%.*s", (int)(s->value - s->key) - 1, s->key);
    const int row = s->file == PD_SET_OPTION ? pd_options_find(key, PD_LAUNCHER) : -1;
    if (row >= 0)
        pd_fmt(o->origin[row].where, sizeof o->origin[row].where, PD_SETTINGS_AGAIN "train.%.200s",
               key);
}

/* A line "KEY = VALUE ; --set" of a section, n bytes without the mark. */
static int take_again(struct pd_options *o, const char *section, const char *line, size_t n,
                      struct pd_buf *taken, struct pd_err *err) {
    const char *eq = memchr(line, '=', n);
    char key[MAX_PART];
    struct pd_buf pair;
    if (!eq || pd_fmt(key, sizeof key, "%.*s", (int)(eq - line), line))
        return 0;
    pd_buf_init(&pair);
    pd_put_fmt(&pair, "%s.%s=", section, pd_trim(key));
    for (eq++; eq < line + n && *eq == ' ';)
        eq++;
    pd_put(&pair, eq, (size_t)(line + n - eq));
    pd_put_u8(&pair, 0);
    const char *text = (const char *)pair.data;
    int rc = pair.failed ? pd_oom(err, "a setting") : 0;
    if (!rc && !is_given(o, text) &&
        !(rc = pd_settings_add(o, PD_LAUNCHER, text, PD_FROM_ENV, err))) {
        mark_again(o, text);
        pd_put_fmt(taken, " --set %s", text);
    }
    pd_buf_release(&pair);
    return rc;
}

int pd_settings_again(struct pd_options *o, const char *text, struct pd_buf *taken,
                      struct pd_err *err) {
    const size_t mark = sizeof MARK - 1;
    char section[MAX_PART] = "";
    int rc = 0;
    for (const char *p = text; *p && !rc;) {
        const size_t n = strcspn(p, "\n");
        if (*p == '[') {
            pd_fmt(section, sizeof section, "%.*s", (int)strcspn(p + 1, "]\n"), p + 1);
            char *blank = strchr(section, ' ');
            if (blank)
                *blank = '.';
        } else if (n > mark && !memcmp(p + n - mark, MARK, mark)) {
            rc = take_again(o, section, p, n - mark, taken, err);
        }
        p += n + (p[n] == '\n');
    }
    return rc;
}

static void rewrite(const struct applying *a, const struct pd_buf *text, struct pd_buf *out,
                    int *line) {
    const char *p = (const char *)text->data, *end = p + text->len;
    int number = 0;
    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        put_line(a, p, (size_t)((nl ? nl : end) - p), ++number, out);
        p = nl ? nl + 1 : end;
    }
    for (size_t i = 0; i < a->o->n_settings; i++) {
        const struct pd_setting *s = &a->o->settings[i];
        line[i] = a->at[i].first;
        if (line[i] || !is_of_train_ini(s))
            continue;
        pd_put_fmt(out, "[%s]" MARK "\n", s->section);
        put_pair(a->o, s, out);
        line[i] = number += 2;
    }
}

int pd_settings_apply(const struct pd_options *o, const char *name, struct pd_buf *text,
                      int line[PD_MAX_SETTINGS], struct pd_err *err) {
    struct applying a = {o, NULL};
    struct pd_buf out = {0};
    int own[PD_MAX_SETTINGS], rc = 0, any = 0;
    for (size_t i = 0; i < o->n_settings; i++)
        any |= is_of_train_ini(&o->settings[i]);
    if (!any)
        return 0;
    if (!(a.at = pd_calloc(o->n_settings, sizeof *a.at)))
        return pd_oom(err, "a setting");
    for (size_t i = 0; i < o->n_settings; i++)
        a.at[i].distance = 99;
    rc = pd_ini_read_spans(name, (const char *)text->data, text->len, on_span, &a, err);
    for (size_t i = 0; i < o->n_settings && !rc; i++)
        rc = check_place(&o->settings[i], &a.at[i], name, err);
    if (!rc) {
        rewrite(&a, text, &out, line ? line : own);
        if (out.failed)
            rc = pd_oom(err, "the text of train.ini");
    }
    if (!rc) {
        pd_buf_release(text);
        *text = out;
    } else {
        pd_buf_release(&out);
    }
    free(a.at);
    return rc;
}

void pd_settings_blame(const struct pd_options *o, const char *name,
                       const int line[PD_MAX_SETTINGS], struct pd_err *err) {
    size_t n = strlen(name);
    if (!err || strncmp(err->msg, name, n) || err->msg[n] != ':')
        return;
    char *rest = NULL;
    long number = strtol(err->msg + n + 1, &rest, 10);
    if (*rest != ':')
        return;
    for (size_t i = 0; i < o->n_settings; i++) {
        if (!is_of_train_ini(&o->settings[i]) || line[i] != number)
            continue;
        struct pd_err with = {0};
        pd_fail(&with, err->code, "--set %.300s%s", o->settings[i].text, rest);
        memcpy(err->msg, with.msg, sizeof err->msg);
        return;
    }
}
