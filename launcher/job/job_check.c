/* job_check.c - what is wrong with the training of a workspace that is here, before anything is
 * done: options that do not go together, and a train.ini whose network or optimizer does not hold.
 * The nodes would say the same, when everybody has everything.
 *
 *     conf.ini, command line ─┐
 *     train.ini's [train] ────┴▶ pd_train_check               here
 *     train.ini ───────────────▶ paddle_worker model --check  a process: this program has no layers
 *
 * Of an archive, train.ini and the files that its network names are put aside for that. Names that
 * lead out of the workspace mean other files here than on the nodes: then the network is left to
 * the nodes, as all of a job_workspace is. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fs.h"
#include "base/str.h"
#include "conf/ini_file.h"
#include "conf/train_check.h"
#include "data/read/reader.h"
#include "launcher/link/bootstrap.h"
#include "launcher/job/job_internal.h"
#include "pack/scan/scan.h"

extern char **environ;

#define OUTPUT "output" /* on the nodes, the job's */

enum { CONFIG_MAX = 1 << 20, NAMED_MAX = 1 << 30 };

struct check {
    const struct job *j;
    const char *package, *config; /* config: its name in the package */
    int archive;
    struct pd_buf text;      /* of train.ini */
    struct data_files named; /* by its network */
    char shown[PATH_MAX];    /* train.ini for messages */
};

/* --- options --- */

/* Which option reads what lies in the workspace's output: checkpoints by their names in save_dir,
 * and paths. NULL: none does. */
static const char *reads_output(const struct pd_options *o) {
    const int saved_there = !strcmp(o->save_dir, OUTPUT);
    if (pd_starts_with(o->init_model_path, OUTPUT "/"))
        return "init_model_path";
    if (*o->resume &&
        (pd_starts_with(o->resume, OUTPUT "/") || (saved_there && !strchr(o->resume, '/'))))
        return "resume";
    return o->start_pass && saved_there ? "start_pass" : NULL;
}

/* Left there by a training on this machine, it does not travel: nothing else would tell, since with
 * resume = latest there need not be any. */
static int check_output(const struct check *c, const struct pd_options *o, struct pd_err *err) {
    const char *name = reads_output(o);
    char path[PATH_MAX];
    struct stat st;
    if (c->archive || !name || pd_fmt(path, sizeof path, "%s/" OUTPUT, c->package) ||
        stat(path, &st) || !S_ISDIR(st.st_mode))
        return 0;
    int rc = scan_leaves_out(c->package, OUTPUT, err);
    if (rc <= 0)
        return rc;
    return pd_fail(err, PD_ECONF,
                   "%s: %s reads the workspace's " OUTPUT
                   ", which is not dispatched: write a line !/" OUTPUT
                   " into %s/.paddleignore to go on "
                   "from what is in it, or remove it to begin anew",
                   option_source(o, name), name, c->package);
}

/* A host may still be left out: then what needs fewer trainers is left to the nodes. */
static int check_options(const struct check *c, struct pd_err *err) {
    struct pd_options o;
    int rc = pd_options_copy(&o, c->j->opts, err);
    if (rc)
        return rc;
    const struct pd_train_place place = {.n_pservers = (uint32_t)c->j->c.n_pservers};
    o.num_gradient_servers = o.min_nodes ? 1 : (int64_t)c->j->c.n_trainers;
    rc = pd_options_read_train_text(&o, c->shown, (const char *)c->text.data, c->text.len, err);
    if (!rc)
        rc = pd_train_check(&o, &place, err);
    if (!rc)
        rc = check_output(c, &o, err);
    pd_options_release(&o);
    return rc;
}

/* --- the network --- */

