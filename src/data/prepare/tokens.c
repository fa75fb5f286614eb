/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.c - see tokens.h. Bytes outside ASCII separate words in `words` and are part of words in
 * `blanks`. */
#include "data/prepare/tokens.h"

static int whole_line(const char **text, size_t *n) {
    (void)text;
    (void)n;
    return 1;
}

static int behind_the_bar(const char **text, size_t *n) {
    const char *bar = memchr(*text, '|', *n);
    if (!bar)
        return 0;
    *n -= (size_t)(bar + 1 - *text);
    *text = bar + 1;
    return 1;
}

const struct data_text_format data_text_formats[] = {
    {"lines", whole_line},
    {"wordnet", behind_the_bar},
    {NULL, NULL},
};

static int letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static int digit(char c) { return c >= '0' && c <= '9'; }

/* [0-9]+ | [a-z]+(['-][a-z]+)* */
static const char *next_word(const char *s, const char *end, size_t *n) {
    while (s < end && !letter(*s) && !digit(*s))
        s++;
    if (s == end)
        return NULL;
    const char *p = s;
    if (digit(*s)) {
        while (p < end && digit(*p))
            p++;
    } else {
        while (p < end && letter(*p)) {
            while (p < end && letter(*p))
                p++;
            if (p + 1 < end && (*p == '\'' || *p == '-') && letter(p[1]))
                p++;
        }
    }
    *n = (size_t)(p - s);
    return s;
}

static int blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

static const char *next_between_blanks(const char *s, const char *end, size_t *n) {
    while (s < end && blank(*s))
        s++;
    if (s == end)
        return NULL;
    const char *p = s;
    while (p < end && !blank(*p))
        p++;
    *n = (size_t)(p - s);
    return s;
}

const struct data_tokenizer data_tokenizers[] = {
    {"words", 1, next_word},
    {"blanks", 0, next_between_blanks},
    {NULL, 0, NULL},
};

void data_token_lower(const struct data_tokenizer *t, char *s, size_t n) {
    for (size_t i = 0; t->lower_case && i < n; i++)
        if (s[i] >= 'A' && s[i] <= 'Z')
            s[i] = (char)(s[i] + 'a' - 'A');
}
