/* SPDX-License-Identifier: Apache-2.0 */
/* body.c - see body.h. */
#include "wire/body.h"

static int has_type(const json_t *v, enum wire_field_type type) {
    switch (type) {
    case WIRE_BOOL:
        return json_is_boolean(v);
    case WIRE_INT:
        return json_is_integer(v);
    case WIRE_TEXT:
        return json_is_string(v);
    case WIRE_ARRAY:
        return json_is_array(v);
    default:
        return json_is_object(v);
    }
}

/* The number that the field's bounds apply to. */
static int64_t measure(const json_t *v) {
    switch (json_typeof(v)) {
    case JSON_INTEGER:
        return json_integer_value(v);
    case JSON_STRING:
        return (int64_t)json_string_length(v);
    case JSON_ARRAY:
        return (int64_t)json_array_size(v);
    case JSON_OBJECT:
        return (int64_t)json_object_size(v);
    default:
        return json_is_true(v);
    }
}

static int get_field(void *field, const struct wire_field *f, json_t *v, const char *name,
                     struct pd_err *err) {
    static const char *const types[] = {"a boolean", "an integer", "a string", "an array",
                                        "an object"};
    static const char *const units[] = {"is", "is", "bytes are", "elements are", "members are"};
    if (f->type == WIRE_OBJECT && json_is_null(v))
        v = NULL;
    if (v && !has_type(v, f->type))
        return pd_fail(err, PD_EPROTO, "%s.%s is not %s", name, f->key, types[f->type]);
    const int64_t value = v ? measure(v) : f->absent;
    if (v && (value < f->least || value > f->most))
        return pd_fail(err, PD_EPROTO, "%s.%s: %lld %s outside %lld to %lld", name, f->key,
                       (long long)value, units[f->type], (long long)f->least, (long long)f->most);
    if (f->type == WIRE_TEXT)
        *(const char **)field = v ? json_string_value(v) : "";
    else if (f->type == WIRE_ARRAY || f->type == WIRE_OBJECT)
        *(json_t **)field = v;
    else
        *(int64_t *)field = value;
    return 0;
}

int wire_get(const struct wire_body *b, void *out, const json_t *o, struct pd_err *err) {
    int rc = !o || json_is_object(o) ? 0 : pd_fail(err, PD_EPROTO, "%s is not an object", b->name);
    for (const struct wire_field *f = b->fields; !rc && f < b->fields + b->n; f++)
        rc = get_field((char *)out + f->offset, f, json_object_get(o, f->key), b->name, err);
    return rc;
}

/* The text of the n bytes, cut after the last whole character within `most` bytes. */
static json_t *cut_text(const char *s, size_t n, size_t most) {
    struct pd_buf b = {0};
    for (size_t at = 0; at < n;) {
        const size_t valid = pd_utf8_valid(s + at, strnlen(s + at, n - at)), room = most - b.len;
        if (valid > room) {
            pd_put(&b, s + at, pd_utf8_valid(s + at, room));
            break;
        }
        pd_put(&b, s + at, valid);
        if ((at += valid) < n && room - valid < 3)
            break;
        if (at++ < n)
            pd_put(&b, "\xef\xbf\xbd", 3);
    }
    json_t *j = b.failed ? NULL : json_stringn(b.len ? (char *)b.data : "", b.len);
    pd_buf_release(&b);
    return j;
}

json_t *wire_text(const char *s, size_t n) { return cut_text(s, n, SIZE_MAX); }

/* A new reference; NULL: no memory. */
static json_t *put_field(const struct wire_field *f, const void *field) {
    const char *text;
    json_t *v;
    switch (f->type) {
    case WIRE_BOOL:
        return json_boolean(*(const int64_t *)field);
    case WIRE_INT:
        return json_integer(*(const int64_t *)field);
    case WIRE_TEXT:
        text = *(const char *const *)field;
        text = text ? text : "";
        /* A character that ends after `most` is cut whole, so it has to be seen whole. */
        return cut_text(text, strnlen(text, (size_t)f->most + 4), (size_t)f->most);
    default:
        v = *(json_t *const *)field;
        return v ? json_incref(v) : f->type == WIRE_ARRAY ? json_array() : json_null();
    }
}

json_t *wire_put(const struct wire_body *b, const void *in) {
    json_t *o = pd_fault("wire.put") ? NULL : json_object();
    int failed = !o;
    for (const struct wire_field *f = b->fields; !failed && f < b->fields + b->n; f++) {
        const void *field = (const char *)in + f->offset;
        failed = json_object_set_new(o, f->key, put_field(f, field));
    }
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}
