/* SPDX-License-Identifier: Apache-2.0 */
/* done_file.c - see done_file.h. */
#include "train/done_file.h"

#include <jansson.h>

int train_done_file_init(struct train_done_file *d, const struct ps_client *client,
                         const char *save_dir, const char *output_dir, struct pd_err *err) {
    *d = (struct train_done_file){.client = client, .save_dir = save_dir};
    const char *at = save_dir;
    while (at[0] == '.' && at[1] == '/')
        for (at++; *at == '/'; at++)
            ;
    int output = output_dir && *output_dir && !strncmp(at, "output", 6) && (!at[6] || at[6] == '/');
    return pd_fmt(d->dir, sizeof d->dir, "%s%s/online", output ? output_dir : at,
                  output ? at + 6 : "")
               ? pd_fail(err, PD_ECONF, "save_dir is too long")
               : 0;
}

static int write_file(const struct train_done_file *d, const char *name, const char *text,
                      struct pd_err *err) {
    char path[PATH_MAX];
    if (pd_fmt(path, sizeof path, "%s/%s.json", d->dir, name))
        return pd_fail(err, PD_EIO, "path too long: %s", d->dir);
    return pd_write_file_atomic(path, text, strlen(text), 0644, err);
}

int train_done_file_write(void *done, const struct train_saved *s, struct pd_err *err) {
    struct train_done_file *d = done;
    const struct ps_saved *last = ps_last_saved(d->client);
    char path[PATH_MAX], base[PATH_MAX], hash[2 * sizeof last->hash + 1];
    if (!last->changes)
        (void)pd_fmt(d->base, sizeof d->base, "%s", s->name);
    pd_hex(hash, last->hash, sizeof last->hash);
    if (pd_fmt(path, sizeof path, "%s/%s", d->save_dir, s->name) ||
        pd_fmt(base, sizeof base, "%s/%s", d->save_dir, d->base))
        return pd_fail(err, PD_EIO, "path too long: %s", d->save_dir);
    json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:s, s:I, s:I, s:s}", "kind",
                          last->changes ? "delta" : "base", "path", path, "base", base, "pass",
                          (json_int_t)s->pass, "data", s->data, "step", (json_int_t)last->step,
                          "bytes", (json_int_t)last->bytes, "manifest_xxh3_128", hash);
    char *text = o ? json_dumps(o, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(o);
    if (!text)
        return pd_fail(err, PD_ENOMEM, "out of memory for a done-file, or %s is not UTF-8",
                       s->data);
    int rc = pd_mkdirs(d->dir, 0755, err);
    if (!rc)
        rc = write_file(d, s->name, text, err);
    if (!rc && !last->changes)
        rc = write_file(d, "base", text, err);
    if (!rc)
        rc = write_file(d, "latest", text, err);
    free(text);
    return rc;
}
