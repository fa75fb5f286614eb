/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_init.c - paddlectl init: creates a folder with conf.ini and workspace/ from a template.
 * paddlectl import: makes a conf.ini of a conf.py. */
#include "launcher/cmd/cmd.h"

#include "conf/conf_py.h"
#include "launcher/record/record_files.h"
#include "launcher/record/runs.h"

enum { CONF_PY_MAX = 1 << 20, FILE_MAX_BYTES = 64 << 20, MAX_DEPTH = 16, TITLE_MAX = 200 };

static int copy_file(const char *from, const char *to, mode_t mode, struct pd_err *err) {
    struct pd_buf b = {0};
    int rc = pd_read_file(from, FILE_MAX_BYTES, &b, err);
    if (!rc)
        rc = pd_write_file_atomic(to, b.data, b.len, mode & 0777, err);
    pd_buf_release(&b);
    return rc;
}

static int copy_tree(const char *from, const char *to, int depth, struct pd_err *err) {
    DIR *d = opendir(from);
    struct dirent *e;
    int rc =
        d ? pd_mkdirs(to, 0755, err) : pd_fail_errno(err, PD_ENOENT, errno, "cannot read %s", from);
    while (!rc && (e = readdir(d))) {
        char a[PATH_MAX], b[PATH_MAX];
        struct stat st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (depth > MAX_DEPTH || pd_fmt(a, sizeof a, "%s/%s", from, e->d_name) ||
            pd_fmt(b, sizeof b, "%s/%s", to, e->d_name))
            rc = pd_fail(err, PD_EIO, "path too long: %s/%s", from, e->d_name);
        else if (stat(a, &st))
            rc = pd_fail_errno(err, PD_EIO, errno, "cannot read %s", a);
        else if (S_ISDIR(st.st_mode))
            rc = copy_tree(a, b, depth + 1, err);
        else
            rc = copy_file(a, b, st.st_mode, err);
    }
    pd_closedir(d);
    return rc;
}

/* The title in the README.md of a template, without "# " and "NAME: "; "" if there is no README.md.
 */
static void title_of(const char *dir, const char *name, char *out, size_t cap) {
    char path[PATH_MAX], line[TITLE_MAX] = "";
    FILE *f = pd_fmt(path, sizeof path, "%s/%s/README.md", dir, name) ? NULL : fopen(path, "re");
    if (f && !fgets(line, sizeof line, f))
        line[0] = 0;
    if (f)
        fclose(f);
    line[strcspn(line, "\n")] = 0;
    const char *at = line;
    if (pd_starts_with(at, "# "))
        at += 2;
    if (pd_starts_with(at, name) && pd_starts_with(at + strlen(name), ": "))
        at += strlen(name) + 2;
    snprintf(out, cap, "%s", at);
}

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

static int list_templates(const char *dir, struct pd_err *err) {
    struct dirent **v;
    int n = scandir(dir, &v, visible, alphasort);
    if (n < 0)
        return pd_fail_errno(err, PD_EIO, errno, "cannot read %s", dir);
    printf("templates ('paddlectl init NAME' copies one):\n");
    for (int i = 0; i < n; i++) {
        char title[TITLE_MAX];
        title_of(dir, v[i]->d_name, title, sizeof title);
        printf("  %-19s %s\n", v[i]->d_name, title); /* the completions read these names */
        free(v[i]);
    }
    free(v);
    return 0;
}

static int init(const char *name, const char *to, struct pd_err *err) {
    char templates[PATH_MAX], from[PATH_MAX], conf_dir[PATH_MAX], conf[PATH_MAX],
        new_conf[PATH_MAX], workspace[PATH_MAX], own_conf[PATH_MAX];
    struct stat st;
    int rc = cmd_share_dir("workspace_template", templates, sizeof templates, err);
    if (!rc)
        rc = cmd_share_dir("conf", conf_dir, sizeof conf_dir, err);
    if (rc)
        return rc;
    if (!name)
        return list_templates(templates, err);
    if (strchr(name, '/') || name[0] == '.' ||
        pd_fmt(from, sizeof from, "%s/%s", templates, name) || stat(from, &st))
        return pd_fail(err, PD_ENOENT, "there is no template '%s'; 'paddlectl init' lists them",
                       name);
    if (pd_fmt(conf, sizeof conf, "%s/conf.ini", conf_dir) ||
        pd_fmt(new_conf, sizeof new_conf, "%s/conf.ini", to) ||
        pd_fmt(workspace, sizeof workspace, "%s/workspace", to))
        return pd_fail(err, PD_EUSAGE, "path too long: %s", to);
    if (!lstat(new_conf, &st) || !lstat(workspace, &st))
        return pd_fail(err, PD_EUSAGE,
                       "%s already has a conf.ini or workspace; nothing was changed: give another "
                       "folder, as in 'paddlectl init TEMPLATE FOLDER'",
                       to);
    rc = copy_tree(from, workspace, 0, err);
    /* A template may have its own conf.ini (with a trainer_command, for example). It moves from the
     * workspace to the folder above. */
    int own = !rc && !pd_fmt(own_conf, sizeof own_conf, "%s/conf.ini", workspace) &&
              !lstat(own_conf, &st);
    if (own && rename(own_conf, new_conf))
        rc = pd_fail_errno(err, PD_EIO, errno, "cannot write %s", new_conf);
    if (!rc && !own)
        rc = copy_file(conf, new_conf, 0644, err);
    if (!rc)
        printf("%s: enter your hosts here\n%s: the workspace; its README.md describes it\nthen: "
               "%s/prepare makes the data, and 'paddlectl run' in %s starts the job\n",
               new_conf, workspace, workspace, to);
    return rc;
}

