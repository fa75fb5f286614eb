/* SPDX-License-Identifier: Apache-2.0 */
/* when.c - see when.h. */
#include "launcher/text/when.h"

enum { SECONDS_MAX = 1000000000 }; /* the longest span: 31 years */

/* Read at most n digits. */
static int take_number(const char **p, int n, int *out) {
    int v = 0, k = 0;
    while (k < n && **p >= '0' && **p <= '9') {
        v = v * 10 + *(*p)++ - '0';
        k++;
    }
    *out = v;
    return k ? 0 : -1;
}

static uint64_t take_fraction(const char **p) {
    uint64_t us = 0, unit = 100000;
    if (**p != '.')
        return 0;
    for (++*p; **p >= '0' && **p <= '9'; ++*p, unit /= 10)
        us += unit * (uint64_t)(**p - '0');
    return us;
}

/* Parse "1h30m". */
static int parse_span(const char *p, uint64_t *seconds) {
    static const struct {
        char letter;
        uint64_t seconds;
    } units[] = {{'w', 604800}, {'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    *seconds = 0;
    if (!*p)
        return -1;
    while (*p) {
        int n;
        size_t u = 0;
        if (take_number(&p, 9, &n))
            return -1;
        while (u < sizeof units / sizeof units[0] && units[u].letter != *p)
            u++;
        if (u == sizeof units / sizeof units[0])
            return -1;
        p++;
        *seconds += (uint64_t)n * units[u].seconds;
        if (*seconds > SECONDS_MAX)
            return -1;
    }
    return 0;
}

static int parse_clock(const char **p, struct tm *tm, uint64_t *us) {
    if (take_number(p, 2, &tm->tm_hour) || *(*p)++ != ':' || take_number(p, 2, &tm->tm_min) ||
        tm->tm_hour > 23 || tm->tm_min > 59)
        return -1;
    if (**p != ':')
        return 0;
    ++*p;
    if (take_number(p, 2, &tm->tm_sec) || tm->tm_sec > 60)
        return -1;
    *us = take_fraction(p);
    return 0;
}

static int parse_date(const char **p, struct tm *tm) {
    int year, month;
    if (take_number(p, 4, &year) || *(*p)++ != '-' || take_number(p, 2, &month) || *(*p)++ != '-' ||
        take_number(p, 2, &tm->tm_mday) || year < 1970 || month < 1 || month > 12 ||
        tm->tm_mday < 1 || tm->tm_mday > 31)
        return -1;
    tm->tm_year = year - 1900;
    tm->tm_mon = month - 1;
    return 0;
}

/* Parse the end of a time: nothing (local time), "Z", "+01:00" or "+0100". */
static int parse_zone(const char *p, struct tm *tm, time_t *t) {
    int hours, minutes, sign = *p == '-' ? -1 : 1;
    if (!*p) {
        tm->tm_isdst = -1;
        *t = mktime(tm);
        return 0;
    }
    if (!strcmp(p, "Z")) {
        *t = timegm(tm);
        return 0;
    }
    if (*p != '+' && *p != '-')
        return -1;
    p++;
    if (take_number(&p, 2, &hours))
        return -1;
    p += *p == ':';
    if (take_number(&p, 2, &minutes) || *p || hours > 14 || minutes > 59)
        return -1;
    *t = timegm(tm) - sign * (hours * 3600 + minutes * 60);
    return 0;
}

static int parse_point(const char *p, uint64_t now_us, uint64_t *us) {
    time_t t = (time_t)(now_us / 1000000);
    struct tm tm;
    uint64_t fraction = 0;
    localtime_r(&t, &tm);
    tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
    if (strchr(p, '-') && strchr(p, '-') - p == 4) {
        if (parse_date(&p, &tm))
            return -1;
        if (*p && (*p == 'T' || *p == ' ') && (p++, parse_clock(&p, &tm, &fraction)))
            return -1;
    } else if (parse_clock(&p, &tm, &fraction)) {
        return -1;
    }
    if (parse_zone(p, &tm, &t) || t < 0)
        return -1;
    *us = (uint64_t)t * 1000000 + fraction;
    return 0;
}

int when_parse(const char *text, const char *option, uint64_t now_us, uint64_t *us,
               struct pd_err *err) {
    uint64_t seconds;
    double epoch;
    if (*text == '@' && !pd_parse_f64(text + 1, 0, 1e11, &epoch)) {
        *us = (uint64_t)(epoch * 1e6 + 0.5);
        return 0;
    }
    if (!parse_span(text, &seconds)) {
        *us = seconds * 1000000 < now_us ? now_us - seconds * 1000000 : 1;
        return 0;
    }
    if (!parse_point(text, now_us, us))
        return 0;
    return pd_fail(err, PD_EUSAGE,
                   "%s is a span like 10m or 1h30m, a time like 2026-11-21T10:00 or 10:00, or "
                   "@SECONDS since 1970, not '%s'",
                   option, text);
}

void when_span(char *out, uint64_t cap, uint64_t us) {
    unsigned long long s = us / 1000000;
    if (s < 120)
        snprintf(out, cap, "%llu s", s);
    else if (s < 7200)
        snprintf(out, cap, "%llu min", s / 60);
    else if (s < 172800)
        snprintf(out, cap, "%llu h %02llu min", s / 3600, s / 60 % 60);
    else
        snprintf(out, cap, "%llu d %llu h", s / 86400, s / 3600 % 24);
}
