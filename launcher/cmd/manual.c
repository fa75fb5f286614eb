/* SPDX-License-Identifier: Apache-2.0 */
/* manual.c - --help and the manual pages; see manual.h. The completions are in complete.c. */
#include "launcher/cmd/manual.h"

#include "base/version.h"
#include "launcher/text/roff.h"
#include "launcher/text/term.h"

/* The description in `usage`: the text after the lines that begin with "paddlectl". */
static const char *description(const char *usage) {
    while (pd_starts_with(usage, "paddlectl ")) {
        const char *nl = strchr(usage, '\n');
        if (!nl)
            return "";
        usage = nl + 1;
    }
    return usage;
}

const char *manual_which(const struct cmd_line *line) {
    return line->sections ? line->sections : "cluster.hosts cluster.root_dir ssh";
}

static const struct {
    int status, talks; /* talks: only for commands that connect to hosts */
    const char *text;
} statuses[] = {
    {0, 0, "done"},
    {1, 0,
     "the command or the job failed, bad data included; for a job, host, role and last lines of "
     "the first failed process are shown"},
    {2, 0, "wrong usage or configuration, or a missing workspace; nothing was changed"},
    {3, 1, "a host could not be reached or used (wrong key, full disk)"},
    {130, 1, "stopped by Ctrl-C"},
};

/* Split a line "left<TAB>right" of examples or status. Returns the next line, or NULL. */
static const char *split_line(const char *s, const char **left, size_t *n_left, const char **right,
                              size_t *n_right) {
    size_t n = strcspn(s, "\n"), tab = strcspn(s, "\t\n");
    *left = s;
    *n_left = tab;
    *right = tab < n ? s + tab + 1 : s + n;
    *n_right = (size_t)(s + n - *right);
    return s[n] && s[n + 1] ? s + n + 1 : NULL;
}

/* --- --help --- */

void manual_help(const struct manual *m, struct pd_buf *out) {
    const struct cmd_line *line = m->line;
    const char *what = description(line->usage), *lead = "usage: ";
    int width = term_width(STDOUT_FILENO);
    width = width > 100 ? 100 : width;
    for (const char *s = line->usage; s < what; s += strcspn(s, "\n") + 1, lead = "       ")
        pd_put_fmt(out, "%s%.*s\n", lead, (int)strcspn(s, "\n"), s);
    pd_put_fmt(out, "\n");
    pd_help_text(out, what, width);
    pd_put_fmt(out, "\nOptions:\n");
    pd_options_help(line->who, line->who ? manual_which(line) : "", m->extra, width, out);
    if (line->who && !strstr(manual_which(line), "train"))
        pd_put_fmt(
            out,
            "\nThe command also accepts every other option of conf.ini; see paddlectl.ini(5).\n");
    if (line->examples)
        pd_put_fmt(out, "\nExamples:\n");
    for (const char *s = line->examples, *left, *right; s;) {
        size_t nl, nr;
        s = split_line(s, &left, &nl, &right, &nr);
        pd_put_fmt(out, "  %.*s\n", (int)nl, left);
        if (nr)
            pd_put_fmt(out, "      %.*s\n", (int)nr, right);
    }
}

/* --- man pages --- */

static void roff(struct pd_buf *out, const char *s) { roff_text(out, s, strlen(s), 0); }

/* Write one or more paragraphs, ended by a newline. */
static void para(struct pd_buf *out, const char *s) {
    size_t n = strlen(s);
    while (n && s[n - 1] == '\n')
        n--;
    roff_text(out, s, n, 1);
    pd_put_fmt(out, "\n");
}

static void head(struct pd_buf *out, const char *name, int section, const char *text) {
    pd_put_fmt(out,
               ".\\\" made by 'paddlectl help --man': change the tables in the sources\n.TH \"");
    for (const char *s = name; *s; s++)
        pd_put_u8(out, (uint8_t)toupper((unsigned char)*s));
    pd_put_fmt(out, "\" %d \"\" \"paddlectl %s\" \"paddlectl manual\"\n.SH NAME\n", section,
               PD_VERSION);
    roff(out, name);
    pd_put_fmt(out, " \\- ");
    roff(out, text);
    pd_put_fmt(out, "\n");
}

