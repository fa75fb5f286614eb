/* SPDX-License-Identifier: Apache-2.0 */
/* sections.c - sections of conf.ini whose keys are not in the table of options: [env], [groups],
 * [host PATTERN]. */
#include "conf/conf_internal.h"

const struct pd_host_option pd_host_keys[PD_HOST_N_KEYS] = {
    [PD_HOST_USER] = {"user", PD_STR, 0, 0, "user to log in as"},
    [PD_HOST_PORT] = {"port", PD_INT, 1, 65535, "port of its sshd"},
    [PD_HOST_ADDRESS] = {"address", PD_STR, 0, 0,
                         "address that ssh connects to instead of the name in hosts, like HostName "
                         "of ~/.ssh/config; "
                         "the nodes find each other's addresses by themselves, see nic"},
    [PD_HOST_IDENTITY_FILE] = {"identity_file", PD_PATH, 0, 0, "private key to log in with"},
    [PD_HOST_ROOT_DIR] = {"root_dir", PD_STR, 0, 0,
                          "folder on the host that holds everything paddlectl writes; ~ and %n "
                          "(node id) are replaced"},
};

enum { MAX_GROUPS = 4096, MAX_HOST_SECTIONS = 4096 };

int pd_env_set(struct pd_env_var **env, size_t *n, const char *name, const char *value,
               const char *where, struct pd_err *err) {
    for (const char *s = name; *s; s++)
        if (!(isalnum((unsigned char)*s) || *s == '_') || isdigit((unsigned char)*name))
            return pd_fail(err, PD_ECONF,
                           "%s: '%s' is no name of an environment variable: write NAME = value",
                           where, name);
    if (!*name)
        return pd_fail(err, PD_ECONF, "%s: an environment variable without a name", where);
    if (pd_utf8_valid(value, strlen(value)) != strlen(value)) /* it is sent as JSON */
        return pd_fail(err, PD_ECONF, "%s: the value of %s is not UTF-8 text", where, name);
    for (size_t i = 0; i < *n; i++)
        if (!strcmp((*env)[i].name, name))
            return pd_fail(err, PD_ECONF, "%s: %s is set twice, first at %s", where, name,
                           (*env)[i].where);
    struct pd_env_var *v = pd_realloc(*env, (*n + 1) * sizeof *v);
    if (!v)
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
    *env = v;
    v += (*n)++;
    *v = (struct pd_env_var){.name = pd_strdup(name), .value = pd_strdup(value)};
    snprintf(v->where, sizeof v->where, "%s", where);
    return v->name && v->value ? 0 : pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
}

/* Removes the variable, if it is set. */
static void env_unset(struct pd_env_var *env, size_t *n, const char *name) {
    for (size_t i = 0; i < *n; i++) {
        if (strcmp(env[i].name, name))
            continue;
        free(env[i].name);
        free(env[i].value);
        memmove(&env[i], &env[i + 1], (--*n - i) * sizeof *env);
        return;
    }
}

int pd_env_override(struct pd_options *o, const char *name, const char *value, const char *where,
                    struct pd_err *err) {
    env_unset(o->env, &o->n_env, name);
    for (size_t i = 0; i < o->n_host_sections; i++)
        env_unset(o->host_sections[i].env, &o->host_sections[i].n_env, name);
    return pd_env_set(&o->env, &o->n_env, name, value, where, err);
}

int pd_group_override(struct pd_options *o, const char *name, const char *hosts, const char *where,
                      struct pd_err *err) {
    for (size_t i = 0; i < o->n_groups; i++) {
        if (strcmp(o->groups[i].name, name))
            continue;
        free(o->groups[i].name);
        free(o->groups[i].hosts);
        memmove(&o->groups[i], &o->groups[i + 1], (--o->n_groups - i) * sizeof *o->groups);
        break;
    }
    return pd_group_set(o, name, hosts, where, err);
}

int pd_group_set(struct pd_options *o, const char *name, const char *hosts, const char *where,
                 struct pd_err *err) {
    for (const char *s = name; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("_-.", *s))
            return pd_fail(err, PD_ECONF,
                           "%s: '%s' is no name of a group: letters, digits, _ - and .", where,
                           name);
    for (size_t i = 0; i < o->n_groups; i++)
        if (!strcmp(o->groups[i].name, name))
            return pd_fail(err, PD_ECONF, "%s: group %s is there twice, first at %s", where, name,
                           o->groups[i].where);
    if (o->n_groups == MAX_GROUPS)
        return pd_fail(err, PD_ECONF, "%s: more than %d groups", where, MAX_GROUPS);
    struct pd_group *g = pd_realloc(o->groups, (o->n_groups + 1) * sizeof *g);
    if (!g)
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
    o->groups = g;
    g += o->n_groups++;
    *g = (struct pd_group){.name = pd_strdup(name), .hosts = pd_strdup(hosts)};
    snprintf(g->where, sizeof g->where, "%s", where);
    return g->name && g->hosts ? 0 : pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
}

