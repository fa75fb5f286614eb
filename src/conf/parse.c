/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c - parses values of options from files, environment and command line. */
#include "conf/ini_file.h"
#include "conf/conf_internal.h"
#include "conf/settings.h"

static int choice_index(const char *choices, const char *value) {
    size_t n = strlen(value);
    for (int i = 0; choices; i++) {
        if (!strncmp(choices, value, n) && (choices[n] == '|' || !choices[n]) && n)
            return i;
        const char *bar = strchr(choices, '|');
        choices = bar ? bar + 1 : NULL;
    }
    return -1;
}

static int parse_bool(const char *v, int64_t *out) {
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(v, words[i])) {
            *out = (int64_t)(i % 2);
            return 0;
        }
    return -1;
}

int pd_option_text(char **out, int is_path, const char *value, const char *base_dir,
                   const char *where, const char *name, struct pd_err *err) {
    char path[PATH_MAX];
    const char *home = getenv("HOME");
    int rc = 0;
    if (is_path && pd_starts_with(value, "~/") && home)
        rc = pd_fmt(path, sizeof path, "%s%s", home, value + 1);
    else if (is_path && *value && *value != '/' && base_dir && *base_dir)
        rc = pd_fmt(path, sizeof path, "%s/%s", base_dir, value);
    else if (is_path)
        rc = pd_fmt(path, sizeof path, "%s", value);
    if (rc)
        return pd_fail(err, PD_ECONF, "%s: %s: the value is too long", where, name);
    char *s = pd_strdup(is_path ? path : value);
    if (!s)
        return pd_fail(err, PD_ENOMEM, "%s: %s: out of memory", where, name);
    *out = s;
    return 0;
}

static int ends_with(const char *s, const char *end) {
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

int pd_option_assign(struct pd_options *o, size_t i, const char *value, const char *where,
                     const char *base_dir, struct pd_err *err) {
    size_t n;
    const struct pd_option *row = &pd_option_table(&n)[i];
    void *field = pd_option_field(o, i);
    int64_t v = -1;
    uint64_t bytes;
    switch (row->type) {
    case PD_STR:
    case PD_PATH: {
        if ((*value == '"' || *value == '\'') && !ends_with(row->name, "_command"))
            return pd_fail(err, PD_ECONF, "%s: %s is written without quotes, not %s", where,
                           row->name, value);
        char *s;
        int rc = pd_option_text(&s, row->type == PD_PATH, value, base_dir, where, row->name, err);
        if (rc)
            return rc;
        free(*(char **)field);
        *(char **)field = s;
        return 0;
    }
    case PD_F64:
        if (pd_parse_f64(value, row->min, row->max, (double *)field) &&
            (!row->choices || pd_parse_f64(value, 0, 0, (double *)field)))
            return pd_fail(err, PD_ECONF, "%s: %s is %g..%g%s%s%s, not '%s'", where, row->name,
                           row->min, row->max, *row->unit ? " " : "", row->unit,
                           row->choices ? ", or 0" : "", value);
        return 0;
    case PD_INT:
        if (row->choices && !strcmp(value, row->choices))
            *(int64_t *)field = (int64_t)row->min - 1;
        else if (pd_parse_i64(value, (int64_t)row->min, (int64_t)row->max, (int64_t *)field))
            return row->min >= row->max
                       ? pd_fail(err, PD_ECONF, "%s: %s can only be %.0f, not '%s'", where,
                                 row->name, row->min, value)
                       : pd_fail(err, PD_ECONF, "%s: %s is %.0f..%.0f%s%s%s%s, not '%s'", where,
                                 row->name, row->min, row->max, *row->unit ? " " : "", row->unit,
                                 row->choices ? ", or " : "", row->choices ? row->choices : "",
                                 value);
        return 0;
    case PD_SIZE:
        if (pd_parse_size(value, (uint64_t)row->max, &bytes) || bytes < (uint64_t)row->min) {
            char low[32], high[32];
            return pd_fail(err, PD_ECONF, "%s: %s is %s..%s bytes (suffixes K, M, G), not '%s'",
                           where, row->name, pd_size_text((uint64_t)row->min, low),
                           pd_size_text((uint64_t)row->max, high), value);
        }
        v = (int64_t)bytes;
        break;
    case PD_BOOL:
        if (parse_bool(value, &v))
            return pd_fail(err, PD_ECONF, "%s: %s is 0 or 1, not '%s'", where, row->name, value);
        break;
    case PD_CHOICE:
        if ((v = choice_index(row->choices, value)) < 0)
            return pd_fail(err, PD_ECONF, "%s: %s is one of %s, not '%s'", where, row->name,
                           row->choices, value);
        break;
    }
    *(int64_t *)field = v;
    return 0;
}

/* Variables of the original system's conf.py, which are options of [cluster] here. */
static const struct {
    const char *variable, *option;
} conf_py[] = {
    {"HOSTS", "hosts"},
    {"ROOT_DIR", "root_dir"},
    {"PADDLE_NIC", "nic"},
    {"PADDLE_PORT", "port"},
    {"PADDLE_PORTS_NUM", "ports_num"},
    {"PADDLE_PORTS_NUM_FOR_SPARSE", "ports_num_for_sparse"},
};

static const char *conf_py_option(const char *name) {
    for (size_t i = 0; i < sizeof conf_py / sizeof conf_py[0]; i++)
        if (!strcmp(conf_py[i].variable, name))
            return conf_py[i].option;
    return NULL;
}

/* A value as Python writes it: ["root@a", "root@b"] becomes root@a, root@b. */
static char *conf_py_value(const char *value) {
    char *copy = pd_strdup(value), *to = copy;
    size_t n = strlen(value);
    if (!copy || !strpbrk(value, "\"'"))
        return copy;
    int is_list = n > 1 && *value == '[' && value[n - 1] == ']';
    for (const char *s = value + is_list; s < value + n - is_list; s++)
        if (*s != '"' && *s != '\'')
            *to++ = *s;
    *to = 0;
    return copy;
}

static void normalize(char *out, size_t cap, const char *name) {
    const char *option = conf_py_option(name);
    snprintf(out, cap, "%s", option ? option : name);
    for (char *s = out; *s; s++)
        *s = *s == '-' ? '_' : *s;
}

/* Without a section the name may be "section.name". A plain name that two sections have means
 * [train], the later row. */
static int find(const char *section, const char *name, unsigned who) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    const char *dot = section ? NULL : strchr(name, '.');
    for (size_t i = n; i-- > 0;) {
        if (!(t[i].who & who) || strcmp(t[i].name, dot ? dot + 1 : name))
            continue;
        if (section ? !strcmp(section, t[i].section)
                    : !dot || (!strncmp(t[i].section, name, (size_t)(dot - name)) &&
                               !t[i].section[dot - name]))
            return (int)i;
    }
    return -1;
}

