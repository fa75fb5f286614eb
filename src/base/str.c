/* SPDX-License-Identifier: Apache-2.0 */
/* str.c - see str.h. */

int pd_parse_i64(const char *s, int64_t min, int64_t max, int64_t *out) {
    char *end;
    if (!(*s == '-' || (*s >= '0' && *s <= '9')))
        return -1;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno || end == s || *end || v < min || v > max)
        return -1;
    *out = v;
    return 0;
}

int pd_parse_u64(const char *s, uint64_t max, uint64_t *out) {
    char *end;
    if (!(*s >= '0' && *s <= '9'))
        return -1;
    errno = 0;
    unsigned long long v = strtoull(s, &end, 10);
    if (errno || *end || v > max)
        return -1;
    *out = v;
    return 0;
}

/* No program calls setlocale(LC_NUMERIC), so strtod always reads a decimal point. */
int pd_parse_f64(const char *s, double min, double max, double *out) {
    char *end;
    if (!*s || !strchr("+-.0123456789", *s))
        return -1;
    errno = 0;
    double v = strtod(s, &end);
    if (end == s || *end || !isfinite(v) || v < min || v > max)
        return -1;
    *out = v;
    return 0;
}

int pd_parse_size(const char *s, uint64_t max, uint64_t *out) {
    static const char suffixes[] = "KMGT";
    char digits[32];
    size_t n = strlen(s);
    const char *at = n > 1 ? strchr(suffixes, toupper((unsigned char)s[n - 1])) : NULL;
    double v, unit = at ? (double)(UINT64_C(1) << (10 * (at - suffixes + 1))) : 1;
    if (*s == '-' || pd_fmt(digits, sizeof digits, "%.*s", (int)(at ? n - 1 : n), s) ||
        pd_parse_f64(digits, 0, (double)max / unit, &v))
        return -1;
    v *= unit;
    if (v != (double)(uint64_t)v)
        return -1;
    *out = (uint64_t)v;
    return 0;
}

const char *pd_size_text(uint64_t v, char out[32]) {
    static const char suffixes[] = "\0KMGT";
    int i = 0;
    for (; v && i < 4 && v % 1024 == 0; i++)
        v /= 1024;
    snprintf(out, 32, "%llu%.1s", (unsigned long long)v, suffixes + i);
    return out;
}

int pd_fmt(char *out, size_t cap, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, cap, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < cap)
        return 0;
    if (cap)
        out[0] = 0;
    return -1;
}

/* Length of the valid UTF-8 sequence at p, or 0. Overlong forms, surrogates and values above
 * U+10FFFF are invalid. */
static size_t utf8_one(const unsigned char *p, size_t n) {
    static const struct {
        unsigned char lo, hi, len, min2, max2; /* first byte, length, bounds of the second byte */
    } forms[] = {
        {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
        {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
        {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f}};
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        if (p[0] < forms[f].lo || p[0] > forms[f].hi)
            continue;
        if (forms[f].len > n ||
            (forms[f].len > 1 && (p[1] < forms[f].min2 || p[1] > forms[f].max2)))
            return 0;
        for (size_t i = 2; i < forms[f].len; i++)
            if (p[i] < 0x80 || p[i] > 0xbf)
                return 0;
        return forms[f].len;
    }
    return 0;
}

size_t pd_utf8_valid(const char *s, size_t n) {
    size_t at = 0;
    for (size_t k; at < n && (k = utf8_one((const unsigned char *)s + at, n - at)) != 0;)
        at += k;
    return at;
}

/* Codes that change the direction of the text after them. */
static int turns_text(unsigned c) {
    return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

size_t pd_printable(const char *s, size_t n, size_t *bad) {
    const unsigned char *p = (const unsigned char *)s;
    size_t at = 0, k = 1;
    while (at < n) {
        if (p[at] < 127) {
            if (p[at] < ' ')
                break;
            at++;
            continue;
        }
        k = utf8_one(p + at, n - at);
        if (k < 2) { /* DEL, or no UTF-8 */
            k = 1;
            break;
        }
        const unsigned c = k == 2 ? (p[at] & 31u) << 6 | (p[at + 1] & 63u)
                           : k == 3
                               ? (p[at] & 15u) << 12 | (p[at + 1] & 63u) << 6 | (p[at + 2] & 63u)
                               : 0;
        if ((k == 2 && c < 0xa0) || turns_text(c))
            break;
        at += k;
        k = 1;
    }
    *bad = at < n ? k : 0;
    return at;
}

char *pd_make_printable(char *s) {
    char *to = s;
    size_t n = strlen(s), bad;
    for (char *p = s, *end = s + n; p < end; p += bad) {
        const size_t ok = pd_printable(p, (size_t)(end - p), &bad);
        memmove(to, p, ok);
        to += ok;
        p += ok;
        if (bad)
            *to++ = (char)(*p == '\n' || *p == '\t'              ? *p
                           : bad == 1 && (unsigned char)*p > 127 ? '?'
                                                                 : ' ');
    }
    *to = 0;
    return s;
}

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

char *pd_trim(char *s) {
    while (is_blank(*s))
        s++;
    size_t n = strlen(s);
    while (n && is_blank(s[n - 1]))
        s[--n] = 0;
    return s;
}

int pd_starts_with(const char *s, const char *prefix) {
    return !strncmp(s, prefix, strlen(prefix));
}

int pd_ends_with(const char *s, const char *suffix) {
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && !strcmp(s + n - m, suffix);
}

void pd_hex(char *out, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = "0123456789abcdef"[p[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[p[i] & 15];
    }
    out[2 * n] = 0;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

int pd_unhex(void *out, size_t n, const char *hex) {
    uint8_t *p = out;
    if (strlen(hex) != 2 * n)
        return -1;
    for (size_t i = 0; i < n; i++) {
        int hi = hex_digit(hex[2 * i]), lo = hex_digit(hex[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return -1;
        p[i] = (uint8_t)(hi << 4 | lo);
    }
    return 0;
}

size_t pd_edit_distance(const char *a, const char *b) {
    size_t row[3][64], n = strlen(a), m = strlen(b);
    if (n > 60 || m > 60)
        return 99;
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *p = row[(i - 1) % 3], *q = row[i % 3];
        q[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t d = p[j - 1] + (a[i - 1] != b[j - 1]);
            d = d < p[j] + 1 ? d : p[j] + 1;
            q[j] = d < q[j - 1] + 1 ? d : q[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                row[(i - 2) % 3][j - 2] + 1 < q[j])
                q[j] = row[(i - 2) % 3][j - 2] + 1;
        }
    }
    return row[n % 3][m];
}

const char *pd_suggest(char *out, size_t cap, const char *name, const char *known) {
    /* Short names are near to any other short name. */
    size_t best = strlen(name) < 3 ? 1 : strlen(name) < 6 ? 2 : 3;
    snprintf(out, cap, " (known: %s)", known);
    for (const char *p = known; *p;) {
        char word[64];
        const size_t n = strcspn(p, ",");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        const size_t d = pd_edit_distance(name, word);
        if (d < best) {
            best = d;
            snprintf(out, cap, ", did you mean '%s'?", word);
        }
        p += n;
        p += strspn(p, ", ");
    }
    return out;
}
