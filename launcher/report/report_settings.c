/* SPDX-License-Identifier: Apache-2.0 */
/* report_settings.c - the settings of a run, as for --set; see report.h. */
#include "conf/ini_file.h"
#include "launcher/report/report.h"

enum { INI_MAX = 4 << 20 };

static int on_pair(void *arg, const char *section, const char *name, const char *value, int line,
                   struct pd_err *err) {
    char key[1200];
    (void)line;
    if (pd_fmt(key, sizeof key, "%s.%s", section, name))
        return 0;
    for (size_t i = 0; section[i]; i++) /* [layer hidden] */
        if (key[i] == ' ')
            key[i] = '.';
    return json_object_set_new(arg, key, json_string(value))
               ? pd_fail(err, PD_EDATA, "the value of %s is not UTF-8 text", key)
               : 0;
}

/* Environments ([env], [host NAME] env.KEY) and commands may have passwords in them. */
static int may_be_secret(const char *key) {
    static const char *const commands[] = {"job.on_end", "job.trainer_command",
                                           "job.pserver_command"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (!strcmp(key, commands[i]))
            return 1;
    return pd_starts_with(key, "env.") || (pd_starts_with(key, "host.") && strstr(key, ".env."));
}

int report_settings(json_t *into, const char *dir, const json_t *run, struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_buf text = {0};
    const char *key;
    json_t *value;
    int rc = pd_fmt(path, sizeof path, "%s/train.ini", dir);
    if (!rc && !access(path, F_OK)) {
        rc = pd_read_regular(path, INI_MAX, &text, err);
        if (!rc)
            rc =
                pd_ini_read_text(path, (const char *)text.data, text.len, NULL, on_pair, into, err);
        pd_buf_release(&text);
    }
    json_object_foreach (json_object_get(run, "settings"), key, value)
        if (json_is_string(value))
            json_object_set(into, key, value);
    json_t *shown = json_copy(into);
    json_object_foreach (shown, key, value)
        if (may_be_secret(key))
            json_object_set_new(into, key, json_string("(not shown)"));
    json_decref(shown);
    return rc;
}
