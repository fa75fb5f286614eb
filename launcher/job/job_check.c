/* SPDX-License-Identifier: Apache-2.0 */
/* job_check.c - finds errors of a local workspace before anything is sent: options that exclude
 * each other, and errors of the network or optimizer in train.ini. The nodes would find the same
 * errors, but only after the transfer.
 *
 *     conf.ini, command line ─┐
 *     train.ini's [train] ────┴▶ pd_train_check               here
 *     train.ini ───────────────▶ paddle_worker model --check  a process: paddlectl has no layers
 *
 * From an archive, train.ini and the files that its network names are unpacked for the process. If
 * a name leads out of the workspace, it means another file on the nodes: then the nodes check the
 * network. In a job_workspace of hosts that are all local, train.ini is checked likewise; that of
 * other hosts is checked by the trainers. */
#include <spawn.h>
#include <sys/wait.h>

#include "conf/ini_file.h"
#include "conf/settings.h"
#include "conf/train_check.h"
#include "data/read/reader.h"
#include "launcher/link/bootstrap.h"
#include "launcher/job/job_internal.h"
#include "pack/scan/scan.h"

extern char **environ;

#define OUTPUT "output" /* on the nodes this folder of the workspace is the job's output */

enum { CONFIG_MAX = 1 << 20, NAMED_MAX = 1 << 30 };

/* --- options --- */

/* The option that reads from the workspace's output: a checkpoint in save_dir, or a path. NULL:
 * none. */
static const char *reads_output(const struct pd_options *o, int brought) {
    const int saved_there = !strcmp(o->save_dir, OUTPUT);
    /* a checkpoint that paddlectl brings is not read there */
    const char *resume = brought ? "" : o->resume;
    if (pd_starts_with(o->init_model_path, OUTPUT "/"))
        return "init_model_path";
    if (*resume && (pd_starts_with(resume, OUTPUT "/") || (saved_there && !strchr(resume, '/'))))
        return "resume";
    return o->start_pass && saved_there ? "start_pass" : NULL;
}

/* Refuse options that read a local output folder which is not dispatched. The nodes would not
 * notice: with resume = latest a missing checkpoint is no error. */
static int check_output(const struct job_config *c, const struct pd_options *o,
                        struct pd_err *err) {
    const char *name = reads_output(o, *c->j->checkpoint.name != 0);
    char path[PATH_MAX];
    struct stat st;
    if (c->archive || !name || pd_fmt(path, sizeof path, "%s/" OUTPUT, c->package) ||
        stat(path, &st) || !S_ISDIR(st.st_mode))
        return 0;
    int rc = scan_leaves_out(c->package, OUTPUT, err);
    if (rc <= 0)
        return rc;
    if (!strcmp(name, "init_model_path"))
        return pd_fail(err, PD_ECONF,
                       "%s: %s reads the workspace's " OUTPUT
                       ", which is not dispatched: add a line !/" OUTPUT
                       " to %s/.paddleignore to start with its values",
                       option_source(o, name), name, c->package);
    return pd_fail(err, PD_ECONF,
                   "%s: %s reads the workspace's " OUTPUT
                   ", which is not dispatched: give --resume=%s/" OUTPUT
                   " to continue from its newest checkpoint, or remove the folder to start from "
                   "the beginning",
                   option_source(o, name), name, c->package);
}

static void note_update(struct job_config *c, const struct pd_options *o) {
    struct pd_buf text = {0};
    pd_options_text(o, (size_t)pd_options_find("update", PD_LAUNCHER), &text);
    pd_fmt(c->update, sizeof c->update, "--update=%.*s", (int)text.len, (char *)text.data);
    pd_buf_release(&text);
}

/* With min_nodes hosts may still be left out: then the nodes check the number of trainers. */
static int check_options(struct job_config *c, struct pd_err *err) {
    struct pd_options o;
    int rc = pd_options_copy(&o, c->j->opts, err);
    if (rc)
        return rc;
    const struct pd_train_place place = {.n_pservers = (uint32_t)c->j->c.n_pservers};
    o.num_gradient_servers = o.min_nodes ? 1 : (int64_t)c->j->c.n_trainers;
    rc = pd_options_read_train_text(&o, c->shown, (const char *)c->text.data, c->text.len, err);
    if (!rc)
        rc = pd_train_check(&o, &place, err);
    if (!rc && c->j->sends_workspace)
        rc = check_output(c, &o, err);
    note_update(c, &o);
    if (!rc && c->j->sends_workspace &&
        !strchr(c->config, '/')) /* patterns are relative to the folder of train.ini */
        rc = job_files_check(c, &o, err);
    pd_options_release(&o);
    return rc;
}

