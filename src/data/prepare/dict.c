/* SPDX-License-Identifier: Apache-2.0 */
/* dict.c - see dict.h. A hash table (open addressing, linear probing, at most half full) of
 * entries; the spellings follow one another in a buffer. */
#include "data/prepare/dict.h"

#include "math/hash.h"

/* The markers that begin a dictionary; unknown words get the first one's id. */
static const struct {
    uint32_t n;
    const char *marker[3];
} kinds[] = {
    [DATA_DICT_WORDS] = {3, {"<unk>", "<s>", "<e>"}}, [DATA_DICT_CATEGORIES] = {1, {DATA_RARE}}};
enum { UNK, FIRST_CAP = 4096, MAX_FILE = 1 << 30 };

struct dict_entry {
    uint64_t count;
    uint64_t at; /* offset of the spelling in `words` */
    uint32_t n;
    uint32_t id; /* set by data_dict_finish */
};

struct data_dict {
    enum data_dict_kind kind;
    struct pd_buf words;
    struct dict_entry *entry;
    uint32_t n, cap;
    uint32_t *slot;   /* entry number + 1; 0: free */
    uint32_t n_slots; /* a power of two */
    uint64_t unk;
};

int data_dict_new(struct data_dict **out, enum data_dict_kind kind, struct pd_err *err) {
    struct data_dict *d = pd_calloc(1, sizeof *d);
    if (d) {
        d->kind = kind;
        pd_buf_init(&d->words);
        d->n_slots = FIRST_CAP;
        d->slot = pd_calloc(d->n_slots, sizeof *d->slot);
    }
    if (!d || !d->slot) {
        data_dict_free(d);
        return pd_fail(err, PD_ENOMEM, "out of memory for the dictionary");
    }
    *out = d;
    return 0;
}

void data_dict_free(struct data_dict *d) {
    if (!d)
        return;
    pd_buf_release(&d->words);
    free(d->entry);
    free(d->slot);
    free(d);
}

static uint64_t hash(const char *s, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)s[i]) * 0x100000001b3u;
    return pd_mix64(h);
}

static const char *spelling(const struct data_dict *d, const struct dict_entry *e) {
    return (const char *)d->words.data + e->at;
}

/* Returns the slot of this word, or the free slot where it belongs. */
static uint32_t *find(const struct data_dict *d, const char *s, size_t n) {
    for (uint64_t i = hash(s, n);; i++) {
        uint32_t *slot = &d->slot[i & (d->n_slots - 1)];
        if (!*slot)
            return slot;
        const struct dict_entry *e = &d->entry[*slot - 1];
        if (e->n == n && !memcmp(spelling(d, e), s, n))
            return slot;
    }
}

static int rehash(struct data_dict *d, uint32_t n_slots) {
    uint32_t *slot = pd_calloc(n_slots, sizeof *slot);
    if (!slot)
        return PD_ENOMEM;
    free(d->slot);
    d->slot = slot;
    d->n_slots = n_slots;
    for (uint32_t i = 0; i < d->n; i++)
        *find(d, spelling(d, &d->entry[i]), d->entry[i].n) = i + 1;
    return 0;
}

static struct dict_entry *add(struct data_dict *d, const char *s, size_t n) {
    if (d->n == d->cap) {
        uint32_t cap = d->cap ? 2 * d->cap : FIRST_CAP / 2;
        struct dict_entry *grown =
            d->cap < INT32_MAX / 4 ? pd_realloc(d->entry, cap * sizeof *grown) : NULL;
        if (!grown)
            return NULL;
        d->entry = grown;
        d->cap = cap;
    }
    if (2 * (d->n + 1) > d->n_slots && rehash(d, 2 * d->n_slots))
        return NULL;
    uint64_t at = d->words.len;
    if (pd_buf_reserve(&d->words, n ? n : 1))
        return NULL;
    pd_put(&d->words, s, n);
    uint32_t *slot = find(d, s, n);
    struct dict_entry *e = &d->entry[d->n++];
    *e = (struct dict_entry){.at = at, .n = (uint32_t)n};
    *slot = d->n;
    return e;
}

static int marker(const struct data_dict *d, const char *s, size_t n) {
    for (uint32_t i = 0; i < kinds[d->kind].n; i++)
        if (strlen(kinds[d->kind].marker[i]) == n && !memcmp(kinds[d->kind].marker[i], s, n))
            return (int)i;
    return -1;
}

int data_dict_count(struct data_dict *d, const char *word, size_t n, struct pd_err *err) {
    if (marker(d, word, n) >= 0)
        return 0;
    if (n > DICT_MAX_WORD)
        return pd_fail(err, PD_EDATA, "a word has %zu bytes, which is too long: '%.40s...'", n,
                       word);
    uint32_t *slot = find(d, word, n);
    struct dict_entry *e = *slot ? &d->entry[*slot - 1] : add(d, word, n);
    if (!e)
        return pd_fail(err, PD_ENOMEM, "out of memory for a dictionary of %" PRIu32 " words", d->n);
    e->count++;
    return 0;
}

