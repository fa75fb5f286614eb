/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - see input.h. */
#include "data/input/input.h"

#include <zlib.h>
#include <zstd.h>

enum { RAW_BYTES = 128 * 1024 };

struct data_input {
    int fd;
    enum data_packing packing;
    char *shown;
    uint8_t *raw;    /* [RAW_BYTES] packed bytes, read from the file */
    size_t pos, len; /* unread: raw[pos, len) */
    uint64_t taken;  /* bytes read from the file */
    uint64_t offset; /* unpacked bytes returned */
    int at_end;      /* the file has no more bytes */
    int regular;
    int inside; /* a member or frame is open: the end of the file now means that it is cut off */
    z_stream z;
    int z_open;
    ZSTD_DStream *zs;
};

/* Appends bytes of the file to raw. */
static int read_more(struct data_input *in, struct pd_err *err) {
    ssize_t k;
    do
        k = read(in->fd, in->raw + in->len, RAW_BYTES - in->len);
    while (k < 0 && errno == EINTR);
    if (k < 0 || pd_fault("data.read"))
        return pd_fail_errno(err, PD_EIO, k < 0 ? errno : EIO, "cannot read %s", in->shown);
    in->len += (size_t)k;
    in->taken += (uint64_t)k;
    in->at_end = k == 0;
    return 0;
}

static int refill(struct data_input *in, struct pd_err *err) {
    in->pos = in->len = 0;
    return read_more(in, err);
}

static const uint8_t gzip_magic[2] = {0x1f, 0x8b}, zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd};

/* 1 if a pipe has delivered too few bytes to recognise the packing. */
static int is_open_question(const struct data_input *in) {
    return !in->at_end && ((in->len < sizeof gzip_magic && !memcmp(in->raw, gzip_magic, in->len)) ||
                           (in->len < sizeof zstd_magic && !memcmp(in->raw, zstd_magic, in->len)));
}

static int is_gzip(const struct data_input *in) {
    return in->len - in->pos >= sizeof gzip_magic &&
           !memcmp(in->raw + in->pos, gzip_magic, sizeof gzip_magic);
}

static int is_zstd(const struct data_input *in) {
    return in->len - in->pos >= sizeof zstd_magic &&
           !memcmp(in->raw + in->pos, zstd_magic, sizeof zstd_magic);
}

static int detect_packing(struct data_input *in, struct pd_err *err) {
    int rc = refill(in, err);
    while (!rc && is_open_question(in))
        rc = read_more(in, err);
    if (rc)
        return rc;
    if (is_gzip(in)) {
        in->packing = DATA_GZIP;
        if (pd_fault("alloc") || inflateInit2(&in->z, 15 + 16) != Z_OK)
            return pd_fail(err, PD_ENOMEM, "out of memory to unpack %s", in->shown);
        in->z_open = in->inside = 1;
    } else if (is_zstd(in)) {
        in->packing = DATA_ZSTD;
        if (pd_fault("alloc") || !(in->zs = ZSTD_createDStream()))
            return pd_fail(err, PD_ENOMEM, "out of memory to unpack %s", in->shown);
        ZSTD_DCtx_setParameter(in->zs, ZSTD_d_windowLogMax,
                               27); /* 128 MiB, the default limit of the zstd program */
        in->inside = 1;
    }
    return 0;
}

int data_input_open(struct data_input **out, const char *path, const char *shown,
                    struct pd_err *err) {
    int std_in = !strcmp(path, "-"), rc = 0;
    int fd = std_in ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pd_fail_errno(err, errno == ENOENT ? PD_ENOENT : PD_EIO, errno, "cannot open %s",
                             shown);
    struct stat st;
    struct data_input *in = NULL;
    if (fstat(fd, &st) || S_ISDIR(st.st_mode))
        rc = pd_fail(err, PD_EIO, "%s is a folder", shown);
    else if (!(in = pd_calloc(1, sizeof *in)))
        rc = pd_fail(err, PD_ENOMEM, "out of memory for a file's buffer");
    if (!in) {
        close(fd);
        return rc;
    }
    in->fd = fd;
    in->regular = S_ISREG(st.st_mode);
    in->shown = pd_strdup(shown);
    in->raw = pd_malloc(RAW_BYTES);
    if (!in->shown || !in->raw)
        rc = pd_fail(err, PD_ENOMEM, "out of memory for a file's buffer");
    if (!rc)
        rc = detect_packing(in, err);
    if (rc)
        data_input_close(in);
    else
        *out = in;
    return rc;
}

