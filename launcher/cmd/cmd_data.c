/* cmd_data.c - helpers of prepare and split; see cmd_data.h. */
#include "launcher/cmd/cmd_data.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

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
