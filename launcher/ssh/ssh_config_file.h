/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_config_file.h - the lines of OpenSSH client configurations, as far as ssh_config.c needs them
 * to decide whether `ssh -G` must be asked, and to name the line in a warning. */
#pragma once

struct ssh_line {
    char *keyword; /* lower case */
    char *args;    /* the rest of the line, trimmed */
    int block;
    int file, number; /* index into ssh_lines.files; line number from 1 */
};

/* The lines below a Host or Match line. Block 0 holds the lines before the first of these. */
struct ssh_block {
    char *args;
    int is_match; /* a Match line; else a Host line */
    int parent;   /* the block that contains the Include of this file; -1 for block 0 */
};

struct ssh_lines {
    struct ssh_line *v;
    size_t n, cap;
    struct ssh_block *blocks;
    size_t n_blocks, cap_blocks;
    char **files;
    size_t n_files;
    int has_unread; /* an Include has tokens or variables, which only ssh expands */
    const char *home;
    int current, depth; /* while reading: the block, and the nesting of Includes */
};

/* `home` is borrowed until ssh_lines_release. */
int ssh_lines_init(struct ssh_lines *l, const char *home, struct pd_err *err);
/* Reads a file and its Includes (relative to `folder`). A missing file is empty. */
int ssh_lines_read(struct ssh_lines *l, const char *path, const char *folder, struct pd_err *err);
void ssh_lines_release(struct ssh_lines *l);

/* COVER_MATCH: the line is below a Match line, and only ssh knows whether it applies. */
enum ssh_cover { COVER_NO, COVER_YES, COVER_MATCH };
enum ssh_cover ssh_line_covers(const struct ssh_lines *l, const struct ssh_line *x,
                               const char *alias);

/* 1: no Host or Match line singles this name out, and no value contains the name. All such names
 * have the same configuration, as long as no value has a % token. 0: unknown. */
int ssh_lines_are_common(const struct ssh_lines *l, const char *alias);