int pd_options_find(const char *name, unsigned who) {
    char norm[64];
    normalize(norm, sizeof norm, name);
    return find(NULL, norm, who);
}

static const char *why_refused(const char *name) {
    for (const struct pd_refused_option *r = pd_refused_options; r->name; r++)
        if (!strcmp(r->name, name))
            return r->why;
    return NULL;
}

/* Row with the nearest name, in `section` or (NULL) anywhere; -1: no name is near. */
static int nearest(const char *section, const char *name, unsigned who, size_t *best) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    int at = -1;
    for (size_t i = 0; i < n; i++) {
        size_t d = t[i].who & who && (!section || !strcmp(section, t[i].section))
                       ? pd_edit_distance(name, t[i].name)
                       : 99;
        if (d < *best) {
            *best = d;
            at = (int)i;
        }
    }
    return at;
}

/* The error for an unknown key in a file. */
static int unknown_key(const char *section, const char *name, unsigned who, int code,
                       const char *where, struct pd_err *err) {
    size_t n, best = 3;
    const struct pd_option *t = pd_option_table(&n);
    const char *why = why_refused(name);
    int at = nearest(section, name, who, &best), elsewhere = find(NULL, name, who);
    if (why)
        return pd_fail(err, code, "%s: '%s' has no meaning here: %s", where, name, why);
    if (section && elsewhere >= 0)
        return pd_fail(err, code, "%s: '%s' does not belong to [%s] but to [%s]", where, name,
                       section, t[elsewhere].section);
    if (at >= 0)
        return pd_fail(err, code, "%s: unknown option '%s', did you mean '%s'?", where, name,
                       t[at].name);
    return pd_fail(err, code, "%s: unknown option '%s'; 'paddlectl conf' lists the options", where,
                   name);
}

