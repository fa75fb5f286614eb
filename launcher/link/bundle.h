/* SPDX-License-Identifier: Apache-2.0 */
/* bundle.h - where paddlectl finds what is installed with it. */
#pragma once

/* The folder of this program. The single-file release (make release) unpacks what it carries at
 * its first use; `out` is then the folder bin of that copy. */
int bundle_self_dir(char *out, size_t cap, struct pd_err *err);