/* --- the network --- */

static int on_pair(void *arg, const char *section, const char *name, const char *value, int line,
                   struct pd_err *err) {
    struct job_config *c = arg;
    int file = (!strcmp(section, "data") && !strcmp(name, "vocabulary_file")) ||
               (pd_starts_with(section, "layer") && !strcmp(name, "counts"));
    (void)line;
    return file && data_files_add(&c->named, value) ? pd_oom(err, "the files of a workspace") : 0;
}

static int leads_out(const char *name) {
    if (*name == '/')
        return 1;
    for (const char *s = name; (s = strstr(s, "..")); s += 2)
        if ((s == name || s[-1] == '/') && (!s[2] || s[2] == '/'))
            return 1;
    return 0;
}

/* Write a file of the archive to folder `dir`. */
static int write_file(const struct job_config *c, const char *dir, const char *name,
                      const struct pd_buf *text, struct pd_err *err) {
    char path[PATH_MAX];
    if (pd_fmt(path, sizeof path, "%s/%s", dir, name))
        return pd_fail(err, PD_ECONF, "path too long: %s in %s", name, c->package);
    char *slash = strrchr(path, '/');
    *slash = 0;
    int rc = pd_mkdirs(path, 0700, err);
    *slash = '/';
    return rc ? rc : pd_write_file_quick(path, text->data, text->len, 0600, err);
}

/* 1: texts[i] is the text of c->named.path[i]; 0: the archive lacks one of the files. */
static int read_named(const struct job_config *c, struct pd_buf *texts, struct pd_err *err) {
    int found = 1;
    for (size_t i = 0; i < c->named.n && found > 0; i++)
        found = scan_archive_file(c->package, c->named.path[i], NAMED_MAX, &texts[i], err);
    return found;
}

static int write_files(const struct job_config *c, const char *dir, const struct pd_buf *texts,
                       struct pd_err *err) {
    int rc =
        write_file(c, dir, c->config, &c->text, err); /* the worker sets the same pairs again */
    for (size_t i = 0; i < c->named.n && !rc; i++)
        rc = write_file(c, dir, c->named.path[i], &texts[i], err);
    return rc;
}

/* Start `paddle_worker model --check` in folder `dir`, with stderr to `out` and signal mask
 * `signals`. 1: the worker does not run on this machine; the nodes will check. */
static int start(pid_t *pid, const struct job_config *c, const char *dir, const char *config,
                 int out, const sigset_t *signals, struct pd_err *err) {
    char worker[PATH_MAX];
    const char *const first[] = {worker, "model", "--check", c->update, NULL};
    posix_spawn_file_actions_t acts;
    int rc = node_program_path("paddle_worker", worker, sizeof worker, err);
    if (rc)
        return rc;
    char **argv = pd_settings_argv(c->j->opts, first, config);
    if (!argv)
        return pd_oom(err, "the check of train.ini");
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_addopen(&acts, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&acts, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&acts, out, 2);
    if (dir)
        posix_spawn_file_actions_addchdir_np(&acts, dir);
    posix_spawnattr_t attr;
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, signals);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    int e = posix_spawn(pid, worker, &acts, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&acts);
    free(argv);
    return e ? 1 : 0;
}

/* Let the worker check `config`, relative to folder `dir` (NULL: the current folder). */
static int run_worker_check(const struct job_config *c, const char *dir, const char *config,
                            const sigset_t *signals, struct pd_err *err) {
    int fd[2], status = 0;
    char said[sizeof err->msg];
    pid_t pid;
    if (pipe2(fd, O_CLOEXEC))
        return pd_fail_errno(err, PD_EFAIL, errno, "cannot make a pipe");
    int rc = start(&pid, c, dir, config, fd[1], signals, err);
    close(fd[1]);
    ssize_t n = rc ? 0 : pd_read_full(fd[0], said, sizeof said - 1);
    close(fd[0]);
    if (rc)
        return rc < 0 ? rc : 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    said[n > 0 ? n : 0] = 0;
    said[strcspn(said, "\n")] = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 2 ? pd_fail(err, PD_ECONF, "%s", said) : 0;
}

