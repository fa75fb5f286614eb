/* SPDX-License-Identifier: Apache-2.0 */
/* schema_value.c - values of the keys of [data] and [field NAME]. */
#include "data/schema/schema_internal.h"

static const char blanks[] = " \t,";

int data_value_truth(const char *v, int *out, struct pd_err *err) {
    if (strcmp(v, "true") && strcmp(v, "false"))
        return pd_fail(err, PD_ECONF, "it is true or false, not '%s'", v);
    *out = v[0] == 't';
    return 0;
}

int data_value_whole(const char *v, uint64_t lo, uint64_t hi, uint64_t *out, struct pd_err *err) {
    if (pd_parse_u64(v, hi, out) || *out < lo)
        return pd_fail(err, PD_ECONF, "it is a whole number from %llu to %llu, not '%s'",
                       (unsigned long long)lo, (unsigned long long)hi, v);
    return 0;
}

int data_value_text(const char *v, char *out, size_t cap, struct pd_err *err) {
    return pd_fmt(out, cap, "%s", v) ? pd_fail(err, PD_ECONF, "it is too long") : 0;
}

/* A separator: a few characters, or the name of a character that is awkward in an ini file. */
int data_value_separator(const char *v, char out[8], struct pd_err *err) {
    static const struct {
        const char *name, *text;
    } named[] = {{"tab", "\t"},      {"blank", " "}, {"comma", ","},
                 {"semicolon", ";"}, {"bar", "|"},   {"colon", ":"}};
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (!strcmp(v, named[i].name))
            v = named[i].text;
    if (!*v || strlen(v) > 3 || strchr(v, '"') || pd_fmt(out, 8, "%s", v))
        return pd_fail(err, PD_ECONF,
                       "it is 1 to 3 characters (no quotes), or tab, blank, comma, semicolon, bar, "
                       "colon; not '%s'",
                       v);
    return 0;
}

int data_value_names(const char *v, char (**out)[PD_FIELD_NAME], uint32_t *n, struct pd_err *err) {
    uint32_t k = 0;
    for (const char *p = v + strspn(v, blanks); *p; p += strcspn(p, blanks), p += strspn(p, blanks))
        k++;
    if (!k || k > 65536)
        return pd_fail(err, PD_ECONF, "it is a list of names");
    free(*out);
    *n = 0;
    if (!(*out = pd_calloc(k, sizeof **out)))
        return pd_oom(err, "the fields of a sample");
    for (const char *p = v + strspn(v, blanks); *p; p += strspn(p, blanks)) {
        size_t len = strcspn(p, blanks);
        if (len >= PD_FIELD_NAME)
            return pd_fail(err, PD_ECONF, "'%.*s' is longer than %d characters",
                           (int)(len < 200 ? len : 200), p, PD_FIELD_NAME - 1);
        memcpy((*out)[(*n)++], p, len);
        p += len;
    }
    return 0;
}

int data_value_number(const char *v, float *out, struct pd_err *err) {
    double d;
    if (pd_parse_f64(v, -1e30, 1e30, &d))
        return pd_fail(err, PD_ECONF, "'%s' is not a number", v);
    *out = (float)d;
    return 0;
}

int data_value_numbers(const char *v, float **out, uint32_t *n, struct pd_err *err) {
    char(*text)[PD_FIELD_NAME] = NULL;
    uint32_t k = 0;
    int rc = data_value_names(v, &text, &k, err);
    free(*out);
    *out = rc ? NULL : pd_calloc(k, sizeof **out);
    if (!rc && !*out)
        rc = pd_oom(err, "the fields of a sample");
    for (uint32_t i = 0; !rc && i < k; i++)
        rc = data_value_number(text[i], &(*out)[i], err);
    *n = k;
    free(text);
    return rc;
}
