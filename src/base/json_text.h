/* SPDX-License-Identifier: Apache-2.0 */
/* json_text.h - the text of a member of a JSON object. */
#pragma once

#include <jansson.h>

/* "": the object has no such member, or it is no text. The text belongs to the object. */
static inline const char *pd_json_text(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}