static int check_in_folder(const struct job_config *c, const struct pd_buf *texts,
                           const sigset_t *signals, struct pd_err *err) {
    const char *tmp = getenv("TMPDIR");
    char dir[PATH_MAX];
    if (pd_fmt(dir, sizeof dir, "%s/paddlectl-XXXXXX", tmp && *tmp ? tmp : "/tmp") || !mkdtemp(dir))
        return pd_fail_errno(err, PD_EIO, errno, "cannot make a temporary folder (TMPDIR)");
    int rc = write_files(c, dir, texts, err);
    if (!rc && (rc = run_worker_check(c, dir, c->config, signals, err)))
        pd_err_prefix(err, "%s", c->package);
    pd_rm_tree(dir, NULL);
    return rc;
}

/* Signals stay blocked until the temporary folder is removed. Ctrl-C also reaches the worker, which
 * ends. */
static int check_archive(const struct job_config *c, struct pd_err *err) {
    struct pd_buf *texts = pd_calloc(c->named.n + 1, sizeof *texts);
    sigset_t stops, before;
    if (!texts)
        return pd_oom(err, "the files of a workspace");
    int rc = read_named(c, texts, err);
    if (rc > 0) {
        sigemptyset(&stops);
        sigaddset(&stops, SIGINT);
        sigaddset(&stops, SIGTERM);
        sigaddset(&stops, SIGHUP);
        pthread_sigmask(SIG_BLOCK, &stops, &before);
        rc = check_in_folder(c, texts, &before, err);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    for (size_t i = 0; i < c->named.n; i++)
        pd_buf_release(&texts[i]);
    free(texts);
    return rc;
}

static int check_network(struct job_config *c, struct pd_err *err) {
    int rc =
        pd_ini_read_text(c->shown, (const char *)c->text.data, c->text.len, NULL, on_pair, c, err);
    for (size_t i = 0; i < c->named.n && !rc; i++)
        if (leads_out(c->named.path[i]))
            return 0;
    if (rc)
        return rc;
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    return c->archive ? check_archive(c, err) : run_worker_check(c, NULL, c->shown, &now, err);
}

/* --- train.ini --- */

/* 1: train.ini was read; 0: it cannot be checked here. Errors of the package itself are found when
 * it is scanned. */
static int read_config(struct job_config *c, struct pd_err *err) {
    struct stat st;
    if (stat(c->package, &st) || leads_out(c->config))
        return 0;
    c->archive = !S_ISDIR(st.st_mode);
    if (pd_fmt(c->shown, sizeof c->shown, c->archive ? "%s: %s" : "%s/%s", c->package, c->config))
        return pd_fail(err, PD_ECONF, "the path of the workspace is too long");
    if (c->archive)
        return scan_archive_file(c->package, c->config, CONFIG_MAX, &c->text, NULL) == 1;
    if (access(c->shown, F_OK) && errno == ENOENT)
        return pd_fail(err, PD_ENOENT,
                       "cannot open %s: No such file or directory; --config names the file, "
                       "'paddlectl init' copies a template",
                       c->shown);
    int rc = pd_read_file(c->shown, CONFIG_MAX, &c->text, err);
    return rc ? rc : 1;
}

int job_check(struct job *j, struct pd_err *err) {
    struct job_config c = {
        .j = j, .package = j->opts->job_dispatch_package, .config = j->opts->config};
    char there[PATH_MAX];
    if (!j->c.n_trainers || *j->opts->trainer_command)
        return 0;
    if (!j->sends_workspace) {
        if (!client_env_is_local(&j->c) || *j->opts->job_workspace != '/' ||
            root_for_node(j->opts->job_workspace, 0, there, sizeof there, NULL))
            return 0;
        c.package = there;
    }
    while (pd_starts_with(c.config, "./"))
        c.config += 2;
    pd_buf_init(&c.text);
    int rc = read_config(&c, err);
    if (rc == 1 && !(rc = pd_settings_apply(j->opts, c.shown, &c.text, c.line, err)) &&
        !(rc = check_options(&c, err)))
        rc = check_network(&c, err);
    pd_buf_release(&j->train_ini);
    j->train_ini = c.text;
    data_files_release(&c.named);
    return rc;
}
