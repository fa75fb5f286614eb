/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack_packed.c - unpacking an executable: it is complete, or does not exist. */
#include <setjmp.h>

#include <cmocka.h>

#include <sodium.h>
#include <zstd.h>

#include "math/hash.h"
#include "pack/packed_program.h"

enum { RAW = 300000 };
static char dir[] = "/tmp/pd-packed-XXXXXX", from[60], to[60];
static uint8_t raw[RAW], packed[2 * RAW];
static size_t n_packed;

static size_t pack(int with_size) {
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, with_size);
    size_t n = ZSTD_compress2(c, packed, sizeof packed, raw, sizeof raw);
    assert_false(ZSTD_isError(n));
    ZSTD_freeCCtx(c);
    return n;
}

static int unpack(size_t n, struct pd_err *err) {
    pd_err_clear(err);
    assert_int_equal(pd_write_file_atomic(from, packed, n, 0644, NULL), 0);
    return packed_program_unpack(from, to, err);
}

/* Only the packed file is in the folder. */
static void nothing_else(void) {
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        assert_true(*e->d_name == '.' || !strcmp(e->d_name, "from"));
    closedir(d);
}

static void whole(void **state) {
    (void)state;
    struct pd_err err = {0};
    struct stat st;
    struct pd_buf b = {0};
    assert_int_equal(unpack(n_packed, &err), 0);
    assert_int_equal(packed_program_size(from), RAW);
    assert_int_equal(packed_program_size(to), 0);
    assert_int_equal(stat(to, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(pd_read_file(to, RAW, &b, &err), 0);
    assert_int_equal(b.len, RAW);
    assert_memory_equal(b.data, raw, RAW);
    pd_buf_release(&b);
    unlink(to);
}

static void damaged(void **state) {
    (void)state;
    struct pd_err err = {0};
    for (size_t n = 0; n < n_packed; n += n < 40 ? 1 : n_packed / 50) { /* truncated */
        assert_int_equal(unpack(n, &err), PD_EDATA);
        nothing_else();
    }
    packed[n_packed] = 0;
    assert_int_equal(unpack(n_packed + 1, &err), PD_EDATA); /* an extra byte at the end */
    nothing_else();
    for (size_t i = 0; i < n_packed; i += i < 40 ? 1 : n_packed / 50) { /* one bit */
        packed[i] ^= 4;
        int rc = unpack(n_packed, &err);
        if (rc) /* a bit without a meaning for zstd leaves the contents right */
            nothing_else();
        else
            unlink(to);
        packed[i] ^= 4;
        assert_true(!rc || rc == PD_EDATA);
        if (i > n_packed / 2)
            assert_int_equal(rc, PD_EDATA);
    }
    size_t n = pack(0);
    assert_int_equal(unpack(n, &err), PD_EDATA); /* the frame does not declare its size */
    pd_err_clear(&err);
    assert_int_equal(packed_program_unpack("/nowhere/x", to, &err), PD_EIO);
    n_packed = pack(1);
}

static void no_space(void **state) {
    (void)state;
    struct pd_err err = {0};
    pd_fault_arm("packed.write:1");
    int rc = unpack(n_packed, &err);
    pd_fault_arm(NULL);
    assert_int_equal(rc, PD_ENOSPC);
    nothing_else();
}

/* 6 kB that announce 64 MiB are refused with figures before a byte is written. */
static void larger_than_the_disk(void **state) {
    (void)state;
    enum { BOMB = 64 << 20 };
    struct pd_err err = {0};
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setPledgedSrcSize(c, BOMB);
    ZSTD_outBuffer out = {packed, sizeof packed, 0};
    static const uint8_t zeros[1 << 20];
    for (int i = 0; i < BOMB >> 20; i++) {
        ZSTD_inBuffer in = {zeros, sizeof zeros, 0};
        while (in.pos < in.size)
            assert_false(ZSTD_isError(ZSTD_compressStream2(c, &out, &in, ZSTD_e_continue)));
    }
    assert_int_equal(ZSTD_compressStream2(c, &out, &(ZSTD_inBuffer){0}, ZSTD_e_end), 0);
    ZSTD_freeCCtx(c);
    assert_true(out.pos < 10000);
    pd_fault_arm("disk.room:1");
    int rc = unpack(out.pos, &err);
    pd_fault_arm(NULL);
    assert_int_equal(rc, PD_ENOSPC);
    if (!strstr(err.msg, "to has 67108864 bytes, ") || !strstr(err.msg, " has 0 free"))
        fail_msg("%s", err.msg);
    nothing_else();
    n_packed = pack(1);
}

int main(void) {
    uint64_t rng = 1;
    if (sodium_init() < 0 || !mkdtemp(dir))
        return 1;
    snprintf(from, sizeof from, "%s/from", dir);
    snprintf(to, sizeof to, "%s/to", dir);
    for (size_t i = 0; i < RAW; i++) /* compressible to about a third */
        raw[i] = i % 3 ? (uint8_t)(i >> 8) : (uint8_t)pd_mix64(rng++);
    n_packed = pack(1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole), cmocka_unit_test(damaged),
                                       cmocka_unit_test(no_space),
                                       cmocka_unit_test(larger_than_the_disk)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    pd_rm_tree(dir, NULL);
    return rc;
}