/* Write an entry of a list (.TP): the name in bold, the value in italics, the text. */
static void option(struct pd_buf *out, const char *prefix, const char *name, const char *value,
                   const char *text, const char *note) {
    pd_put_fmt(out, ".TP\n\\fB");
    roff(out, prefix);
    roff(out, name);
    pd_put_fmt(out, "\\fR");
    if (value) {
        pd_put_fmt(out, *prefix ? "=\\fI" : " = \\fI");
        roff(out, value);
        pd_put_fmt(out, "\\fR");
    }
    pd_put_fmt(out, "\n");
    roff_text(out, text, strlen(text), 1);
    if (*note) {
        pd_put_fmt(out, "\n(");
        roff(out, note);
        pd_put_fmt(out, ")");
    }
    pd_put_fmt(out, "\n");
}

static void table_options(struct pd_buf *out, unsigned who, const char *section, const char *which,
                          const char *prefix) {
    const char *above = NULL;
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    for (size_t i = 0; i < n; i++) {
        char name[128];
        struct pd_buf note = {0};
        if (!(t[i].who & who) || (section && strcmp(t[i].section, section)) ||
            !pd_option_is_listed(&t[i], which))
            continue;
        if (!section && (!above || strcmp(above, t[i].section)))
            pd_put_fmt(out, ".SS [%s]\n", above = t[i].section);
        if (*prefix)
            pd_option_spelling(i, who, name);
        else
            pd_fmt(name, sizeof name, "%s", t[i].name);
        pd_option_bounds(&t[i], &note);
        pd_put_u8(&note, 0);
        option(out, prefix, name, pd_option_placeholder(&t[i]), t[i].text,
               note.failed ? "" : (char *)note.data);
        pd_buf_release(&note);
    }
}

static const char *const sections[] = {"cluster", "slurm", "kubernetes", "ssh", "job", "train"};
enum { N_SECTIONS = sizeof sections / sizeof sections[0] };

static void exit_status(struct pd_buf *out, const struct cmd_line *line) {
    pd_put_fmt(out, ".SH EXIT STATUS\n");
    for (const char *s = line ? line->status : NULL, *left, *right; s;) {
        size_t nl, nr;
        s = split_line(s, &left, &nl, &right, &nr);
        pd_put_fmt(out, ".TP\n\\fB%.*s\\fR\n", (int)nl, left);
        roff_text(out, right, nr, 1);
        pd_put_fmt(out, "\n");
    }
    for (size_t i = 0; !(line && line->status) && i < sizeof statuses / sizeof statuses[0]; i++)
        if (!statuses[i].talks || !line || (line->who && line->needs_conf)) {
            pd_put_fmt(out, ".TP\n\\fB%d\\fR\n", statuses[i].status);
            para(out, statuses[i].text);
        }
}

struct name_text {
    const char *name, *text;
};

/* tests/integration/source/documents.sh: every variable that the programs read is here or in docs.
 */
static const struct name_text environment[] = {
    {"COLUMNS", "the width of plots, if the output is no terminal"},
    {"HOME", "the folder of ~ in paths"},
    {"NO_COLOR", "if set to any value, paddlectl uses no colours"},
    {"PADDLECTL_LIBEXEC",
     "the folder of paddle_agent and paddle_worker, if they are not in the installed place"},
    {"PATH", "where ssh, srun, kubectl, mpirun and other programs are found"},
    {"SHELL", "runs the ProxyCommand of ssh's configuration"},
    {"SLURM_JOB_ID, SLURM_JOB_NUM_NODES, SLURM_JOB_NODELIST",
     "engine = slurm: the allocation in which paddlectl was started"},
    {"SSH_ASKPASS, SSH_ASKPASS_REQUIRE",
     "the program that asks for passwords and passphrases, and whether it is used, as for ssh"},
    {"SSH_AUTH_SOCK", "the socket of the ssh agent"},
    {"TERM", "the kind of terminal; dumb: no colours and no live lines"},
    {"TMPDIR", "the folder of temporary files; default: /tmp"},
    {"USER", "the name to log in with, if the system does not know the user"},
    {"XDG_CACHE_HOME", "the folder of the cache; default: ~/.cache"},
    {NULL, NULL},
};

