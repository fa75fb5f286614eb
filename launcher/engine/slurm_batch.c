/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_batch.c - paddlectl run --detach outside of an allocation: the command without --detach
 * becomes a batch job, so it needs nothing of this machine but the files. */
#include "launcher/engine/slurm.h"
#include "launcher/hosts/host_source.h"

static int is_detach(const char *word) {
    return pd_starts_with(word, "--detach") && (!word[8] || word[8] == '=');
}

/* Slurm starts a batch job again, from its first line, after a node was lost or the job was put
 * back into the queue. It goes on with the last checkpoint of the job that the log names. */
static void put_again(struct pd_buf *b, const struct pd_options *o) {
    pd_put_fmt(b, "log=");
    pd_put_quoted(b, o->outputs);
    pd_put_fmt(b,
               "/slurm-$SLURM_JOB_ID.log\n"
               "last=$(sed -n 's/^paddlectl | \\(JOB[^ ]*\\) on .*/\\1/p' \"$log\" | tail -n 1)\n"
               "if [ \"$SLURM_RESTART_COUNT\" ] && grep -q ' | Saved ' \"$log\"; then\n"
               "echo \"paddlectl: Slurm starts the job again: resuming from $last\"\n"
               "set -- --resume=\"$last\"; fi\n");
}

/* The batch script. The node may see other folders than this machine. */
static void put_script(struct pd_buf *b, const struct pd_options *o, const char *self,
                       const char *here, char *const *argv) {
    int own = 0; /* words behind "--" */
    const char *const needed[] = {self, o->job_dispatch_package};
    pd_put_fmt(b, "cd ");
    pd_put_quoted(b, here);
    pd_put_fmt(b, " 2>/dev/null || x=");
    pd_put_quoted(b, here);
    for (size_t i = 0; i < 2; i++)
        if (*needed[i]) {
            pd_put_fmt(b, "\ntest -e ");
            pd_put_quoted(b, needed[i]);
            pd_put_fmt(b, " || x=");
            pd_put_quoted(b, needed[i]);
        }
    pd_put_fmt(b, "\nif [ \"$x\" ]; then echo \"paddlectl: $SLURMD_NODENAME does not see $x: run "
                  "--detach needs paddlectl, conf.ini and the workspace in folders that the nodes "
                  "share\"; exit 2; fi\n");
    put_again(b, o);
    pd_put_fmt(b, "exec ");
    pd_put_quoted(b, self);
    for (; *argv; argv++) {
        if (!own && !strcmp(*argv, "--")) {
            pd_put_fmt(b, " \"$@\"");
            own = 1;
        }
        if (!own && is_detach(*argv))
            continue;
        pd_put_u8(b, ' ');
        pd_put_quoted(b, *argv);
    }
    if (!own)
        pd_put_fmt(b, " \"$@\"");
    pd_put_u8(b, 0);
}

static int put_command(struct pd_buf *b, const struct pd_options *o, const char *script,
                       struct pd_err *err) {
    pd_put_fmt(b, "exec 2>&1; sbatch --parsable --open-mode=append");
    slurm_put_options(b, o);
    pd_put_fmt(b, " --output=");
    pd_put_quoted(b, o->outputs);
    pd_put_fmt(b, "/slurm-%%j.log --wrap=");
    pd_put_quoted(b, script);
    pd_put_u8(b, 0);
    return b->failed ? pd_oom(err, "the command of sbatch") : 0;
}

/* The message of sbatch, without its name, on one line. */
static int refused(char *text, struct pd_err *err) {
    static const char prefix[] = "sbatch: error: ";
    char why[600] = "";
    for (char *end; *text; text = end) {
        end = text + strcspn(text, "\n");
        if (*end)
            *end++ = 0;
        if (pd_starts_with(text, prefix))
            text += sizeof prefix - 1;
        const size_t n = strlen(why);
        pd_fmt(why + n, sizeof why - n, "%s%s", n ? "; " : "", text);
    }
    return pd_fail(err, PD_EHOST, "no batch job: %s", *why ? why : "sbatch gives no reason");
}

static int submit(const struct pd_options *o, const char *command, struct pd_err *err) {
    struct pd_buf out = {0};
    struct pd_err none = {0};
    int rc = host_source_run(command, "sbatch", &out, &none);
    pd_put_u8(&out, 0);
    char *text = out.failed ? NULL : pd_trim((char *)out.data);
    if (!text || (rc && !*text)) {
        rc = pd_fail(err, PD_EHOST, "no batch job: %s", none.msg);
    } else if (rc) {
        rc = refused(text, err);
    } else {
        const char *id = strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text;
        const int n = (int)strcspn(id, ";"); /* the cluster's name may follow */
        printf("%.*s\n", n, id);
        fprintf(stderr,
                "paddlectl: Slurm job %.*s is submitted, with its output in %s/slurm-%.*s.log\n"
                "paddlectl: next: squeue --jobs=%.*s; paddlectl logs --allocation=%.*s; scancel "
                "%.*s\n",
                n, id, o->outputs, n, id, n, id, n, id, n, id);
    }
    pd_buf_release(&out);
    return rc;
}

int slurm_batch(const struct pd_options *o, char *const *argv, int *status, struct pd_err *err) {
    struct pd_buf script = {0}, command = {0};
    char folder[PATH_MAX], self[PATH_MAX], here[PATH_MAX];
    int rc = 0;
    if (pd_self_dir(folder, sizeof folder) || pd_fmt(self, sizeof self, "%s/paddlectl", folder) ||
        !getcwd(here, sizeof here))
        rc = pd_fail(err, PD_ENOENT, "cannot determine the folders of this program");
    else if (mkdir(o->outputs, 0777) && errno != EEXIST) /* sbatch does not make it */
        rc = pd_fail_errno(err, PD_ECONF, errno, "cannot make the folder %s", o->outputs);
    if (!rc) {
        put_script(&script, o, self, here, argv);
        rc = script.failed ? pd_oom(err, "the batch script")
                           : put_command(&command, o, (char *)script.data, err);
    }
    rc = rc ? rc : submit(o, (char *)command.data, err);
    pd_buf_release(&script);
    pd_buf_release(&command);
    *status = 0;
    return rc ? rc : 1;
}
