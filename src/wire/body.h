/* body.h - reads a JSON message body by a table of its fields: key, type, bounds and default stand
 * in one place. */
#ifndef PD_WIRE_BODY_H
#define PD_WIRE_BODY_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum wire_field_type { WIRE_BOOL, WIRE_INT, WIRE_TEXT };

struct wire_field {
    const char *key;
    enum wire_field_type type;
    size_t offset;       /* of an int64_t or uint64_t in the struct; WIRE_TEXT: of a const char * */
    int64_t least, most; /* WIRE_INT: the value; WIRE_TEXT: bytes */
    int64_t absent;      /* the value if the key is missing; a missing text is "" */
    const char *option;  /* the option of conf.ini whose value the field carries, or NULL */
};

/* Fill the struct `out` from `o`. Texts point into `o`. Keys without a row are ignored, so that an
 * older agent understands a newer client. PD_EPROTO names the key: a value has the wrong type or is
 * out of bounds. `name` is the body's name for messages. */
int wire_get_fields(void *out, const struct wire_field *table, size_t n, const json_t *o,
                    const char *name, struct pd_err *err);

#endif