static const struct name_text files[] = {
    {"conf.ini", "the configuration, in the current folder unless --conf names another file"},
    {"workspace/train.ini", "the data, the network and the training, see paddlectl-train.ini(5)"},
    {"workspace/.paddleignore", "files that are not sent, by the rules of .gitignore"},
    {"output/", "the outputs of jobs, one folder per job; output/latest points at the newest"},
    {"~/.ssh/config, ~/.ssh/known_hosts", "how to reach hosts, and their keys, as for ssh"},
    {"~/.cache/paddlectl/", "hashes of files that were sent, to read only what has changed"},
    {NULL, NULL},
};

static void put_names(struct pd_buf *out, const struct name_text *t) {
    for (; t->name; t++)
        option(out, "", t->name, NULL, t->text, "");
}

static void own_options(const struct manual *m, struct pd_buf *out) {
    pd_put_fmt(out, ".SH OPTIONS\n");
    for (const struct pd_extra_option *e = m->extra; e->name; e++) {
        char name[64];
        const char *eq = strchr(e->name, '=');
        pd_fmt(name, sizeof name, "%.*s", (int)strcspn(e->name, "="), e->name);
        option(out, "--", name, eq ? eq + 1 : e->flag ? NULL : "VALUE", e->text, "");
    }
    if (!m->line->who)
        return;
    pd_put_fmt(out, ".PP\nThe command also accepts all options of conf.ini, which override the "
                    "file. These concern the command most:\n");
    table_options(out, m->line->who, NULL, manual_which(m->line), "--");
}

void manual_man(const struct manual *m, struct pd_buf *out) {
    const struct cmd_line *line = m->line;
    const char *what = description(line->usage);
    char name[100];
    pd_fmt(name, sizeof name, "paddlectl-%s", m->name);
    head(out, name, 1, m->text);
    pd_put_fmt(out, ".SH SYNOPSIS\n");
    for (const char *s = line->usage; s < what; s += strcspn(s, "\n") + 1) {
        pd_put_fmt(out, s > line->usage ? ".br\n\\fBpaddlectl %s\\fR" : "\\fBpaddlectl %s\\fR",
                   m->name);
        const char *rest = s + strlen("paddlectl ") + strlen(m->name);
        roff_text(out, rest, strcspn(rest, "\n"), 0);
        pd_put_fmt(out, "\n");
    }
    pd_put_fmt(out, ".SH DESCRIPTION\n");
    para(out, what);
    if (line->about) {
        pd_put_fmt(out, ".PP\n");
        para(out, line->about);
    }
    own_options(m, out);
    exit_status(out, line);
    if (line->examples)
        pd_put_fmt(out, ".SH EXAMPLES\n");
    for (const char *s = line->examples, *left, *right; s;) {
        size_t nl, nr;
        s = split_line(s, &left, &nl, &right, &nr);
        pd_put_fmt(out, ".TP\n\\fB");
        roff_text(out, left, nl, 0);
        pd_put_fmt(out, "\\fR\n");
        roff_text(out, right, nr, 1);
        pd_put_fmt(out, "\n");
    }
    pd_put_fmt(out, ".SH SEE ALSO\n.BR paddlectl (1),\n.BR paddlectl.ini (5)\n");
}