void data_input_close(struct data_input *in) {
    if (!in)
        return;
    close(in->fd);
    if (in->z_open)
        inflateEnd(&in->z);
    ZSTD_freeDStream(in->zs);
    free(in->shown);
    free(in->raw);
    free(in);
}

static int cut_off(const struct data_input *in, struct pd_err *err) {
    return pd_fail(err, PD_EDATA, "%s: the %s data is cut off after %llu bytes", in->shown,
                   in->packing == DATA_GZIP ? "gzip" : "zstd", (unsigned long long)in->offset);
}

static int broken(const struct data_input *in, const char *why, struct pd_err *err) {
    return pd_fail(err, PD_EDATA, "%s: the %s data is broken after %llu bytes: %s", in->shown,
                   in->packing == DATA_GZIP ? "gzip" : "zstd", (unsigned long long)in->offset, why);
}

/* Unpacks from raw into p. Returns the number of bytes; 0 means that raw needs more input. */
static int64_t gunzip(struct data_input *in, void *p, size_t n, struct pd_err *err) {
    if (!in->inside) {
        /* Between members only another member or zero padding may follow. Plain text is an error,
         * so that no data is skipped silently. */
        while (in->pos < in->len && !in->raw[in->pos])
            in->pos++;
        if (in->pos == in->len)
            return 0;
        if (!is_gzip(in) && (in->len - in->pos > 1 || in->raw[in->pos] != gzip_magic[0]))
            return broken(in, "the bytes behind it are not gzip", err);
        inflateReset(&in->z);
        in->inside = 1;
    }
    in->z.next_in = in->raw + in->pos;
    in->z.avail_in = (uInt)(in->len - in->pos);
    in->z.next_out = p;
    in->z.avail_out = n > 1u << 30 ? 1u << 30 : (uInt)n;
    uInt room = in->z.avail_out;
    int rc = inflate(&in->z, Z_NO_FLUSH);
    in->pos = in->len - in->z.avail_in;
    if (rc == Z_STREAM_END)
        in->inside = 0;
    else if (rc == Z_MEM_ERROR)
        return pd_fail(err, PD_ENOMEM, "out of memory to unpack %s", in->shown);
    else if (rc != Z_OK && rc != Z_BUF_ERROR)
        return broken(in, in->z.msg ? in->z.msg : "no gzip", err);
    return (int64_t)(room - in->z.avail_out);
}

static int64_t unzstd(struct data_input *in, void *p, size_t n, struct pd_err *err) {
    ZSTD_inBuffer from = {in->raw, in->len, in->pos};
    ZSTD_outBuffer to = {p, n, 0};
    size_t rc = ZSTD_decompressStream(in->zs, &to, &from);
    in->pos = from.pos;
    if (ZSTD_isError(rc))
        return broken(in, ZSTD_getErrorName(rc), err);
    in->inside = rc != 0;
    return (int64_t)to.pos;
}

int64_t data_input_read(struct data_input *in, void *p, size_t n, struct pd_err *err) {
    if (in->packing == DATA_PLAIN) {
        if (in->pos == in->len && !in->at_end) {
            int rc = refill(in, err);
            if (rc)
                return rc;
        }
        n = n < in->len - in->pos ? n : in->len - in->pos;
        memcpy(p, in->raw + in->pos, n);
        in->pos += n;
        in->offset += n;
        return (int64_t)n;
    }
    int64_t k = 0;
    while (n && !k) {
        /* zstd may still hold output when its input is used up: refill only after an empty result.
         */
        if (in->pos < in->len || (in->packing == DATA_ZSTD && in->inside))
            k = in->packing == DATA_GZIP ? gunzip(in, p, n, err) : unzstd(in, p, n, err);
        if (k)
            break;
        if (in->pos < in->len)
            continue;
        if (in->at_end)
            return in->inside ? cut_off(in, err) : 0;
        int rc = refill(in, err);
        if (rc)
            return rc;
    }
    in->offset += k > 0 ? (uint64_t)k : 0;
    return k;
}