struct ranked {
    const struct data_dict *d;
    struct dict_entry e;
};

static int by_frequency(const void *pa, const void *pb) {
    const struct ranked *a = pa, *b = pb;
    if (a->e.count != b->e.count)
        return a->e.count < b->e.count ? 1 : -1;
    uint32_t n = a->e.n < b->e.n ? a->e.n : b->e.n;
    int c = memcmp(spelling(a->d, &a->e), spelling(b->d, &b->e), n);
    return c ? c : a->e.n < b->e.n ? -1 : a->e.n > b->e.n;
}

int data_dict_finish(struct data_dict *d, uint64_t min_freq, struct pd_err *err) {
    struct ranked *r = pd_calloc(d->n, sizeof *r);
    struct data_dict *kept = NULL;
    uint32_t n = 0, n_markers = kinds[d->kind].n;
    uint64_t left_out = 0;
    int rc = r ? data_dict_new(&kept, d->kind, err)
               : pd_fail(err, PD_ENOMEM, "out of memory for the dictionary");
    for (uint32_t i = 0; !rc && i < d->n; i++) {
        if (d->entry[i].count >= min_freq)
            r[n++] = (struct ranked){d, d->entry[i]};
        else
            left_out += d->entry[i].count;
    }
    if (!rc)
        qsort(r, n, sizeof *r, by_frequency);
    for (uint32_t i = 0; !rc && i < n_markers + n; i++) {
        const struct dict_entry *e = i < n_markers ? NULL : &r[i - n_markers].e;
        const char *text = e ? spelling(d, e) : kinds[d->kind].marker[i];
        struct dict_entry *new = add(kept, text, e ? e->n : strlen(text));
        if (!new) {
            rc = pd_fail(err, PD_ENOMEM, "out of memory for the dictionary");
        } else {
            new->id = i;
            new->count = e ? e->count : i == UNK ? left_out : 0;
        }
    }
    free(r);
    if (!rc) {
        struct data_dict t = *d;
        *d = *kept;
        *kept = t;
        d->unk = UNK;
    }
    data_dict_free(kept);
    return rc;
}

int data_dict_read(struct data_dict **out, const char *path, struct pd_err *err) {
    struct pd_buf text = {0};
    struct data_dict *d = NULL;
    int rc = pd_read_file(path, MAX_FILE, &text, err), seen = 0;
    if (!rc)
        rc = data_dict_new(&d, DATA_DICT_WORDS, err);
    const char *s = (const char *)text.data, *end = s ? s + text.len : s;
    while (!rc && s < end) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        size_t n = (size_t)((nl ? nl : end) - s);
        n -= n && s[n - 1] == '\r';
        int m = marker(d, s, n);
        if (n == 0 || n > DICT_MAX_WORD || memchr(s, ' ', n))
            rc = pd_fail(err, PD_EDATA, "%s:%" PRIu32 ": each line must hold one word", path,
                         d->n + 1);
        else if (*find(d, s, n))
            rc = pd_fail(err, PD_EDATA, "%s:%" PRIu32 ": '%.*s' is already in the dictionary", path,
                         d->n + 1, (int)(n < 80 ? n : 80), s);
        else if (!add(d, s, n))
            rc = pd_fail(err, PD_ENOMEM, "%s: out of memory", path);
        else {
            d->entry[d->n - 1].id = d->n - 1;
            if (m >= 0)
                seen |= 1 << m;
            if (m == UNK)
                d->unk = d->n - 1;
        }
        s = nl ? nl + 1 : end;
    }
    for (uint32_t i = 0; !rc && i < kinds[DATA_DICT_WORDS].n; i++)
        if (!(seen & 1 << i))
            rc = pd_fail(err, PD_EDATA, "%s: the line '%s' is missing", path,
                         kinds[DATA_DICT_WORDS].marker[i]);
    pd_buf_release(&text);
    if (rc) {
        data_dict_free(d);
        return rc;
    }
    *out = d;
    return 0;
}

void data_dict_print(const struct data_dict *d, struct pd_buf *out) {
    for (uint32_t i = 0; i < d->n; i++) {
        pd_put(out, spelling(d, &d->entry[i]), d->entry[i].n);
        pd_put(out, "\n", 1);
    }
}

void data_dict_print_counts(const struct data_dict *d, struct pd_buf *out) {
    for (uint32_t i = 0; i < d->n; i++) {
        pd_put(out, spelling(d, &d->entry[i]), d->entry[i].n);
        pd_put_fmt(out, "\t%" PRIu64 "\n", d->entry[i].count);
    }
}

uint64_t data_dict_size(const struct data_dict *d) { return d->n; }

uint64_t data_dict_id(const struct data_dict *d, const char *word, size_t n) {
    uint32_t slot = *find(d, word, n);
    return slot ? d->entry[slot - 1].id : d->unk;
}

uint64_t data_dict_unk(const struct data_dict *d) { return d->unk; }
