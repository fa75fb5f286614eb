/* SPDX-License-Identifier: Apache-2.0 */
/* roff.h - text for manual pages (roff with the man macros). */
#pragma once

/* Write text as roff: characters that roff would interpret or replace become escapes. An empty line
 * begins a new paragraph. at_start: `s` begins a line of the output. */
void roff_text(struct pd_buf *out, const char *s, size_t n, int at_start);

/* Write Markdown as the sections of a page; the title becomes the section DESCRIPTION. Markdown
 * here is headings, paragraphs, indented blocks, tables, links and `code`, and nothing else. */
void roff_markdown(const char *s, struct pd_buf *out);