void manual_main_man(const struct command *table, size_t n, struct pd_buf *out) {
    head(out, "paddlectl", 1, "train a model on machines that you can ssh into");
    pd_put_fmt(out, ".SH SYNOPSIS\n\\fBpaddlectl\\fR \\fICOMMAND\\fR [options]\n.SH DESCRIPTION\n");
    para(out, "paddlectl sends a workspace to a list of Linux machines over ssh, starts parameter "
              "servers and trainers there, shows their logs until they end, and copies their "
              "outputs to this machine. The machines need sshd and /bin/sh. paddlectl installs "
              "nothing on them and leaves no process running. conf.ini describes the machines and "
              "the job, see paddlectl.ini(5). Each of its options can also be given on the command "
              "line: --num_passes=5, --num_passes 5 and --num-passes=5 are equivalent.");
    pd_put_fmt(out, ".SH COMMANDS\n");
    for (size_t i = 0; i < n; i++) {
        pd_put_fmt(out, ".TP\n\\fB%s\\fR\n", table[i].name);
        para(out, table[i].text);
    }
    pd_put_fmt(out, ".PP\nEach command has a manual page, \\fBpaddlectl\\-\\fICOMMAND\\fR(1), and "
                    "the option \\fB\\-\\-help\\fR.\n");
    exit_status(out, NULL);
    pd_put_fmt(out, ".SH ENVIRONMENT\n");
    put_names(out, environment);
    pd_put_fmt(out, ".SH FILES\n");
    put_names(out, files);
    pd_put_fmt(out, ".SH SEE ALSO\n.BR paddlectl.ini (5),\n.BR paddlectl\\-train.ini (5)");
    for (size_t i = 0; i < n; i++)
        pd_put_fmt(out, ",\n.BR paddlectl\\-%s (1)", table[i].name);
    pd_put_fmt(out, "\n");
}

void manual_ini_man(struct pd_buf *out) {
    static const char *const about[N_SECTIONS] = {
        "The machines and their roles.",
        "The allocation that paddlectl run makes with engine = slurm.",
        "The pods of engine = kubernetes.",
        "How paddlectl reaches the machines.",
        "The workspace to send, the programs to start, the outputs to fetch.",
        "Options of parameter servers and trainers; they override the workspace's train.ini.",
    };
    head(out, "paddlectl.ini", 5, "conf.ini, the machines and the job of paddlectl(1)");
    pd_put_fmt(out, ".SH DESCRIPTION\n");
    para(out, "Sections in brackets contain lines 'name = value'. A line that starts with # or ; "
              "is a comment, and so is the rest of a line after a blank and a semicolon. An "
              "indented line continues the value above. Paths are relative to the folder of the "
              "file. An unknown section or name, a value out of range and a repeated name are "
              "errors; the message gives file and line.\n\n"
              "Every option can also be given on the command line, where paths are relative to the "
              "current folder. The command line overrides the environment (PADDLE_INIT_NAME, on "
              "the nodes), which overrides conf.ini, which overrides [train] of train.ini, which "
              "overrides the default. 'paddlectl conf' shows every value and its origin.\n\n"
              "--set SECTION.KEY=VALUE sets any key of this file or of train.ini on the command "
              "line: --set env.A=b, --set host.node3.user=root, --set train.seed=7, --set "
              "layer.hidden.size=512. A key of train.ini is checked as in the file, and the saved "
              "model has the changed text. If a key is given twice, the last value counts.");
    for (size_t i = 0; i < N_SECTIONS; i++) {
        pd_put_fmt(out, ".SH \"[%s]\"\n", sections[i]);
        para(out, about[i]);
        table_options(out, PD_LAUNCHER, sections[i], NULL, "");
        if (i)
            continue;
        pd_put_fmt(out, ".SH \"[groups]\"\n");
        option(
            out, "", "NAME", "HOSTS",
            "a name for a list of hosts, used as @NAME in hosts, in other groups and in [host ...]",
            "");
        pd_put_fmt(out, ".SH \"[host PATTERN]\"\n");
        para(out, "Settings of some hosts only. PATTERN has the syntax of hosts, with * and ? as "
                  "wildcards. If several sections match a host, the later section overrides the "
                  "earlier one, name by name; the command line overrides all. A section that "
                  "matches no host is an error.");
        for (int k = 0; k < PD_HOST_N_KEYS; k++)
            option(out, "", pd_host_keys[k].name,
                   pd_host_keys[k].type == PD_INT    ? "N"
                   : pd_host_keys[k].type == PD_PATH ? "FILE"
                                                     : "TEXT",
                   pd_host_keys[k].text, "");
        option(out, "", "env.NAME", "TEXT",
               "environment of the processes on these hosts; overrides [env]", "");
    }
    pd_put_fmt(out, ".SH \"[env]\"\n");
    option(out, "", "NAME", "TEXT", "environment of every process of the job", "");
    pd_put_fmt(out, ".SH \"LISTS OF HOSTS\"\n");
    para(out,
         "Hosts are written [user@]host[:port], separated by commas or blanks. Their order gives "
         "the node ids, and a repeated host is an error. Brackets contain numbers and ranges: "
         "node[1-3,7], node-[01-16] with leading zeros, node[0-30/10] with a step; several "
         "brackets in a name give all combinations. IPv6 addresses need brackets: [fe80::1]:22. "
         "!node3 removes node3 from the list before it; if node3 is not in the list, this is an "
         "error. @NAME is a group, or else a file with such lists and # comments, one list per "
         "line. local is a node on this machine, without ssh; local*3 are three nodes.");
    pd_put_fmt(out, ".SH EXAMPLE\n.nf\n");
    static const char *const example[] = {"[cluster]",
                                          "hosts = root@192.168.1.[10-17], gpu-[01-04], !gpu-03",
                                          "pservers = 4",
                                          "root_dir = /home/paddle",
                                          "",
                                          "[host gpu-*]",
                                          "port = 2222",
                                          "env.OMP_NUM_THREADS = 4",
                                          "",
                                          "[job]",
                                          "job_dispatch_package = ./workspace",
                                          "",
                                          "[train]",
                                          "num_passes = 2"};
    for (size_t i = 0; i < sizeof example / sizeof example[0]; i++)
        para(out, example[i]);
    pd_put_fmt(out, ".fi\n.SH SEE ALSO\n.BR paddlectl (1),\n.BR paddlectl\\-conf (1),\n.BR "
                    "paddlectl\\-train.ini (5)\n");
}

