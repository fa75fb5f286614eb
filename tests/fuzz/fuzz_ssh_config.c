/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ssh_config.c - what we read of OpenSSH's configuration: the lines that decide whether
 * `ssh -G` is asked, and its answer. (The meaning of the files is read by ssh.)
 *
 * Parts: a host's name, ~/.ssh/config, ~/.ssh/more, the answer. Slashes become underscores: an
 * Include stays in the folder. */
#include "launcher/ssh/ssh_config.c"
#include "tests/support/fuzz/fuzz.h"

static char *in_folder(struct pd_reader *in, size_t *n) {
    char *text = fuzz_part(in, n);
    for (size_t i = 0; i < *n; i++)
        if (text[i] == '/')
            text[i] = '_';
    return text;
}

FUZZ(in) {
    struct pd_err err = {0};
    struct ssh_config *c = NULL;
    struct ssh_query *q;
    struct ssh_pool pool = {.home = (char *)(uintptr_t)fuzz_folder()};
    size_t n, n_more;
    const char *name = fuzz_text(in), *text = in_folder(in, &n), *more = in_folder(in, &n_more);
    const char *answer = fuzz_text(in);
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/.ssh", fuzz_folder());
    (void)mkdir(folder, 0700);
    (void)fuzz_file(".ssh/more", more, n_more);
    const char *path = fuzz_file(".ssh/config", text, n);
    if (*name && !fuzz_rc(ssh_config_new(&c, &pool, path, 1, &err), &err)) {
        (void)concerns_us(c);
        (void)ssh_lines_are_common(&c->lines, name);
        q = query_new(c, name, name, NULL, 0);
        fuzz_check(q);
        pd_put(&q->answer, answer, strlen(answer));
        parse_answer(q);
        drop_own_name(q);
        fuzz_check(!q->why.code);
    }
    ssh_config_free(c);
}