const char *pd_host_pattern(const char *section) {
    if (!pd_starts_with(section, "host") || !isblank((unsigned char)section[4]))
        return NULL;
    section += 5;
    while (isblank((unsigned char)*section))
        section++;
    return *section ? section : NULL;
}

int pd_host_section_begin(struct pd_options *o, const char *pattern, const char *where,
                          struct pd_err *err) {
    if (o->n_host_sections == MAX_HOST_SECTIONS)
        return pd_fail(err, PD_ECONF, "%s: more than %d sections of hosts", where,
                       MAX_HOST_SECTIONS);
    struct pd_host_section *h = pd_realloc(o->host_sections, (o->n_host_sections + 1) * sizeof *h);
    if (!h)
        return pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
    o->host_sections = h;
    h += o->n_host_sections++;
    *h = (struct pd_host_section){.pattern = pd_strdup(pattern)};
    snprintf(h->where, sizeof h->where, "%s", where);
    return h->pattern ? 0 : pd_fail(err, PD_ENOMEM, "%s: out of memory", where);
}

static int unknown_key(const struct pd_options *o, const char *name, const char *where,
                       struct pd_err *err) {
    size_t best = 3;
    const char *near = NULL;
    for (int k = 0; k < PD_HOST_N_KEYS; k++) {
        size_t d = pd_edit_distance(name, pd_host_keys[k].name);
        if (d < best) {
            best = d;
            near = pd_host_keys[k].name;
        }
    }
    const char *pattern = o->host_sections[o->n_host_sections - 1].pattern;
    int row = near ? -1 : pd_options_find(name, PD_LAUNCHER);
    size_t n;
    if (near)
        return pd_fail(err, PD_ECONF, "%s: unknown key '%s' in [host %.100s], did you mean '%s'?",
                       where, name, pattern, near);
    if (row >= 0)
        return pd_fail(err, PD_ECONF,
                       "%s: '%s' is the same for all hosts and belongs to [%s]; a [host ...] may "
                       "have user, port, "
                       "address, identity_file, root_dir and env.NAME",
                       where, name, pd_option_table(&n)[row].section);
    return pd_fail(err, PD_ECONF,
                   "%s: unknown key '%s' in [host %.100s] (known: user, port, address, "
                   "identity_file, root_dir, env.NAME)",
                   where, name, pattern);
}

/* 1: the word is no name of a user or host: another program could take it for an option, or it
 * could garble a terminal. */
static int bad_word(const char *s) {
    if (!*s || *s == '-')
        return 1;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("._-:%$+\\", *s))
            return 1;
    return 0;
}

int pd_host_section_set(struct pd_options *o, const char *name, const char *value,
                        const char *where, const char *base_dir, struct pd_err *err) {
    struct pd_host_section *h = &o->host_sections[o->n_host_sections - 1];
    int k = 0;
    int64_t port;
    if (pd_starts_with(name, "env."))
        return pd_env_set(&h->env, &h->n_env, name + 4, value, where, err);
    while (k < PD_HOST_N_KEYS && strcmp(pd_host_keys[k].name, name))
        k++;
    if (k == PD_HOST_N_KEYS)
        return unknown_key(o, name, where, err);
    const struct pd_host_option *row = &pd_host_keys[k];
    if (h->value[k].text)
        return pd_fail(err, PD_ECONF, "%s: %s is set twice, first at %s", where, name,
                       h->value[k].where);
    if (!*value)
        return pd_fail(err, PD_ECONF, "%s: %s is empty; leave the line out", where, name);
    if (row->type == PD_INT && pd_parse_i64(value, (int64_t)row->min, (int64_t)row->max, &port))
        return pd_fail(err, PD_ECONF, "%s: %s is %.0f..%.0f, not '%s'", where, name, row->min,
                       row->max, value);
    if ((k == PD_HOST_USER || k == PD_HOST_ADDRESS) && bad_word(value))
        return pd_fail(err, PD_ECONF, "%s: not %s: '%s'", where,
                       k == PD_HOST_USER ? "a user name" : "a host's name or address", value);
    snprintf(h->value[k].where, sizeof h->value[k].where, "%s", where);
    return pd_option_text(&h->value[k].text, row->type == PD_PATH, value, base_dir, where, name,
                          err);
}

static void env_release(struct pd_env_var *env, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(env[i].name);
        free(env[i].value);
    }
    free(env);
}

void pd_sections_release(struct pd_options *o) {
    env_release(o->env, o->n_env);
    for (size_t i = 0; i < o->n_groups; i++) {
        free(o->groups[i].name);
        free(o->groups[i].hosts);
    }
    free(o->groups);
    for (size_t i = 0; i < o->n_host_sections; i++) {
        struct pd_host_section *h = &o->host_sections[i];
        free(h->pattern);
        for (int k = 0; k < PD_HOST_N_KEYS; k++)
            free(h->value[k].text);
        env_release(h->env, h->n_env);
    }
    free(o->host_sections);
}
