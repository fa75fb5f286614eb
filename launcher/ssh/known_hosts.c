/* SPDX-License-Identifier: Apache-2.0 */
/* known_hosts.c - see known_hosts.h. */
#include "launcher/ssh/known_hosts.h"

#include <libssh/libssh.h>

enum { FILE_MAX_BYTES = 256 << 20, LINE_BUF = 16384, NAME_BUF = 300 };

struct known_key {
    char *names, *type, *key; /* into `line` */
    char *line;
    int file, line_no, revoked;
    struct known_key *next; /* same bucket */
};

struct known_hosts {
    struct known_key *v;
    size_t n, cap;
    struct known_key **bucket; /* by key; a power of two */
    size_t n_buckets;
    char **files;
    int n_files;
};

static size_t hash_key(const char *s) { /* FNV-1a */
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    return (size_t)(h ^ h >> 32);
}

/* Builds the whole index again, since entries move when the array grows. */
static int reindex(struct known_hosts *kh) {
    size_t want = 64;
    while (want < 2 * kh->n)
        want *= 2;
    if (want > kh->n_buckets) {
        struct known_key **b = pd_calloc(want, sizeof *b);
        if (!b)
            return PD_ENOMEM;
        free(kh->bucket);
        kh->bucket = b;
        kh->n_buckets = want;
    }
    memset(kh->bucket, 0, kh->n_buckets * sizeof *kh->bucket);
    for (size_t i = kh->n; i--;) { /* backwards: a chain keeps the order of the file */
        struct known_key **head = &kh->bucket[hash_key(kh->v[i].key) & (kh->n_buckets - 1)];
        kh->v[i].next = *head;
        *head = &kh->v[i];
    }
    return 0;
}

/* Parses and stores `line`, which is owned on success. 1: stored; 0: a line to skip; PD_ENOMEM. */
static int parse_line(struct known_hosts *kh, char *line, int file, int line_no) {
    struct known_key e = {.line = line, .file = file, .line_no = line_no};
    char *save = NULL, *word = strtok_r(line, " \t\r", &save);
    if (!word || *word == '#')
        return 0;
    if (*word == '@') {
        if (strcmp(word, "@revoked"))
            return 0;
        e.revoked = 1;
        word = strtok_r(NULL, " \t\r", &save);
    }
    e.names = word;
    e.type = strtok_r(NULL, " \t\r", &save);
    e.key = strtok_r(NULL, " \t\r", &save);
    if (!e.key)
        return 0;
    if (kh->n == kh->cap) {
        size_t cap = kh->cap ? 2 * kh->cap : 64;
        struct known_key *v = pd_realloc(kh->v, cap * sizeof *v);
        if (!v)
            return PD_ENOMEM;
        kh->v = v;
        kh->cap = cap;
    }
    kh->v[kh->n++] = e;
    return 1;
}

static int store_line(struct known_hosts *kh, const char *text, size_t n, int file, int line_no) {
    char *line = pd_malloc(n + 1);
    if (!line)
        return PD_ENOMEM;
    memcpy(line, text, n);
    line[n] = 0;
    int rc = parse_line(kh, line, file, line_no);
    if (rc != 1)
        free(line);
    return rc < 0 ? rc : 0;
}

static int load_file(struct known_hosts *kh, int file, struct pd_err *err) {
    struct pd_buf text = {0};
    struct pd_err read_err = {0};
    int rc = pd_read_file(kh->files[file], FILE_MAX_BYTES, &text, &read_err);
    if (rc == PD_ENOENT)
        rc = 0;
    else if (rc)
        rc = pd_fail(err, rc, "%s", read_err.msg);
    int line_no = 0;
    for (size_t i = 0; !rc && i < text.len;) {
        const char *s = (const char *)text.data + i, *nl = memchr(s, '\n', text.len - i);
        size_t n = nl ? (size_t)(nl - s) : text.len - i;
        line_no++;
        if (n && (rc = store_line(kh, s, n, file, line_no)))
            rc = pd_fail(err, rc, "%s: out of memory", kh->files[file]);
        i += n + 1;
    }
    pd_buf_release(&text);
    return rc;
}

int known_hosts_load(struct known_hosts **out, const char *const *files, size_t n_files,
                     struct pd_err *err) {
    struct known_hosts *kh = pd_calloc(1, sizeof *kh);
    if (!kh)
        return pd_oom(err, "the known hosts");
    kh->files = pd_calloc(n_files, sizeof *kh->files);
    int rc = kh->files ? 0 : pd_oom(err, "the known hosts");
    for (size_t i = 0; !rc && i < n_files; i++) {
        if (!(kh->files[i] = pd_strdup(files[i])))
            rc = pd_oom(err, "the known hosts");
        else
            rc = load_file(kh, kh->n_files++, err);
    }
    if (!rc && reindex(kh))
        rc = pd_oom(err, "the known hosts");
    if (rc) {
        known_hosts_free(kh);
        return rc;
    }
    *out = kh;
    return 0;
}

void known_hosts_free(struct known_hosts *kh) {
    if (!kh)
        return;
    for (size_t i = 0; i < kh->n; i++)
        free(kh->v[i].line);
    for (int i = 0; i < kh->n_files; i++)
        free(kh->files[i]);
    free(kh->files);
    free(kh->v);
    free(kh->bucket);
    free(kh);
}

/* Does the pattern of n bytes match all of s? Only the last star takes more bytes when the rest
 * does not fit, so the time is at most n times the length of s. */