int data_input_may_wait(const struct data_input *in) { return !in->regular && in->pos == in->len; }

int data_input_skip_to(struct data_input *in, uint64_t offset, struct pd_err *err) {
    char scratch[16384];
    if (offset < in->offset)
        return pd_fail(err, PD_EIO, "%s: cannot go back to byte %llu", in->shown,
                       (unsigned long long)offset);
    if (in->packing == DATA_PLAIN && offset > in->offset + (in->len - in->pos)) {
        struct stat st;
        if (!fstat(in->fd, &st) && S_ISREG(st.st_mode) && offset <= (uint64_t)st.st_size &&
            lseek(in->fd, (off_t)offset, SEEK_SET) == (off_t)offset) {
            in->offset = in->taken = offset;
            in->pos = in->len = 0;
            in->at_end = 0;
            return 0;
        }
    }
    while (in->offset < offset) {
        uint64_t left = offset - in->offset;
        int64_t k = data_input_read(in, scratch,
                                    left < sizeof scratch ? (size_t)left : sizeof scratch, err);
        if (k < 0)
            return (int)k;
        if (k == 0)
            return pd_fail(err, PD_EDATA,
                           "%s: it has only %llu bytes, but reading must resume at byte %llu",
                           in->shown, (unsigned long long)in->offset, (unsigned long long)offset);
    }
    return 0;
}

uint64_t data_input_offset(const struct data_input *in) { return in->offset; }
uint64_t data_input_raw_offset(const struct data_input *in) {
    return in->taken - (in->len - in->pos);
}

/* --- writing --- */

int data_packing_of(const char *text) {
    static const char *const name[] = {"none", "gzip", "zstd"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, name[i]))
            return i;
    return -1;
}

const char *data_packing_suffix(enum data_packing p) {
    return p == DATA_GZIP ? ".gz" : p == DATA_ZSTD ? ".zst" : "";
}

static int pack_gzip(const void *text, size_t n, void **out, size_t *n_out) {
    z_stream z = {0};
    if (n > UINT32_MAX / 2 ||
        deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return PD_ENOMEM;
    size_t cap = deflateBound(&z, n) + 32;
    void *p = pd_malloc(cap);
    int rc = PD_ENOMEM;
    if (p) {
        z.next_in = (Bytef *)(uintptr_t)text;
        z.avail_in = (uInt)n;
        z.next_out = p;
        z.avail_out = (uInt)cap;
        rc = deflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : PD_ENOMEM;
    }
    if (rc) {
        free(p);
    } else {
        *out = p;
        *n_out = cap - z.avail_out;
    }
    deflateEnd(&z);
    return rc;
}

/* The frame has a checksum, as gzip has: otherwise a flipped bit could unpack to different text. */
static int pack_zstd(const void *text, size_t n, void **out, size_t *n_out) {
    size_t cap = ZSTD_compressBound(n), k = 0;
    void *p = pd_malloc(cap);
    ZSTD_CCtx *c = ZSTD_createCCtx();
    int ok = p && c && !ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 3)) &&
             !ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1)) &&
             !ZSTD_isError(k = ZSTD_compress2(c, p, cap, text, n));
    ZSTD_freeCCtx(c);
    if (!ok) {
        free(p);
        return PD_ENOMEM;
    }
    *out = p;
    *n_out = k;
    return 0;
}

int data_pack(enum data_packing packing, const void *text, size_t n, void **out, size_t *n_out) {
    if (packing == DATA_GZIP)
        return pack_gzip(text, n, out, n_out);
    if (packing == DATA_ZSTD)
        return pack_zstd(text, n, out, n_out);
    void *p = pd_malloc(n + 1);
    if (!p)
        return PD_ENOMEM;
    memcpy(p, text, n);
    *out = p;
    *n_out = n;
    return 0;
}