/* The error for an unknown option on the command line, where a command's own options count too. */
static int unknown_word(const char *name, unsigned who, const struct pd_extra_option *extra,
                        struct pd_err *err) {
    size_t n, best = 3;
    const struct pd_option *t = pd_option_table(&n);
    const char *why = why_refused(name);
    int at = nearest(NULL, name, who, &best);
    char near[64] = "";
    if (why)
        return pd_fail(err, PD_EUSAGE, "--%s has no meaning here: %s", name, why);
    if (at >= 0)
        snprintf(near, sizeof near, "%s", t[at].name);
    for (; extra && extra->name; extra++) {
        char norm[64];
        normalize(norm, sizeof norm, extra->name);
        norm[strcspn(norm, "=")] = 0;
        if (pd_edit_distance(name, norm) < best) {
            best = pd_edit_distance(name, norm);
            snprintf(near, sizeof near, "%.*s", (int)strcspn(extra->name, "="), extra->name);
        }
    }
    if (*near)
        return pd_fail(err, PD_EUSAGE, "unknown option --%s, did you mean --%s?", name, near);
    return pd_fail(err, PD_EUSAGE, "unknown option --%s", name);
}

int pd_options_set(struct pd_options *o, unsigned who, const char *section, const char *name,
                   const char *value, enum pd_origin_level level, const char *where,
                   const char *base_dir, struct pd_err *err) {
    char norm[64];
    normalize(norm, sizeof norm, name);
    if (conf_py_option(name)) {
        char *plain = conf_py_value(value);
        int rc = plain ? pd_options_set(o, who, section, norm, plain, level, where, base_dir, err)
                       : pd_oom(err, "an option");
        free(plain);
        return rc;
    }
    int i = find(section, norm, who);
    if (i < 0)
        return unknown_key(section, norm, who, level == PD_FROM_ARGV ? PD_EUSAGE : PD_ECONF, where,
                           err);
    if (o->origin[i].level > level) {
        /* A higher source has set the option already; still check the value. */
        struct pd_options scratch;
        int rc = pd_options_init(&scratch, err);
        if (!rc) {
            rc = pd_option_assign(&scratch, (size_t)i, value, where, base_dir, err);
            pd_options_release(&scratch);
        }
        return rc;
    }
    int rc = pd_option_assign(o, (size_t)i, value, where, base_dir, err);
    if (rc)
        return rc;
    o->origin[i].level = level;
    snprintf(o->origin[i].where, sizeof o->origin[i].where, "%s", where);
    return 0;
}

struct file {
    struct pd_options *o;
    const char *path;
    char dir[PATH_MAX];
    int train; /* only [train]; the other sections belong to the model */
    struct {
        int row, line;
    } seen[128];
    int n_seen;
};

static const char *const sections[] = {"cluster", "groups", "host", "slurm", "kubernetes",
                                       "ssh",     "job",    "env",  "train"};

static int on_section(void *arg, const char *section, int line, struct pd_err *err) {
    struct file *f = arg;
    char where[300];
    const char *near = NULL;
    size_t best = 3;
    snprintf(where, sizeof where, "%s:%d", f->path, line);
    if (f->train)
        return 0;
    const char *pattern = pd_host_pattern(section);
    if (pattern)
        return pd_host_section_begin(f->o, pattern, where, err);
    if (!strcmp(section, "host"))
        return pd_fail(err, PD_ECONF, "%s: which host? write [host node3] or [host node[3-5]]",
                       where);
    for (size_t k = 0; k < sizeof sections / sizeof sections[0]; k++) {
        size_t d = pd_edit_distance(sections[k], section);
        if (!d)
            return 0;
        if (d < best) {
            best = d;
            near = sections[k];
        }
    }
    if (near)
        return pd_fail(err, PD_ECONF, "%s: unknown section [%.100s], did you mean [%s]?", where,
                       section, near);
    return pd_fail(
        err, PD_ECONF,
        "%s: unknown section [%.100s] (known: cluster, groups, host NAME, slurm, kubernetes, "
        "ssh, job, env, train)",
        where, section);
}

