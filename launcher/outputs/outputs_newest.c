/* SPDX-License-Identifier: Apache-2.0 */
/* outputs_newest.c - the newest saved model below a folder of outputs. */
#include "launcher/outputs/outputs.h"
#include "model/model.h"

enum { MANIFEST_MAX = 256 << 20, DEPTH = 2 }; /* <job>/pass-00001, <job>/<save_dir>/pass-00001 */

int outputs_read_model(const char *folder, struct model_manifest *m, int *n_missing,
                       char first[MODEL_FILE_MAX + 1]) {
    char path[PATH_MAX];
    struct pd_buf text = {0};
    struct pd_err err = {0};
    *m = (struct model_manifest){0};
    *n_missing = 0;
    int rc = pd_fmt(path, sizeof path, "%s/manifest.json", folder) ||
             pd_read_file(path, MANIFEST_MAX, &text, &err) ||
             model_manifest_parse(m, (const char *)text.data, text.len, &err);
    pd_buf_release(&text);
    for (size_t i = 0; !rc && i < m->n_parts; i++)
        if (!pd_fmt(path, sizeof path, "%s/%s", folder, m->parts[i].file) && access(path, F_OK) &&
            !(*n_missing)++)
            memcpy(first, m->parts[i].file, sizeof m->parts[i].file);
    return rc ? -1 : 0;
}

struct newest {
    uint64_t step, pass;
    char path[PATH_MAX]; /* "": none yet */
};

/* Of equal models the later name wins: pass-00001 and not pass-00000. */
static int is_newer(const struct newest *old, const struct model_manifest *m, const char *path) {
    if (!*old->path || m->step != old->step)
        return !*old->path || m->step > old->step;
    return m->pass != old->pass ? m->pass > old->pass : strcmp(path, old->path) > 0;
}

static void search(struct newest *best, const char *folder, int depth) {
    char path[PATH_MAX], part[MODEL_FILE_MAX + 1];
    struct model_manifest m;
    struct dirent *e;
    struct stat st;
    int n_missing;
    if (!pd_fmt(path, sizeof path, "%s/manifest.json", folder) && !access(path, F_OK)) {
        if (!outputs_read_model(folder, &m, &n_missing, part) && !n_missing &&
            is_newer(best, &m, folder)) {
            best->step = m.step;
            best->pass = m.pass;
            pd_fmt(best->path, sizeof best->path, "%s", folder);
        }
        model_manifest_release(&m);
        return;
    }
    DIR *d = depth ? opendir(folder) : NULL;
    while (d && (e = readdir(d)))
        if (*e->d_name != '.' && !pd_fmt(path, sizeof path, "%s/%s", folder, e->d_name) &&
            !lstat(path, &st) && S_ISDIR(st.st_mode))
            search(best, path, depth - 1);
    pd_closedir(d);
}

static int is_job(const struct dirent *e) { return pd_starts_with(e->d_name, "JOB"); }

int outputs_newest_model(const char *root, char *out, size_t cap, struct pd_err *err) {
    struct newest best = {0};
    struct dirent **job = NULL;
    char path[PATH_MAX], latest[NAME_MAX + 1] = "";
    if (!pd_fmt(path, sizeof path, "%s/latest", root) &&
        readlink(path, latest, sizeof latest - 1) > 0 && !strchr(latest, '/') &&
        !pd_fmt(path, sizeof path, "%s/%s", root, latest))
        search(&best, path, DEPTH);
    /* A job's id begins with its time, so the last name is the newest job. */
    int n = *best.path ? 0 : scandir(root, &job, is_job, alphasort);
    for (int i = n - 1; i >= 0; i--) {
        if (!*best.path && !pd_fmt(path, sizeof path, "%s/%s", root, job[i]->d_name))
            search(&best, path, DEPTH);
        free(job[i]);
    }
    free(job);
    if (!*best.path)
        search(&best, root, DEPTH);
    if (!*best.path)
        return pd_fail(err, PD_ENOENT,
                       "there is no complete saved model in %s: --model=FOLDER names one, such as "
                       "output/latest/pass-00000",
                       root);
    return pd_fmt(out, cap, "%s", best.path) ? pd_fail(err, PD_ECONF, "path too long: %s", root)
                                             : 0;
}
