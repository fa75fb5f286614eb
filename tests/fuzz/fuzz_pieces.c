/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_pieces.c - data files on demand: the pieces that one node says a file has, and the list of
 * files that a client gives node 0. Pieces that are accepted are inside the file, in order, and
 * write as they were.
 *
 * Input: u8 which; then answers of an agent, or pieces, or u8 rows at a time and rows of
 * AG_DATA_LIST. */
#include <sys/socket.h>

#include "agent/files/file_fetch.h"
#include "data/input/fetch.h"
#include "tests/support/fuzz/fuzz.h"

static void take_pieces(const uint8_t *p, size_t n) {
    struct pd_err err = {0};
    struct file_pieces f = {0};
    struct pd_buf b = {0};
    struct object_id id;
    uint64_t at = 0;
    const size_t want = file_pieces_length(p, n);
    if (!fuzz_rc(file_pieces_get(&f, p, n, &err), &err)) {
        fuzz_check(want == n && f.n <= FILE_PIECES_MAX);
        for (size_t i = 0; i < f.n; i++) {
            fuzz_check(f.v[i].len && f.v[i].len <= OBJECT_MAX && f.v[i].off >= at);
            at = f.v[i].off + f.v[i].len;
        }
        fuzz_check(at <= f.size);
        file_pieces_put(&b, &f);
        fuzz_check(b.len == n && !memcmp(b.data, p, n));
        fuzz_check(!file_pieces_id(&f, &id));
        pd_buf_release(&b);
    }
    file_pieces_release(&f);
}

static void take_list(struct pd_reader *in) {
    struct pd_err err = {0};
    struct file_index *l = file_index_new();
    struct file_holders h;
    uint64_t n = 0;
    int rc = 0;
    fuzz_check(l);
    while (!rc && fuzz_left(in)) {
        const size_t k = fuzz_u8(in);
        const uint64_t first = fuzz_u8(in);
        rc = file_index_take(l, first == 255 ? n : first, fuzz_u8(in), fuzz_bytes(in, k), k, &err);
        n = file_index_n(l);
        if (fuzz_kept.n == FUZZ_TEXTS)
            break;
    }
    (void)fuzz_rc(rc, &err);
    for (const char *path = "a"; *path; path++) {
        (void)file_index_find(l, path, &h);
        file_index_note(l, path, 3);
        if (file_index_find(l, path, &h))
            fuzz_check(h.n_nodes >= 1 && h.node[h.n_nodes - 1] == 3);
    }
    file_index_free(l);
}

/* The trainer reads the input as answers of an agent on PADDLE_DATA_FD. The agent ends after the
 * last answer. */
static void take_answers(struct pd_reader *in) {
    struct data_fetch *f = NULL;
    int fd[2], rc;
    const size_t n = fuzz_left(in) < 60000 ? fuzz_left(in) : 60000;
    fuzz_check(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd));
    fuzz_check(send(fd[1], in->p, n, MSG_NOSIGNAL) == (ssize_t)n);
    shutdown(fd[1], SHUT_WR);
    fuzz_check(!data_fetch_new(&f, fd[0], NULL));
    do {
        struct pd_err err = {0};
        rc = data_fetch_wait(f, "/missing/file", &err);
        fuzz_check(rc <= 0 && rc >= -1000 && (!rc || err.code == rc));
        rc = rc == PD_ECLOSED || rc == PD_EPROTO;
    } while (!rc);
    data_fetch_free(f);
    close(fd[0]);
    close(fd[1]);
}

FUZZ(in) {
    const unsigned which = fuzz_u8(in) % 3;
    if (which == 2)
        take_answers(in);
    else if (which == 1)
        take_list(in);
    else
        take_pieces(in->p, fuzz_left(in));
}