/* --- the files of an earlier run --- */

/* 1: the folder is the package with this root id. */
static int is_package(const char *workspace, const char *root) {
    struct scan *s = NULL;
    struct object_id id;
    char hex[2 * OBJECT_ID + 1] = "";
    size_t n;
    if (!scan_new(&s, workspace, 0, NULL) && !scan_run(s, NULL)) {
        scan_root(s, &id, &n);
        object_hex(&id, hex);
    }
    scan_free(s);
    return !strcmp(hex, root);
}

static int restore(const struct run *run, const char *outputs, const char *to, struct pd_err *err) {
    char dir[PATH_MAX], workspace[PATH_MAX], conf[PATH_MAX], new_conf[PATH_MAX], missing[PATH_MAX];
    struct record_files files;
    struct stat st;
    size_t n_missing = 0;
    const json_t *settings = json_object_get(run->record, "settings");
    const char *was = json_string_value(json_object_get(settings, "job.job_dispatch_package")),
               *root = json_string_value(json_object_get(run->record, "workspace"));
    if (pd_fmt(dir, sizeof dir, "%s/%s", outputs, run->job) ||
        pd_fmt(conf, sizeof conf, "%s/conf.ini", dir) ||
        pd_fmt(new_conf, sizeof new_conf, "%s/conf.ini", to) ||
        pd_fmt(workspace, sizeof workspace, "%s/workspace", to))
        return pd_fail(err, PD_EUSAGE, "path too long: %s", to);
    if (!lstat(new_conf, &st) || !lstat(workspace, &st))
        return pd_fail(err, PD_EUSAGE,
                       "%s already has a conf.ini or workspace; nothing was changed: give another "
                       "folder, as in 'paddlectl init --from=JOB FOLDER'",
                       to);
    struct pd_err why = {0};
    int rc = record_files_read(&files, dir, &why);
    if (rc)
        return rc == PD_ENOENT
                   ? pd_fail(err, rc, "%s: the record has no list of the workspace's files",
                             run->job)
                   : pd_err_copy(err, &why);
    rc = record_files_restore(&files, outputs, was ? was : "workspace", workspace, &n_missing,
                              missing, err);
    if (!rc)
        rc = copy_file(conf, new_conf, 0600, err);
    record_files_release(&files);
    if (rc)
        return rc;
    if (n_missing)
        return pd_fail(err, PD_EFAIL,
                       "%s: %zu files are not kept here and were not restored, the first is %.300s "
                       "(files of more than 1 MiB are only listed)",
                       workspace, n_missing, missing);
    /* Without data that were sent apart, the record has the id of all files. */
    const char *data = json_string_value(json_object_get(run->record, "data"));
    if (root && *root && !(data && *data) && !is_package(workspace, root))
        return pd_fail(
            err, PD_EDATA,
            "%s: these are not exactly the files of the run: some changed while it began",
            workspace);
    printf(
        "%s: the files of the run\n%s: its settings; [job] job_dispatch_package names the folder "
        "of that time\n",
        workspace, new_conf);
    return 0;
}

static int init_from(const char *want, const char *outputs, const char *to, struct pd_err *err) {
    struct runs all;
    const struct run *run;
    int rc = runs_load(&all, outputs, err);
    if (rc)
        return rc;
    rc = runs_find(&all, want, &run, err);
    if (!rc)
        rc = restore(run, outputs, to ? to : run->job, err);
    runs_release(&all);
    return rc;
}

