/* SPDX-License-Identifier: Apache-2.0 */
/* block.c - see block.h. */
#include "data/schema/block.h"

#include "data/schema/format.h"
#include "data/input/lines.h"

enum { FIRST_SAMPLES = 256 };

static int grow(struct data_block *b, const struct data_schema *s, uint32_t cap) {
    struct pd_field fields[PD_MAX_FIELDS];
    struct pd_batch more;
    if (cap > UINT32_MAX / 2)
        return PD_ENOMEM;
    for (uint32_t k = 0; k < s->n_fields; k++)
        fields[k] = s->field[k].batch;
    struct data_sample_place *where = pd_realloc(b->where, cap * sizeof *where);
    if (!where)
        return PD_ENOMEM;
    b->where = where;
    if (pd_batch_init(&more, fields, s->n_fields, cap))
        return PD_ENOMEM;
    if (b->samples.n && pd_batch_append(&more, &b->samples, 0, b->samples.n)) {
        pd_batch_release(&more);
        return PD_ENOMEM;
    }
    pd_batch_release(&b->samples);
    b->samples = more;
    return 0;
}

int data_block_init(struct data_block *b, const struct data_schema *s) {
    memset(b, 0, sizeof *b);
    pd_buf_init(&b->messages);
    b->cap_text = BLOCK_BYTES;
    if (!(b->text = pd_malloc(b->cap_text)) || grow(b, s, FIRST_SAMPLES)) {
        data_block_release(b);
        return PD_ENOMEM;
    }
    return 0;
}

void data_block_release(struct data_block *b) {
    free(b->text);
    free(b->where);
    free(b->bad);
    pd_buf_release(&b->messages);
    pd_batch_release(&b->samples);
    memset(b, 0, sizeof *b);
}

void data_block_clear(struct data_block *b) {
    b->len = 0;
    b->header = b->long_line = b->is_end = b->rc = 0;
    b->n_bad = 0;
    b->err.code = 0;
    pd_buf_clear(&b->messages);
    pd_batch_clear(&b->samples);
}

int data_block_reserve(struct data_block *b, size_t bytes) {
    return pd_grow(b->text, b->cap_text, bytes);
}

/* --- for the formats --- */

struct pd_batch *data_sample_begin(struct data_parser *p) {
    struct pd_batch *s = &p->block->samples;
    if (s->n == s->cap && grow(p->block, p->schema, 2 * s->cap))
        return NULL;
    for (uint32_t k = 0; k < s->n_fields; k++)
        if (s->offset[k])
            s->offset[k][s->n + 1] = s->offset[k][s->n];
    return s;
}

int data_sample_add_id(struct data_parser *p, uint32_t k, uint64_t id, float weight) {
    struct pd_batch *s = &p->block->samples;
    const struct pd_field *f = &s->field[k];
    uint32_t at = s->offset[k][s->n + 1];
    if (at - s->offset[k][s->n] >= f->max_ids)
        return data_bad(p, "field '%s' has more than %u ids", f->name, f->max_ids);
    if (at == s->room[k] && pd_batch_reserve(s, k, at - s->offset[k][s->n] + 1))
        return PD_ENOMEM;
    s->ids[k][at] = id;
    if (f->weighted)
        s->values[k][at] = weight;
    s->offset[k][s->n + 1] = at + 1;
    return 0;
}

void data_sample_lacks(struct data_parser *p) {
    struct pd_batch *s = &p->block->samples;
    for (uint32_t k = 0; k < s->n_fields; k++) {
        const struct pd_field *f = &s->field[k];
        if (p->schema->may_lack[k] && f->kind == PD_ID)
            s->ids[k][s->n] = 0;
        else if (p->schema->may_lack[k] && f->kind == PD_DENSE)
            memset(s->values[k] + (size_t)s->n * f->width, 0, f->width * sizeof(float));
    }
}

void data_sample_end(struct data_parser *p) {
    struct data_block *b = p->block;
    b->where[b->samples.n++] = p->where;
    p->where.in_line++;
}

int data_parse_id(const char *s, const char *end, uint64_t *out) {
    uint64_t v = 0;
    if (s == end)
        return 0;
    for (; s < end; s++) {
        uint64_t d = (uint64_t)(uint8_t)(*s - '0');
        if (d > 9 || v > (UINT64_MAX - d) / 10)
            return 0;
        v = v * 10 + d;
    }
    *out = v;
    return 1;
}

static int slow_number(const char *s, const char *end, double *out) {
    char text[64];
    size_t n = (size_t)(end - s);
    if (n >= sizeof text || memchr(s, 0, n))
        return 0;
    memcpy(text, s, n);
    text[n] = 0;
    return !pd_parse_f64(*text == '+' ? text + 1 : text, -1e300, 1e300, out);
}

/* Fast path: digits with at most one point, whose value is below 2^53. The value and the power of
 * ten are then exact in a double. */
