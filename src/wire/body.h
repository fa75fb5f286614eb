/* SPDX-License-Identifier: Apache-2.0 */
/* body.h - reads and writes a JSON message body by a table of its fields: key, type, bounds and
 * default stand in one place. */
#pragma once

#include <jansson.h>

enum wire_field_type { WIRE_BOOL, WIRE_INT, WIRE_TEXT, WIRE_ARRAY, WIRE_OBJECT };

struct wire_field {
    const char *key;
    enum wire_field_type type;
    /* In the struct. BOOL, INT: an int64_t or uint64_t; TEXT: a const char *; ARRAY, OBJECT: a
     * json_t *. */
    size_t offset;
    int64_t least, most; /* INT: the value; TEXT: bytes; ARRAY, OBJECT: elements */
    int64_t absent;      /* BOOL, INT: the value of a missing key */
    const char *option;  /* the option of conf.ini whose value the field carries, or NULL */
};

struct wire_body {
    const char *name; /* for error messages */
    const struct wire_field *fields;
    size_t n;
};

/* Fill the struct `out` from `o`. Texts and JSON values belong to `o`. A missing text is "", a
 * missing array or object NULL, like an object that is null. A NULL `o` misses all keys. Keys
 * without a row are ignored, so that an older agent understands a newer client. PD_EPROTO names the
 * key whose value has the wrong type or is out of bounds. */
int wire_get(const struct wire_body *b, void *out, const json_t *o, struct pd_err *err);
/* A new object from the struct `in`; its JSON values stay the caller's. Each key is written: NULL
 * as
 * "", [] or null. Bytes of a text that are no UTF-8 become U+FFFD; a text that is too long is cut.
 * NULL: no memory. */
json_t *wire_put(const struct wire_body *b, const void *in);
/* A JSON string of any bytes: those that are no UTF-8, and zeros, become U+FFFD. NULL: no memory.
 */
json_t *wire_text(const char *s, size_t n);
