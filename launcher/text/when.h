/* SPDX-License-Identifier: Apache-2.0 */
/* when.h - parses a point in time as people write it. */
#pragma once

/* Parse `text` to microseconds since 1970:
 * - "10m" ago ("1h30m", "45s", "2d")
 * - "2026-11-21", "2026-11-21T10:00", "2026-11-21 10:00:30.5": local time, or with "Z" or "+01:00"
 * - "10:00" today
 * - "@1795255200.25": seconds since 1970
 *
 * PD_EUSAGE: the message names `option`. */
int when_parse(const char *text, const char *option, uint64_t now_us, uint64_t *us,
               struct pd_err *err);

/* Format a span of time: "45 s", "12 min", "3 h 05 min", "2 d 4 h". */
void when_span(char *out, uint64_t cap, uint64_t us);