static int on_pair(void *arg, const char *section, const char *name, const char *value, int line,
                   struct pd_err *err) {
    struct file *f = arg;
    char where[300];
    snprintf(where, sizeof where, "%s:%d", f->path, line);
    if (f->train && strcmp(section, "train"))
        return 0;
    if (!*section && conf_py_option(name)) /* conf.py had no sections */
        section = "cluster";
    if (!*section)
        return pd_fail(err, PD_ECONF, "%s: '%s' stands above the first [section]", where, name);
    if (!strcmp(section, "env"))
        return pd_env_set(&f->o->env, &f->o->n_env, name, value, where, err);
    if (!strcmp(section, "groups"))
        return pd_group_set(f->o, name, value, where, err);
    if (pd_host_pattern(section))
        return pd_host_section_set(f->o, name, value, where, f->dir, err);
    char norm[64];
    normalize(norm, sizeof norm, name);
    int row = find(section, norm, PD_LAUNCHER | (f->train ? PD_WORKER : 0));
    for (int i = 0; i < f->n_seen; i++)
        if (f->seen[i].row == row && row >= 0)
            return pd_fail(err, PD_ECONF, "%s: %s is set twice, first in line %d", where, name,
                           f->seen[i].line);
    if (row >= 0 && f->n_seen < 128) {
        f->seen[f->n_seen].row = row;
        f->seen[f->n_seen++].line = line;
    }
    return pd_options_set(f->o, PD_LAUNCHER | (f->train ? PD_WORKER : 0), section, name, value,
                          f->train ? PD_FROM_TRAIN_INI : PD_FROM_CONF_INI, where, f->dir, err);
}

/* Default paths, too, are relative to the folder of conf.ini. */
static int place_defaults(struct file *f, struct pd_err *err) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        if (t[i].type == PD_PATH && *t[i].def && f->o->origin[i].level == PD_FROM_DEFAULT)
            rc = pd_option_assign(f->o, i, t[i].def, "default", f->dir, err);
    return rc;
}

static int read_file(struct pd_options *o, const char *path, int train, struct pd_err *err) {
    struct file f = {.o = o, .path = path, .train = train};
    const char *slash = strrchr(path, '/');
    if (pd_fmt(f.dir, sizeof f.dir, "%.*s", slash ? (int)(slash - path) : 0, path))
        return pd_fail(err, PD_ECONF, "path too long: %s", path);
    if (slash == path)
        pd_fmt(f.dir, sizeof f.dir, "/");
    if (!train) {
        free(o->conf_dir);
        if (!(o->conf_dir = pd_strdup(f.dir)))
            return pd_fail(err, PD_ENOMEM, "%s: out of memory", path);
    }
    int rc = pd_ini_read(path, on_section, on_pair, &f, err);
    return rc || train ? rc : place_defaults(&f, err);
}

int pd_options_read_conf(struct pd_options *o, const char *path, struct pd_err *err) {
    return read_file(o, path, 0, err);
}
int pd_options_read_train(struct pd_options *o, const char *path, struct pd_err *err) {
    return read_file(o, path, 1, err);
}

int pd_options_read_train_text(struct pd_options *o, const char *name, const char *text, size_t n,
                               struct pd_err *err) {
    struct file f = {.o = o, .path = name, .train = 1};
    return pd_ini_read_text(name, text, n, NULL, on_pair, &f, err);
}

/* Sets an option of the list `extra`. 1: done; 0: not in the list; PD_EUSAGE. *used: words taken
 * after the first. */
static int take_extra(const struct pd_extra_option *extra, const char *name, const char *value,
                      const char *next, int *used, struct pd_err *err) {
    for (; extra && extra->name; extra++) {
        char norm[64];
        int len = (int)strcspn(extra->name, "=");
        normalize(norm, sizeof norm, extra->name);
        if (strlen(name) != (size_t)len || strncmp(norm, name, (size_t)len) ||
            (!extra->flag && !extra->value))
            continue;
        int64_t v = 1;
        if (extra->flag) {
            if (value && parse_bool(value, &v) && extra->value)
                *extra->value = value;
            else if (value && parse_bool(value, &v))
                return pd_fail(err, PD_EUSAGE, "--%.*s is 0 or 1, not '%s'", len, extra->name,
                               value);
            *extra->flag = (int)v;
            return 1;
        }
        if (!value && !next)
            return pd_fail(err, PD_EUSAGE, "--%.*s needs a value", len, extra->name);
        *used = value ? 0 : 1;
        *extra->value = value ? value : next;
        return 1;
    }
    return 0;
}