int data_parse_number(const char *s, const char *end, double *out) {
    static const double ten[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *p = s;
    uint64_t v = 0;
    uint32_t digits = 0, behind = 0;
    int negative = p < end && *p == '-', point = 0;
    for (p += negative; p < end; p++) {
        uint8_t d = (uint8_t)(*p - '0');
        if (d <= 9) {
            v = v * 10 + d;
            digits++;
            behind += (uint32_t)point;
        } else if (*p == '.' && !point) {
            point = 1;
        } else {
            return slow_number(s, end, out);
        }
        if (digits > 15)
            return slow_number(s, end, out);
    }
    if (!digits)
        return 0;
    double x = (double)v / ten[behind];
    *out = negative ? -x : x;
    return 1;
}

int data_scale(const struct data_parse_plan *plan, const struct data_field *f, uint32_t slot,
               double x, float *out) {
    if (f->transform == DATA_LOG) {
        x = x > 0 ? x : 0;
        uint32_t i = x < PLAN_LOGS ? (uint32_t)x : 0;
        x = i == x && x < PLAN_LOGS ? plan->log[i] : log1p(x);
    }
    if (f->mean)
        x -= f->mean[slot];
    if (f->std)
        x /= f->std[slot];
    *out = (float)x;
    return isfinite(*out);
}

int data_bad(struct data_parser *p, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->why, sizeof p->why, fmt, ap);
    va_end(ap);
    return PD_EDATA;
}

int data_bad_text(struct data_parser *p, const char *s, const char *end, const char *what) {
    return data_bad(p, "'%.*s' %s", (int)(end - s < 40 ? end - s : 40), s, what);
}

int data_bad_short(struct data_parser *p) {
    char why[sizeof p->why];
    if (!p->schema->complete_for)
        return PD_EDATA;
    memcpy(why, p->why, sizeof why);
    return data_bad(p, "%s; for layer '%s' no line may lack a field", why, p->schema->complete_for);
}

/* --- parsing --- */

static int add_bad(struct data_block *b, const struct data_parser *p, const char *name,
                   const char *why, int is_note) {
    if (pd_grow(b->bad, b->cap_bad, (size_t)b->n_bad + 1))
        return PD_ENOMEM;
    b->bad[b->n_bad] = (struct data_bad_line){b->samples.n, p->where.at, p->where.line,
                                              (uint32_t)b->messages.len, is_note};
    pd_put_fmt(&b->messages, "%s:%" PRIu64 ": %s", name, b->line + p->where.line, why);
    pd_put_u8(&b->messages, 0);
    if (b->messages.failed)
        return PD_ENOMEM;
    b->n_bad++;
    return 0;
}

static int same_header(const struct data_parse_plan *plan, const char *s, size_t n) {
    return !plan->header || (n == plan->n_header && !memcmp(s, plan->header, n));
}

/* Parses one line. The samples of a bad line are removed. */
static int one_line(struct data_parser *p, const char *name, char *s, size_t n) {
    struct data_block *b = p->block;
    uint32_t before = b->samples.n;
    int records = p->schema->format->records;
    if (!records && n && s[n - 1] == '\r')
        n--;
    if (b->header && p->where.line == 0 && b->line == 1) {
        if (same_header(p->plan, s, n))
            return 0;
        return pd_fail(&b->err, PD_EDATA, "%s:1: the header differs from that of the first file",
                       name);
    }
    if (!n)
        return 0;
    p->why[0] = 0;
    int rc = n > DATA_MAX_LINE && !records ? PD_EDATA : p->schema->format->line(p, s, n);
    if (rc == 0 && p->schema->tells_empty && b->samples.n == before)
        rc = add_bad(b, p, name, data_no_sample(p), 1);
    if (rc == 0)
        return 0;
    b->samples.n = before;
    if (rc == PD_EDATA)
        rc = add_bad(b, p, name,
                     n > DATA_MAX_LINE && !records ? "the line is longer than 1 MiB" : p->why, 0);
    return rc ? pd_fail(&b->err, rc, "out of memory for samples of %s", name) : 0;
}

void data_block_parse(struct data_block *b, struct data_parser *p, const char *name) {
    char *s = b->text, *end = b->text + b->len;
    size_t record = p->schema->format->records ? (size_t)p->schema->field[0].batch.width + 1 : 0;
    p->block = b;
    p->where = (struct data_sample_place){0, 0, 0};
    if (b->rc)
        return;
    if (b->long_line && add_bad(b, p, name, "the line is longer than 1 MiB", 0))
        b->rc = pd_fail(&b->err, PD_ENOMEM, "out of memory for samples of %s", name);
    while (s < end && !b->rc) {
        char *stop = record ? s + record : memchr(s, '\n', (size_t)(end - s));
        size_t n = (size_t)((stop ? stop : end) - s);
        p->where.at = (uint32_t)(s - b->text);
        p->where.in_line = 0;
        b->rc = one_line(p, name, s, n);
        p->where.line++;
        s += n + (!record && stop);
    }
}
