/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_archive.c - a workspace that is an archive (tar, packed or not): listed, hashed and read. An
 * archive that is accepted is a package whose every object reads as its id says. (libarchive reads
 * the archive's format; it is built without the fuzzer.)
 *
 * Input: the archive. */
#include "pack/scan/scan.h"
#include "tests/support/fuzz/fuzz.h"

FUZZ(in) {
    static uint8_t buf[OBJECT_MAX];
    struct pd_err err = {0};
    struct scan *s = NULL;
    struct pd_buf file = {0};
    struct scan_totals t;
    const char *path = fuzz_file("ws.tar", in->p, fuzz_left(in));
    (void)scan_archive_file(path, "train.ini", 1 << 16, &file, NULL);
    pd_buf_release(&file);
    int rc = scan_new(&s, path, 0, &err);
    rc = rc ? rc : scan_run(s, &err);
    if (!fuzz_rc(rc, &err)) {
        scan_get_totals(s, &t);
        for (long i = 0; i < (long)t.objects; i++) {
            struct object_id id;
            uint32_t n;
            if (scan_read(s, i, buf, &n, NULL))
                continue;
            object_id_of(&id, buf, n);
            fuzz_check(!memcmp(&id, scan_object_id(s, i), sizeof id) && n == scan_raw_len(s, i));
        }
        for (size_t i = 0; i < scan_n_items(s); i++) {
            struct scan_item item;
            scan_item(s, i, &item);
            fuzz_check(*item.path && *item.path != '/' && strncmp(item.path, "../", 3) &&
                       !strstr(item.path, "/../"));
        }
    }
    scan_free(s);
}
