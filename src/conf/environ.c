/* SPDX-License-Identifier: Apache-2.0 */
/* environ.c - options from the environment: PADDLE_INIT_<OPTION>, PADDLE_INIT_SET, and the
 * variables that scripts of the original system set. */
#include "conf/options.h"
#include "conf/settings.h"

/* The lines of PADDLE_INIT_SET. */
static int read_settings(struct pd_options *o, unsigned who, const char *lines,
                         struct pd_err *err) {
    char *copy = pd_strdup(lines), *save = NULL;
    int rc = copy ? 0 : pd_oom(err, "the settings of " PD_SETTINGS_VARIABLE);
    for (char *s = copy ? strtok_r(copy, "\n", &save) : NULL; s && !rc;
         s = strtok_r(NULL, "\n", &save))
        rc = pd_settings_add(o, who, s, PD_FROM_ENV, err);
    free(copy);
    return rc;
}

/* --- variables of the original system --- */

/* PADDLE_INIT_* and the command line have priority; of several variables for one option the first
 * counts. */
static const struct {
    const char *variable, *option;
    unsigned who;
} originals[] = {
    {"PADDLE_TRAINER_ID", "trainer_id", PD_TRAINER},
    {"PADDLE_TRAINERS_NUM", "num_gradient_servers", PD_WORKER},
    {"PADDLE_TRAINERS", "num_gradient_servers", PD_WORKER},
    {"PADDLE_PSERVERS_IP_PORT_LIST", "pservers", PD_TRAINER},
    {"PADDLE_PSERVERS", "pservers", PD_TRAINER},
    {"CPU_NUM", "trainer_count", PD_TRAINER},
    {"PADDLE_CURRENT_ENDPOINT", NULL, PD_PSERVER},
    {"POD_IP", "nics", PD_PSERVER},
    {"PADDLE_PORT", "port", PD_WORKER},
};

static const char *value_of(char *const *env, const char *variable) {
    const size_t n = strlen(variable);
    for (; *env; env++)
        if (!strncmp(*env, variable, n) && (*env)[n] == '=')
            return (*env)[n + 1] ? *env + n + 1 : NULL;
    return NULL;
}

static int set_lower(struct pd_options *o, unsigned who, const char *option, const char *value,
                     const char *where, struct pd_err *err) {
    const int row = pd_options_find(option, who);
    if (row < 0 || o->origin[row].level >= PD_FROM_ENV)
        return 0;
    return pd_options_set(o, who, NULL, option, value, PD_FROM_ENV, where, NULL, err);
}

/* "10.0.0.1:6170" or "[2001:db8::1]:6170": the address and the port of a pserver. */
static int set_endpoint(struct pd_options *o, unsigned who, const char *text, const char *where,
                        struct pd_err *err) {
    char ip[100];
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0, cut = n > 2 && *text == '[';
    if (!n || pd_fmt(ip, sizeof ip, "%.*s", (int)(n - 2 * cut), text + cut))
        return pd_fail(err, PD_ECONF, "%s is ADDRESS:PORT, not '%.100s'", where, text);
    int rc = set_lower(o, who, "nics", strcmp(ip, "localhost") ? ip : "127.0.0.1", where, err);
    return rc ? rc : set_lower(o, who, "port", colon + 1, where, err);
}

static int read_originals(struct pd_options *o, unsigned who, char *const *env,
                          struct pd_err *err) {
    int rc = 0;
    for (size_t i = 0; i < sizeof originals / sizeof originals[0] && !rc; i++) {
        const char *name = originals[i].variable, *value = value_of(env, name);
        if (!(originals[i].who & who) || !value)
            continue;
        if (!originals[i].option)
            rc = set_endpoint(o, who, value, name, err);
        else
            rc = set_lower(o, who, originals[i].option,
                           !strcmp(name, "POD_IP") && !strcmp(value, "localhost") ? "127.0.0.1"
                                                                                  : value,
                           name, err);
    }
    return rc;
}

int pd_options_read_environ(struct pd_options *o, unsigned who, char *const *environ_,
                            struct pd_err *err) {
    char *const *env = environ_;
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    for (; *env; env++) {
        if (pd_starts_with(*env, PD_SETTINGS_VARIABLE "=") && (who & PD_WORKER)) {
            int rc = read_settings(o, who, *env + strlen(PD_SETTINGS_VARIABLE "="), err);
            if (rc)
                return rc;
        }
        if (!pd_starts_with(*env, "PADDLE_INIT_"))
            continue;
        char name[64] = "", where[80];
        const char *eq = strchr(*env, '=');
        size_t k = eq ? (size_t)(eq - *env) - 12 : 0;
        if (!eq || !k || k >= sizeof name)
            continue;
        for (size_t i = 0; i < k; i++)
            name[i] = (char)tolower((unsigned char)(*env)[12 + i]);
        int row = pd_options_find(name, who);
        if (row < 0)
            continue;
        snprintf(where, sizeof where, "%.*s", (int)(eq - *env), *env);
        int rc =
            pd_options_set(o, who, t[row].section, name, eq + 1, PD_FROM_ENV, where, NULL, err);
        if (rc)
            return rc;
    }
    return read_originals(o, who, environ_, err);
}