void manual_train_man(const char *reference, struct pd_buf *out) {
    head(out, "paddlectl-train.ini", 5, "train.ini, the network that paddlectl(1) trains");
    roff_markdown(reference, out);
    pd_put_fmt(out, ".SH SEE ALSO\n.BR paddlectl (1),\n.BR paddlectl\\-conf (1),\n"
                    ".BR paddlectl.ini (5)\n");
}

void manual_worker_man(struct pd_buf *out) {
    head(out, "paddle_worker", 1, "parameter server and trainer of paddlectl(1)");
    pd_put_fmt(out, ".SH SYNOPSIS\n\\fBpaddle_worker\\fR [pserver|trainer] [\\-\\-option=value "
                    "...]\n.SH DESCRIPTION\n");
    para(out, "paddlectl starts this program on the machines of a job. By hand it is one process "
              "of a job whose processes mpirun, srun or a script starts; paddle_worker --help says "
              "which variables of the environment decide its role.");
    pd_put_fmt(out, ".SH OPTIONS\n");
    table_options(out, PD_WORKER, NULL, NULL, "--");
    exit_status(out, NULL);
    pd_put_fmt(out, ".SH SEE ALSO\n.BR paddlectl (1),\n.BR paddlectl\\-train.ini (5)\n");
}

void manual_words(const char *usage, char *out, size_t cap) {
    size_t n = 0;
    out[0] = 0;
    for (const char *s = usage; *s && *s != '\n'; s++) {
        size_t k = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (k > 1 && s > usage && s[-1] != '=' && !isalnum((unsigned char)s[-1]) &&
            n + k + 2 < cap) {
            n += (size_t)(n ? (out[n] = ' ', 1) : 0);
            memcpy(out + n, s, k);
            out[n += k] = 0;
        }
        s += k ? k - 1 : 0;
    }
}
