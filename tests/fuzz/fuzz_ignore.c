/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ignore.c - .paddleignore and the patterns in it.
 *
 * Parts: .paddleignore of the top, the one of the folder "a", then paths. */
#include "pack/scan/glob.h"
#include "pack/scan/ignore.h"
#include "tests/support/fuzz/fuzz.h"

static void add_lines(struct pack_ignore *ig, const char *rel, const char *text, size_t n) {
    for (const char *s = text, *end = text + n; s < end;) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        fuzz_check(!pack_ignore_add(ig, rel, s, (size_t)((nl ? nl : end) - s)));
        s = nl ? nl + 1 : end;
    }
}

FUZZ(in) {
    struct pack_ignore ig;
    size_t n, n_below;
    const char *top = fuzz_part(in, &n), *below = fuzz_part(in, &n_below);
    fuzz_check(!pack_ignore_init(&ig, NULL));
    add_lines(&ig, "", top, n);
    const size_t before = ig.n;
    add_lines(&ig, "a", below, n_below);
    for (int i = 0; i < 8 && fuzz_left(in); i++) {
        const char *path = fuzz_text(in);
        if (!*path || strlen(path) >= PATH_MAX)
            continue;
        (void)pack_ignore_match(&ig, path, i & 1);
        (void)pack_glob(top, path, i & 1);
    }
    pack_ignore_leave(&ig, before);
    fuzz_check(ig.n == before);
    pack_ignore_release(&ig);
}
