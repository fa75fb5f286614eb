/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - see cache.h. */
#include "launcher/dispatch/cache.h"

#include <sodium.h>

int cache_file(const char *kind, const char *workspace, char out[PATH_MAX]) {
    const char *home = getenv("XDG_CACHE_HOME");
    char full[PATH_MAX], dir[PATH_MAX] = "", hex[33];
    uint8_t h[16];
    if (!realpath(workspace, full))
        return -1;
    crypto_generichash(h, sizeof h, (const uint8_t *)full, strlen(full), NULL, 0);
    pd_hex(hex, h, sizeof h);
    if (home && *home == '/')
        pd_fmt(dir, sizeof dir, "%s/paddlectl", home);
    else if (!(home = getenv("HOME")) || *home != '/' ||
             pd_fmt(dir, sizeof dir, "%s/.cache/paddlectl", home))
        return -1;
    return *dir && !pd_fmt(out, PATH_MAX, "%s/%s-%s", dir, kind, hex) && !pd_mkdirs(dir, 0700, NULL)
               ? 0
               : -1;
}