static int take_args(struct pd_options *o, unsigned who, int argc, char **argv,
                     const struct pd_extra_option *extra, int command, const char **rest,
                     int *n_rest, struct pd_err *err) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    *n_rest = 0;
    for (int i = 0; i < argc; i++) {
        const char *word = strcmp(argv[i], "-h") ? argv[i] : "--help";
        int all_words = !strcmp(word, "--");
        if (all_words || ((who & PD_UP_TO_WORD) && (word[0] != '-' || !word[1]))) {
            for (i += all_words; i < argc; i++)
                rest[(*n_rest)++] = argv[i];
            break;
        }
        if (!pd_starts_with(word, "--")) {
            if (word[0] == '-' && word[1])
                return pd_fail(err, PD_EUSAGE,
                               "unknown option '%s'; options are written --name=value", word);
            rest[(*n_rest)++] = word;
            while (command && i + 1 < argc) /* the rest belongs to the command */
                rest[(*n_rest)++] = argv[++i];
            continue;
        }
        char name[64], where[80];
        const char *eq = strchr(word, '='), *value = eq ? eq + 1 : NULL,
                   *next = i + 1 < argc ? argv[i + 1] : NULL;
        size_t len = eq ? (size_t)(eq - word) - 2 : strlen(word) - 2;
        if (len >= sizeof name)
            return pd_fail(err, PD_EUSAGE, "unknown option '%.40s...'", word);
        char raw[64];
        snprintf(raw, sizeof raw, "%.*s", (int)len, word + 2);
        normalize(name, sizeof name, raw);
        int used = 0, rc = take_extra(extra, name, value, next, &used, err);
        if (rc < 0)
            return rc;
        i += used;
        if (rc)
            continue;
        snprintf(where, sizeof where, "--%s", raw);
        if (!strcmp(name, "set") && (who & (PD_LAUNCHER | PD_WORKER))) {
            if (!value && !next)
                return pd_fail(err, PD_EUSAGE, "--set needs a value: SECTION.KEY=VALUE");
            i += !value;
            if ((rc = pd_settings_add(o, who, value ? value : next, PD_FROM_ARGV, err)))
                return rc;
            continue;
        }
        int row = find(NULL, name, who);
        if (row < 0)
            return unknown_word(name, who, extra, err);
        char file[70];
        int64_t on;
        pd_fmt(file, sizeof file, "%s_file", t[row].name);
        if (value && t[row].type == PD_BOOL && parse_bool(value, &on) &&
            find(NULL, file, who) >= 0) {
            /* --profile=FILE: --profile --profile_file=FILE */
            const struct pd_option *of = &t[find(NULL, file, who)];
            rc = pd_options_set(o, who, of->section, of->name, value, PD_FROM_ARGV, where, NULL,
                                err);
            if (rc)
                return rc;
            value = "1";
        }
        if (!value && t[row].type == PD_BOOL)
            value = next && (!strcmp(next, "0") || !strcmp(next, "1")) ? argv[++i] : "1";
        else if (!value && !next)
            return pd_fail(err, PD_EUSAGE, "%s needs a value", where);
        else if (!value)
            value = argv[++i];
        rc = pd_options_set(o, who, t[row].section, conf_py_option(raw) ? raw : t[row].name, value,
                            PD_FROM_ARGV, where, NULL, err);
        if (rc)
            return rc;
    }
    return 0;
}

int pd_options_args(struct pd_options *o, unsigned who, int argc, char **argv,
                    const struct pd_extra_option *extra, const char **rest, int *n_rest,
                    struct pd_err *err) {
    return take_args(o, who, argc, argv, extra, 0, rest, n_rest, err);
}

int pd_options_command(struct pd_options *o, unsigned who, int argc, char **argv,
                       const struct pd_extra_option *extra, const char **rest, int *n_rest,
                       struct pd_err *err) {
    return take_args(o, who, argc, argv, extra, 1, rest, n_rest, err);
}

void pd_options_text(const struct pd_options *o, size_t i, struct pd_buf *out) {
    size_t n;
    const struct pd_option *row = &pd_option_table(&n)[i];
    const void *field = pd_option_field(o, i);
    switch (row->type) {
    case PD_STR:
    case PD_PATH:
        pd_put(out, *(char *const *)field, strlen(*(char *const *)field));
        break;
    case PD_F64:
        pd_put_fmt(out, "%.17g", *(const double *)field);
        break;
    case PD_CHOICE: {
        const char *c = row->choices;
        for (int64_t k = *(const int64_t *)field; k > 0; k--)
            c = strchr(c, '|') + 1;
        pd_put(out, c, strcspn(c, "|"));
        break;
    }
    case PD_SIZE: {
        char text[32];
        pd_put_fmt(out, "%s", pd_size_text(*(const uint64_t *)field, text));
        break;
    }
    default:
        if (row->type == PD_INT && row->choices && *(const int64_t *)field < (int64_t)row->min)
            pd_put_fmt(out, "%s", row->choices);
        else
            pd_put_fmt(out, "%lld", (long long)*(const int64_t *)field);
    }
}
