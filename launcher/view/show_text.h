/* SPDX-License-Identifier: Apache-2.0 */
/* show_text.h - the text of a log line as a terminal shows it. */
#pragma once

enum show_level { SHOW_PLAIN, SHOW_WARNING, SHOW_ERROR, N_SHOW_LEVELS };

/* The length of a worker's prefix "I1124 18:39:15.123456  4711 shard.c:12] " (base/log.h): level,
 * date, thread, source file and line. 0: the line has none. *level is set in any case. */
size_t show_prefix(const char *p, size_t n, enum show_level *level);

/* Append a text without what a terminal must not get (pd_printable). Newlines, tabs and colours
 * ("\033[1;31m") stay, and other control codes are left out. With `colour` the text of a warning is
 * yellow and that of an error red. */
void show_put_text(struct pd_buf *b, const char *p, size_t n, enum show_level level, int colour);
/* Append the text as the inside of a JSON string; bytes that are no UTF-8 become U+FFFD. */
void show_put_json(struct pd_buf *b, const char *p, size_t n);
