/* body.c - see body.h. */
#include "wire/body.h"

static int64_t number(const json_t *v) {
    return json_is_integer(v) ? json_integer_value(v) : json_is_true(v);
}

int wire_get_fields(void *out, const struct wire_field *table, size_t n, const json_t *o,
                    const char *name, struct pd_err *err) {
    for (const struct wire_field *f = table; f < table + n; f++) {
        static const char *const types[] = {"a boolean", "an integer", "a string"};
        const json_t *v = json_object_get(o, f->key);
        const int is_text = f->type == WIRE_TEXT;
        void *field = (char *)out + f->offset;
        if (v && !(is_text                ? json_is_string(v)
                   : f->type == WIRE_BOOL ? json_is_boolean(v)
                                          : json_is_integer(v)))
            return pd_fail(err, PD_EPROTO, "%s.%s is not %s", name, f->key, types[f->type]);
        const int64_t value = is_text ? (int64_t)json_string_length(v) : v ? number(v) : f->absent;
        if (v && (value < f->least || value > f->most))
            return pd_fail(err, PD_EPROTO, "%s.%s: %lld %s outside %lld to %lld", name, f->key,
                           (long long)value, is_text ? "bytes are" : "is", (long long)f->least,
                           (long long)f->most);
        if (is_text)
            *(const char **)field = v ? json_string_value(v) : "";
        else
            *(int64_t *)field = value;
    }
    return 0;
}
