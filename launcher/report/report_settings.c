/* SPDX-License-Identifier: Apache-2.0 */
/* report_settings.c - the settings of a run, without secrets; see report.h. */
#include "launcher/record/record.h"
#include "launcher/report/report.h"

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
    const int rc = record_settings(into, dir, run, err);
    json_t *all = json_copy(into), *value;
    const char *key;
    json_object_foreach (all, key, value)
        if (may_be_secret(key))
            json_object_set_new(into, key, json_string("(not shown)"));
    json_decref(all);
    return rc;
}