int cmd_init(int argc, char **argv) {
    const char *template = NULL, *job = NULL, *outputs = "output";
    const struct pd_extra_option extra[] = {
        {"template=TEMPLATE", NULL, &template, "the template, in place of the first word"},
        {"from=JOB", NULL, &job,
         "the files and settings of an earlier run: its id, the end of it, or its name"},
        {"outputs=FOLDER", NULL, &outputs, "with --from: where its record is; default: output"},
        {0}};
    const struct cmd_line line = {
        .usage =
            "paddlectl init [TEMPLATE [FOLDER]]\n"
            "paddlectl init --template=TEMPLATE [FOLDER]\n"
            "paddlectl init --from=JOB [FOLDER]\n"
            "Creates FOLDER (default: the name of the template) with a conf.ini and a workspace, "
            "both copied from the template. Without a template: lists the templates.",
        .about =
            "With --from the workspace has the files of that run as they were sent, with their "
            "modes and times. 'paddlectl run' keeps files of up to 1 MiB, and 64 MiB in all; "
            "a larger file is taken from the workspace of that time, if it has the same size "
            "and time there.\n",
        .examples =
            "paddlectl init word2vec\tword2vec/conf.ini and word2vec/workspace\n"
            "paddlectl init --from=wide again\tagain/workspace: the files of the run wide\n",
        .extra = extra,
        .max_rest = 2,
    };
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    pd_options_release(&o);
    if (job && (template || n_rest > 1)) {
        pd_fail(&err, PD_EUSAGE, "--from=JOB takes one FOLDER, and no template");
        return cmd_fail(&err);
    }
    if (job)
        return init_from(job, outputs, n_rest ? rest[0] : NULL, &err) ? cmd_fail(&err) : 0;
    if (template && n_rest > 1) {
        pd_fail(&err, PD_EUSAGE, "unexpected word '%s'; see 'paddlectl init --help'", rest[1]);
        return cmd_fail(&err);
    }
    const char *name = template ? template
                       : n_rest ? rest[0]
                                : NULL,
               *last = n_rest ? rest[n_rest - 1] : name;
    if (init(name, last, &err))
        return cmd_fail(&err);
    return 0;
}

static int import(const char *file, const char *to, struct pd_err *err) {
    struct pd_buf text = {0}, out = {0}, warnings = {0};
    struct stat st;
    int rc = 0;
    if (!lstat(to, &st))
        rc = pd_fail(err, PD_EUSAGE,
                     "%s exists; nothing was changed: give another name, as in 'paddlectl import "
                     "%s cluster.ini'",
                     to, file);
    if (!rc)
        rc = pd_read_file(file, CONF_PY_MAX, &text, err);
    if (!rc && text.len && memchr(text.data, 0, text.len))
        rc = pd_fail(err, PD_ECONF, "%s is not a text", file);
    pd_put_u8(&text, 0);
    if (!rc && text.failed)
        rc = pd_oom(err, "conf.py");
    if (!rc)
        rc = pd_conf_py_read(file, (char *)text.data, &out, &warnings, err);
    if (!rc)
        rc = pd_write_file_atomic(to, out.data, out.len, 0644, err);
    for (size_t at = 0, n; !rc && at < warnings.len; at += n) {
        const char *w = (char *)warnings.data + at;
        n = (size_t)((char *)memchr(w, '\n', warnings.len - at) - w) + 1;
        fprintf(stderr, "paddlectl: warning: %.*s", (int)n, w);
    }
    if (!rc)
        printf("%s: the hosts and settings of %s\nthen: 'paddlectl check --conf=%s' tests the "
               "hosts, and docs/migration.md names what replaces the rest\n",
               to, file, to);
    pd_buf_release(&text);
    pd_buf_release(&out);
    pd_buf_release(&warnings);
    return rc;
}

int cmd_import(int argc, char **argv) {
    const struct cmd_line line = {
        .usage = "paddlectl import [CONF.PY [FILE]]\n"
                 "Writes FILE (default: conf.ini) with the hosts and settings of the conf.py of "
                 "PaddlePaddle's Fabric launcher. CONF.PY (default: conf.py) is read, not run.",
        .examples = "paddlectl import ~/cluster_train/conf.py\tconf.ini for the same hosts\n",
        .max_rest = 2,
    };
    struct pd_options o;
    struct pd_err err = {0};
    const char *rest[CMD_REST_MAX];
    int n_rest, rc = cmd_parse(&line, argc, argv, &o, rest, &n_rest);
    if (rc != CMD_GO_ON)
        return rc;
    pd_options_release(&o);
    if (import(n_rest ? rest[0] : "conf.py", n_rest > 1 ? rest[1] : "conf.ini", &err))
        return cmd_fail(&err);
    return 0;
}
