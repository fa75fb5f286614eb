/* ssh_config_file.h - the lines of OpenSSH client configurations, and which of them cover a name
 * (see ssh_config.h). */
#ifndef LAUNCHER_SSH_CONFIG_FILE_H
#define LAUNCHER_SSH_CONFIG_FILE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum ssh_cover { COVER_NO, COVER_YES, COVER_UNKNOWN };

struct ssh_line {
    char *keyword; /* lower case */
    char *args;    /* the rest, trimmed */
    int block;
    int file, no;
};

/* The lines below a Host or Match line; block 0 is what stands before the first. */
struct ssh_block {
    char *args;
    int match;  /* Match, not Host */
    int parent; /* the block in which the Include stood that brought it here; -1 for block 0 */
};

struct ssh_lines {
    struct ssh_line *v;
    size_t n, cap;
    struct ssh_block *blocks;
    size_t n_blocks, cap_blocks;
    char **files;
    size_t n_files;
    const char *home;
    int current, depth;
};

int ssh_lines_init(struct ssh_lines *l, const char *home,
                   struct pd_err *err); /* `home` stays in use */
/* Read one file with all that it includes (relative to `folder`); a missing one is empty. */
int ssh_lines_read(struct ssh_lines *l, const char *path, const char *folder, struct pd_err *err);
void ssh_lines_release(struct ssh_lines *l);

/* Does a block cover the host? `host` is what HostName has made of the alias so far, `user` the one
 * to log in as. */
enum ssh_cover ssh_block_covers(const struct ssh_lines *l, int block, const char *alias,
                                const char *host, const char *user);

/* Which names each Host and Match line covers, as text: what ssh makes of two aliases with the same
 * one differs by nothing but the alias. 1: some line may tell them apart by other means. */
int ssh_lines_signature(const struct ssh_lines *l, const char *alias, struct pd_buf *out);

/* The next word of `args` (quotes taken off) into `out`; 0 at the end. */
int ssh_word(const char **args, char *out, size_t cap);

#endif
