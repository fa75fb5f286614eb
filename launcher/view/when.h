/* when.h - a point in time as people write it. */
#ifndef LAUNCHER_WHEN_H
#define LAUNCHER_WHEN_H

#include <stdint.h>

#include "base/err.h"

/* "10m" ago ("1h30m", "45s", "2d"); "2026-11-21", "2026-11-21T10:00", "2026-11-21 10:00:30.5", here
 * or with "Z" or "+01:00" behind; "10:00" today; "@1795255200.25" seconds since 1970. In
 * microseconds since 1970; PD_EUSAGE names `option`. */
int when_parse(const char *text, const char *option, uint64_t now_us, uint64_t *us,
               struct pd_err *err);

/* A span of time for people: "45 s", "12 min", "3 h 05 min", "2 d 4 h". */
void when_span(char *out, uint64_t cap, uint64_t us);

#endif
