/* SPDX-License-Identifier: Apache-2.0 */
/* record_settings.c - the settings of a run; see record.h. */
#include "conf/ini_file.h"
#include "launcher/record/record_internal.h"

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

int record_settings(json_t *into, const char *dir, const json_t *run, struct pd_err *err) {
    char path[PATH_MAX];
    struct pd_buf text = {0};
    const char *key;
    json_t *value;
    int rc = record_path(dir, "train.ini", path, err);
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
    return rc;
}