static int on_pair(void *arg, const char *section, const char *name, const char *value, int line,
                   struct pd_err *err) {
    struct check *c = arg;
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

/* A file of the archive, in folder `dir`. */
static int put_aside(const struct check *c, const char *dir, const char *name,
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

/* 1: texts[i] is that of c->named.path[i]; 0: not all of them are files of the archive. */
static int read_named(const struct check *c, struct pd_buf *texts, struct pd_err *err) {
    int found = 1;
    for (size_t i = 0; i < c->named.n && found > 0; i++)
        found = scan_archive_file(c->package, c->named.path[i], NAMED_MAX, &texts[i], err);
    return found;
}

static int put_all_aside(const struct check *c, const char *dir, const struct pd_buf *texts,
                         struct pd_err *err) {
    int rc = put_aside(c, dir, c->config, &c->text, err);
    for (size_t i = 0; i < c->named.n && !rc; i++)
        rc = put_aside(c, dir, c->named.path[i], &texts[i], err);
    return rc;
}

/* `signals`: those that wait until the process is to have. */
static int start(pid_t *pid, const char *dir, const char *config, int out, const sigset_t *signals,
                 struct pd_err *err) {
    char worker[PATH_MAX],
        *argv[] = {worker, (char *)(uintptr_t) "model", (char *)(uintptr_t) "--check",
                   (char *)(uintptr_t)config, NULL};
    posix_spawn_file_actions_t acts;
    int rc = node_program_path("paddle_worker", worker, sizeof worker, err);
    if (rc)
        return rc;
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
    return e ? 1 : 0; /* 1: it does not run on this machine: then the nodes will say */
}

/* `config` from folder `dir` (NULL: the current one). */
static int ask_worker(const char *dir, const char *config, const sigset_t *signals,
                      struct pd_err *err) {
    int fd[2], status = 0;
    char said[sizeof err->msg];
    pid_t pid;
    if (pipe2(fd, O_CLOEXEC))
        return pd_fail_errno(err, PD_EFAIL, errno, "cannot make a pipe");
    int rc = start(&pid, dir, config, fd[1], signals, err);
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

static int check_aside(const struct check *c, const struct pd_buf *texts, const sigset_t *signals,
                       struct pd_err *err) {
    const char *tmp = getenv("TMPDIR");
    char dir[PATH_MAX];
    if (pd_fmt(dir, sizeof dir, "%s/paddlectl-XXXXXX", tmp && *tmp ? tmp : "/tmp") || !mkdtemp(dir))
        return pd_fail_errno(err, PD_EIO, errno, "cannot make a temporary folder (TMPDIR)");
    int rc = put_all_aside(c, dir, texts, err);
    if (!rc && (rc = ask_worker(dir, c->config, signals, err)))
        pd_err_prefix(err, "%s", c->package);
    pd_rm_tree(dir, NULL);
    return rc;
}

/* A signal to end waits until the folder is gone; Ctrl-C ends the process that is waited for. */
static int check_archive(const struct check *c, struct pd_err *err) {
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
        rc = check_aside(c, texts, &before, err);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    for (size_t i = 0; i < c->named.n; i++)
        pd_buf_release(&texts[i]);
    free(texts);
    return rc;
}

static int check_network(struct check *c, struct pd_err *err) {
    int rc = pd_ini_read_text(c->shown, (const char *)c->text.data, c->text.len, on_pair, c, err);
    for (size_t i = 0; i < c->named.n && !rc; i++)
        if (leads_out(c->named.path[i]))
            return 0;
    if (rc)
        return rc;
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    return c->archive ? check_archive(c, err) : ask_worker(NULL, c->shown, &now, err);
}

/* --- train.ini --- */

/* 1: it is here; 0: nothing can be said here. What is wrong with the package as such is found when
 * it is read. */
static int read_config(struct check *c, struct pd_err *err) {
    struct stat st;
    if (stat(c->package, &st) || leads_out(c->config))
        return 0;
    c->archive = !S_ISDIR(st.st_mode);
    if (pd_fmt(c->shown, sizeof c->shown, c->archive ? "%s: %s" : "%s/%s", c->package, c->config))
        return pd_fail(err, PD_ECONF, "the path of the workspace is too long");
    if (c->archive)
        return scan_archive_file(c->package, c->config, CONFIG_MAX, &c->text, NULL) == 1;
    int rc = pd_read_file(c->shown, CONFIG_MAX, &c->text, err);
    return rc ? rc : 1;
}

int job_check(const struct job *j, struct pd_err *err) {
    struct check c = {.j = j, .package = j->opts->job_dispatch_package, .config = j->opts->config};
    if (!j->sends_workspace || !j->c.n_trainers || *j->opts->trainer_command)
        return 0;
    while (pd_starts_with(c.config, "./"))
        c.config += 2;
    pd_buf_init(&c.text);
    int rc = read_config(&c, err);
    if (rc == 1 && !(rc = check_options(&c, err)))
        rc = check_network(&c, err);
    pd_buf_release(&c.text);
    data_files_release(&c.named);
    return rc;
}
