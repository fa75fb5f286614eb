/* SPDX-License-Identifier: Apache-2.0 */
/* bodies.c - see bodies.h. */
#include "wire/bodies.h"

#include "wire/client_bodies.h"

#define ROW(body, kind, field, least, most, absent) \
    {#field, WIRE_##kind, offsetof(struct body, field), least, most, absent, NULL},
#define TABLE(name, ROWS)                                             \
    static const struct wire_field name##_rows[] = {ROWS(ROW, name)}; \
    const struct wire_body wire_##name = {#name, name##_rows,         \
                                          sizeof name##_rows / sizeof name##_rows[0]};
WIRE_BODIES(TABLE)
WIRE_CLIENT_BODIES(TABLE)