static int wildcard(const char *p, size_t n, const char *s) {
    const char *end = p + n, *after_star = NULL, *retry = NULL;
    while (*s || p < end) {
        if (p < end && *p == '*') {
            after_star = ++p;
            retry = s;
        } else if (p < end && *s && (*p == '?' || tolower((unsigned char)*p) == *s)) {
            p++;
            s++;
        } else if (after_star && *retry) {
            p = after_star;
            s = ++retry;
        } else {
            return 0;
        }
    }
    return 1;
}

/* Does the names field of a line cover `name` (lower case)? libssh compares hashed names. */
static int names_cover(const struct known_key *e, const char *name) {
    if (e->names[0] == '|') {
        char line[LINE_BUF];
        struct ssh_knownhosts_entry *found = NULL;
        if (pd_fmt(line, sizeof line, "%s %s %s", e->names, e->type, e->key))
            return 0;
        int rc = ssh_known_hosts_parse_line(name, line, &found);
        if (found)
            ssh_knownhosts_entry_free(found);
        return rc == SSH_OK;
    }
    int hit = 0;
    for (const char *p = e->names; *p;) {
        size_t n = strcspn(p, ",");
        int negated = *p == '!';
        if (wildcard(p + negated, n - (size_t)negated, name)) {
            if (negated)
                return 0;
            hit = 1;
        }
        p += n + (p[n] == ',');
    }
    return hit;
}

static void note_line(const struct known_hosts *kh, const struct known_key *e,
                      struct kh_answer *out) {
    if (pd_fmt(out->where, sizeof out->where, "%s:%d", kh->files[e->file], e->line_no))
        pd_fmt(out->where, sizeof out->where, "line %d", e->line_no);
}

static void check_name(const struct known_hosts *kh, const char *name, const char *type,
                       const char *key, struct kh_answer *out) {
    memset(out, 0, sizeof *out);
    out->verdict = KH_UNKNOWN;
    const struct known_key *ok = NULL;
    for (const struct known_key *e = kh->bucket[hash_key(key) & (kh->n_buckets - 1)]; e;
         e = e->next) {
        if (strcmp(e->key, key) || !names_cover(e, name))
            continue;
        if (e->revoked) {
            out->verdict = KH_REVOKED;
            note_line(kh, e, out);
            return;
        }
        ok = ok ? ok : e;
    }
    if (ok) {
        out->verdict = KH_OK;
        note_line(kh, ok, out);
        return;
    }
    for (size_t i = 0; i < kh->n; i++) {
        const struct known_key *e = &kh->v[i];
        if (e->revoked || !names_cover(e, name))
            continue;
        if (!out->where[0] || !strcmp(e->type, type))
            note_line(kh, e, out);
        if (!strcmp(e->type, type)) {
            out->verdict = KH_CHANGED;
            return;
        }
        out->verdict = KH_OTHER_TYPES;
        size_t n = strlen(out->types);
        if (!strstr(out->types, e->type))
            snprintf(out->types + n, sizeof out->types - n, "%s%s", n ? "," : "", e->type);
    }
}

static int plain_name(char *out, size_t cap, const char *host, int port) {
    int rc = port == 22 ? pd_fmt(out, cap, "%s", host) : pd_fmt(out, cap, "[%s]:%d", host, port);
    for (char *s = out; !rc && *s; s++)
        *s = (char)tolower((unsigned char)*s);
    return rc;
}

void known_hosts_check(const struct known_hosts *kh, const char *host, int port, const char *type,
                       const char *key, struct kh_answer *out) {
    char name[NAME_BUF];
    memset(out, 0, sizeof *out);
    out->verdict = KH_UNKNOWN;
    if (plain_name(name, sizeof name, host, port))
        return;
    check_name(kh, name, type, key, out);
    if (out->verdict != KH_UNKNOWN || port == 22)
        return;
    /* As in ssh: a key that is listed for the host without a port is valid on any port. A different
     * key that is listed without a port does not count. */
    struct kh_answer plain;
    if (plain_name(name, sizeof name, host, 22))
        return;
    check_name(kh, name, type, key, &plain);
    if (plain.verdict == KH_OK || plain.verdict == KH_REVOKED)
        *out = plain;
}

int known_hosts_add(struct known_hosts *kh, const char *file, const char *host, int port,
                    const char *type, const char *key, struct pd_err *err) {
    char name[NAME_BUF], line[LINE_BUF], dir[PATH_MAX];
    int rc = 0, fd = -1;
    if (plain_name(name, sizeof name, host, port) ||
        pd_fmt(line, sizeof line, "%s %s %s\n", name, type, key) ||
        pd_fmt(dir, sizeof dir, "%s", file))
        return pd_fail(err, PD_EDATA, "host key of %s is too long", host);
    char *slash = strrchr(dir, '/');
    if (slash && slash != dir) {
        *slash = 0;
        if ((rc = pd_mkdirs(dir, 0700, err)))
            return rc;
    }
    /* One write to a file opened for appending: lines of concurrent runs stay whole. If the last
     * line of an edited file has no newline, one is written first. */
    char both[LINE_BUF + 1], last = '\n';
    fd = open(file, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    if (size > 0 && pread(fd, &last, 1, size - 1) != 1)
        last = '\n';
    pd_fmt(both, sizeof both, "%s%s", last == '\n' ? "" : "\n", line);
    if (fd < 0 || pd_write_all(fd, both, strlen(both)))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write %s", file);
    pd_close(fd);
    if (rc)
        return rc;
    int index = 0;
    while (index < kh->n_files - 1 && strcmp(kh->files[index], file))
        index++;
    if (store_line(kh, line, strlen(line) - 1, index, 0) || reindex(kh))
        return pd_oom(err, "the known hosts");
    return 0;
}
