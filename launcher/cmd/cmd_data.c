/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_data.c - helpers of prepare and split; see cmd_data.h. */
#include "launcher/cmd/cmd_data.h"

#include <jansson.h>

#include "conf/settings.h"
#include "launcher/hosts/host_source.h"
#include "launcher/link/client_env.h"

enum { CONFIG_MAX = 1 << 20 };

int cmd_show_counts(const struct cmd_count *c, int json) {
    json_t *all = json_object();
    for (; c->name; c++) {
        if (json)
            json_object_set_new(all, c->name, json_integer((json_int_t)c->value));
        else
            printf("%-14s %llu\n", c->name, (unsigned long long)c->value);
    }
    if (json)
        return cmd_print_json(all);
    json_decref(all);
    return 0;
}

int cmd_number(const char *name, const char *text, uint64_t max, uint64_t *out,
               struct pd_err *err) {
    if (!text || !pd_parse_u64(text, max, out))
        return 0;
    return pd_fail(err, PD_EUSAGE, "%s must be 0..%llu, not '%s'", name, (unsigned long long)max,
                   text);
}

int cmd_truth(const char *name, const char *text, int *out, struct pd_err *err) {
    if (!text)
        return 0;
    if (!strcmp(text, "true") || !strcmp(text, "1"))
        *out = 1;
    else if (!strcmp(text, "false") || !strcmp(text, "0"))
        *out = 0;
    else
        return pd_fail(err, PD_EUSAGE, "%s must be true or false, not '%s'", name, text);
    return 0;
}

int cmd_read_train(struct pd_options *o, struct pd_err *err) {
    char path[4096];
    struct stat st;
    if (!*o->job_dispatch_package ||
        pd_fmt(path, sizeof path, "%s/%s", o->job_dispatch_package, o->config) || stat(path, &st))
        return 0;
    struct pd_buf text = {0};
    int rc = pd_options_read_train(o, path, err);
    if (!rc)
        rc = pd_read_file(path, CONFIG_MAX, &text, err);
    if (!rc)
        rc = pd_settings_apply(o, path, &text, NULL, err); /* its errors are those of --set */
    pd_buf_release(&text);
    return rc;
}

int cmd_n_streams(const struct pd_options *o, uint64_t *n, struct pd_err *err) {
    struct hosts hosts;
    int *trainers = NULL;
    size_t n_trainers = 0;
    *n = (uint64_t)o->n_streams;
    if (*n)
        return 0;
    int rc = host_source_load(&hosts, o, err);
    if (rc)
        return rc;
    rc = hosts_parse_roles(&trainers, &n_trainers, o->trainers, hosts.n, "trainers",
                           option_source(o, "trainers"), err);
    *n = n_trainers ? n_trainers : 1;
    free(trainers);
    hosts_release(&hosts);
    return rc;
}

int cmd_n_streams_of(const char *conf, uint64_t *n, struct pd_err *err) {
    struct pd_options o;
    if (!conf && access("conf.ini", F_OK))
        return 0;
    int rc = pd_options_init(&o, err);
    if (rc)
        return rc;
    rc = pd_options_read_conf(&o, conf ? conf : "conf.ini", err);
    if (!rc)
        rc = cmd_read_train(&o, err);
    if (!rc && (conf || *o.hosts))
        rc = cmd_n_streams(&o, n, err);
    pd_options_release(&o);
    return rc;
}

int cmd_data_parse(const struct cmd_line *line, int argc, char **argv, const char **rest,
                   int *n_rest) {
    struct pd_options o;
    int rc = cmd_parse(line, argc, argv, &o, rest, n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    pd_options_release(&o);
    if (*n_rest)
        return CMD_GO_ON;
    fprintf(stderr, "paddlectl: no input files given; see 'paddlectl %s --help'\n", argv[0]);
    return pd_code_exit_status(PD_EUSAGE);
}
