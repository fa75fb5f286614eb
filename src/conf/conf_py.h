/* SPDX-License-Identifier: Apache-2.0 */
/* conf_py.h - the conf.py of PaddlePaddle's Fabric launcher as a conf.ini. The text is read, not
 * run: assignments of texts, numbers and lists of them. docs/migration.md has the table of names.
 */
#pragma once

/* Appends the text of a conf.ini, and a line to `warnings` for each name without a counterpart.
 * `file` is for messages. PD_ECONF with "conf.py:12: ...". */
int pd_conf_py_read(const char *file, const char *text, struct pd_buf *out, struct pd_buf *warnings,
                    struct pd_err *err);
