/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_bodies.c - libFuzzer: JSON bodies (wire/bodies.h, wire/client_bodies.h, wire/job_spec.h). A
 * body that is accepted is written and accepted again, with the same result. */
#include "wire/client_bodies.h"
#include "wire/job_spec.h"
#include "tests/support/fuzz/fuzz.h"

enum { STRUCT_MAX = 512 };

#define BODY(name, ROWS) &wire_##name,
#define FITS(name, ROWS) _Static_assert(sizeof(struct name) <= STRUCT_MAX, #name);
WIRE_BODIES(FITS)
WIRE_CLIENT_BODIES(FITS)
static const struct wire_body *const bodies[] = {&wire_job_spec,
                                                 WIRE_BODIES(BODY) WIRE_CLIENT_BODIES(BODY)};

static void check(const struct wire_body *b, const json_t *o) {
    _Alignas(8) char first[STRUCT_MAX], second[STRUCT_MAX];
    struct pd_err err = {0};
    if (wire_get(b, first, o, &err)) {
        if (!*err.msg)
            abort();
        return;
    }
    json_t *copy = wire_put(b, first), *again;
    if (wire_get(b, second, copy, &err))
        abort();
    again = wire_put(b, second);
    if (!json_equal(copy, again))
        abort();
    json_decref(copy);
    json_decref(again);
}

FUZZ(in) {
    const uint8_t *data = in->p;
    const size_t size = fuzz_left(in);
    json_t *o = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    for (size_t i = 0; json_is_object(o) && i < sizeof bodies / sizeof bodies[0]; i++)
        check(bodies[i], o);
    json_decref(o);
}
