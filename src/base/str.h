/* str.h - numbers out of text with bounds, and fixed-size paths that never truncate in silence. */
#ifndef PD_BASE_STR_H
#define PD_BASE_STR_H

#include <stddef.h>
#include <stdint.h>

/* The whole of `s` as a decimal integer in [min, max]; -1 when it is not one. No blanks, no sign
 * for u64. */
int pd_parse_i64(const char *s, int64_t min, int64_t max, int64_t *out);
int pd_parse_u64(const char *s, uint64_t max, uint64_t *out);
/* The whole of `s` as a finite number in [min, max]; locale-independent; -1 when it is not one. */
int pd_parse_f64(const char *s, double min, double max, double *out);

/* A number of bytes, with or without a suffix: 1000, 64K, 256m, 1.5G (of 1024). And back, with the
 * largest suffix that leaves a whole number; returns `out`. */
int pd_parse_size(const char *s, uint64_t max, uint64_t *out);
const char *pd_size_text(uint64_t v, char out[32]);

/* snprintf that reports truncation: 0, or -1 and an empty `out`. */
int pd_fmt(char *out, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* What somebody else wrote, made fit for a terminal: control codes become blanks, but for line ends
 * and tabs. In place; returns s. */
char *pd_plain(char *s);

size_t pd_utf8_valid(const char *s, size_t n); /* bytes from the start that are valid UTF-8 */
char *pd_trim(char *s);                        /* in place; returns the first non-blank */
int pd_starts(const char *s, const char *prefix);
int pd_ends(const char *s, const char *suffix);
/* How many letters must change, come or go (Levenshtein); 99 for names above 60 bytes. For "did you
 * mean", up to 2. */
size_t pd_distance(const char *a, const char *b);
void pd_hex(char *out, const void *bytes, size_t n); /* 2n digits and a NUL */
int pd_unhex(void *out, size_t n, const char *hex);  /* exactly 2n digits; 0 or -1 */

#endif
