/* SPDX-License-Identifier: Apache-2.0 */
/* str.h - parsing of numbers with bounds, and formatting that never truncates silently. */
#pragma once

/* Parse all of `s` as a decimal integer in [min, max]; -1 if `s` is anything else. No blanks; no
 * sign for u64. */
int pd_parse_i64(const char *s, int64_t min, int64_t max, int64_t *out);
int pd_parse_u64(const char *s, uint64_t max, uint64_t *out);
/* Parse all of `s` as a finite number in [min, max], independent of the locale; -1 if `s` is
 * anything else. */
int pd_parse_f64(const char *s, double min, double max, double *out);

/* Parse a number of bytes, with or without a suffix (powers of 1024): 1000, 64K, 256m, 1.5G.
 * pd_size_text formats with the largest suffix that leaves a whole number; returns `out`. */
int pd_parse_size(const char *s, uint64_t max, uint64_t *out);
const char *pd_size_text(uint64_t v, char out[32]);

/* snprintf that reports truncation: 0, or -1 and an empty `out`. */
int pd_fmt(char *out, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Length of the beginning of the text that is safe for a terminal. After it come *bad bytes (0: the
 * text ends): a control code (C0, DEL, C1; newline and tab, too), a code that changes the direction
 * of text, or a byte that is no UTF-8. */
size_t pd_printable(const char *s, size_t n, size_t *bad);
/* Make foreign text safe for a terminal, in place: control codes other than newline and tab become
 * blanks, bytes that are no UTF-8 become "?". Returns s. */
char *pd_make_printable(char *s);

size_t pd_utf8_valid(const char *s, size_t n); /* length of the valid UTF-8 prefix in bytes */
char *pd_trim(char *s);                        /* in place; returns the first non-blank */
int pd_starts_with(const char *s, const char *prefix);
int pd_ends_with(const char *s, const char *suffix);
/* Levenshtein distance in bytes, where two exchanged neighbours count as one change; 99 for names
 * above 60 bytes. "Did you mean" accepts up to 2. */
size_t pd_edit_distance(const char *a, const char *b);
/* Writes the end of an error about the unknown name `name`: ", did you mean 'x'?" with the nearest
 * of the names `known` ("a, b, c"), or " (known: a, b, c)". Returns `out`. */
const char *pd_suggest(char *out, size_t cap, const char *name, const char *known);
void pd_hex(char *out, const void *bytes, size_t n); /* 2n digits and a NUL */
int pd_unhex(void *out, size_t n, const char *hex);  /* exactly 2n digits; 0 or -1 */
