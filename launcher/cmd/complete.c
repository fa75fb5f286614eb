/* SPDX-License-Identifier: Apache-2.0 */
/* complete.c - completion for bash and zsh. The generated scripts are complete: at a TAB they call
 * paddlectl only for the names of templates. The branch of a command lists its options as
 * "--name=KIND". KIND is FILE, FOLDER, JOB, alternatives separated by |, or any other text for
 * values that cannot be completed. */
#include "launcher/cmd/manual.h"

/* Call `give` for every option that --help shows. kind: NULL for a flag. */
static void each_option(const struct manual *m,
                        void (*give)(struct pd_buf *out, const char *name, const char *kind,
                                     const char *text),
                        struct pd_buf *out) {
    size_t n;
    const struct pd_option *t = pd_option_table(&n);
    for (const struct pd_extra_option *e = m->extra; e->name; e++) {
        char name[64];
        const char *eq = strchr(e->name, '=');
        pd_fmt(name, sizeof name, "%.*s", (int)strcspn(e->name, "="), e->name);
        give(out, name, eq ? eq + 1 : e->flag ? NULL : "VALUE", e->text);
    }
    for (size_t i = 0; i < n; i++) {
        char name[128];
        if (!(t[i].who & m->line->who) || !pd_option_is_listed(&t[i], manual_which(m->line)))
            continue;
        pd_option_spelling(i, m->line->who, name);
        give(out, name, pd_option_placeholder(&t[i]), t[i].text);
    }
}

/* --- bash --- */

/* In COMP_WORDS the character = is a separate word, since COMP_WORDBREAKS contains it. Users may
 * type an option's name with - or _. */
const char complete_bash_head[] =
    "# bash completion of paddlectl; made by 'paddlectl help --bash'\n"
    "_paddlectl_values() { # KIND TEXT: what may stand there\n"
    "    case $1 in\n"
    "    FILE) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$2\")) ;;\n"
    "    FOLDER) compopt -o filenames; COMPREPLY=($(compgen -d -- \"$2\")) ;;\n"
    "    JOB) COMPREPLY=($(compgen -W \"$(cd output 2>/dev/null && printf '%s\\n' JOB*)\" -- "
    "\"$2\")) ;;\n"
    "    TEMPLATE) COMPREPLY=($(compgen -W \"$(paddlectl init 2>/dev/null | sed -n 's/^  \\([^ "
    "]*\\).*/\\1/p')\" -- \"$2\")) ;;\n"
    "    SUBCOMMAND) COMPREPLY=($(compgen -W \"$commands\" -- \"$2\")) ;;\n"
    "    COMMAND) COMPREPLY=($(compgen -c -- \"$2\")) ;;\n"
    "    *[a-z01]*) COMPREPLY=($(compgen -W \"${1//|/ }\" -- \"$2\")) ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_paddlectl() {\n"
    "    local IFS=$' \\t\\n' cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd= "
    "options= words= key= o i n=0\n"
    "    local commands='";

const char complete_bash_tail[] =
    "    esac\n"
    "    # the value of an option: --name=VALUE, --name VALUE\n"
    "    if [[ $cur == = ]]; then\n"
    "        key=$prev cur=\n"
    "    elif [[ $prev == = ]]; then\n"
    "        key=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    elif [[ $prev == --* ]]; then\n"
    "        key=$prev\n"
    "    fi\n"
    "    key=${key#--}\n"
    "    for o in ${key:+$options}; do\n"
    "        if [[ ${o%%=*} == \"--${key//-/_}\" || ${o%%=*} == \"--$key\" ]]; then\n"
    "            [[ $o != *=* ]] || { _paddlectl_values \"${o#*=}\" \"$cur\"; return; }\n"
    "        fi\n"
    "    done\n"
    "    if [[ $cur == -* ]]; then\n"
    "        key=${cur#--}\n"
    "        for o in $options; do\n"
    "            i=${o%%=*}\n"
    "            [[ ${i#--} == \"${key//-/_}\"* || ${i#--} == \"$key\"* || $cur == - ]] || "
    "continue\n"
    "            [[ $o == *=* ]] && i+== || i+=' '\n"
    "            COMPREPLY+=(\"$i\")\n"
    "        done\n"
    "        compopt -o nospace\n"
    "        return\n"
    "    fi\n"
    "    # a word: the n-th, the last kind for all that follow\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "        [[ ${COMP_WORDS[i]} == -* || ${COMP_WORDS[i]} == = || ${COMP_WORDS[i-1]} == = ]] || "
    "n=$((n + 1))\n"
    "    done\n"
    "    words=($words)\n"
    "    ((n < ${#words[@]})) || n=$((${#words[@]} - 1))\n"
    "    ((n < 0)) || _paddlectl_values \"${words[n]}\" \"$cur\"\n"
    "}\n"
    "complete -F _paddlectl paddlectl\n";

static void give_bash(struct pd_buf *out, const char *name, const char *kind, const char *text) {
    (void)text;
    pd_put_fmt(out, "--%s%s", name, kind ? "=" : "");
    for (const char *s = kind; s && *s; s++)
        pd_put_u8(out, (uint8_t)(isalnum((unsigned char)*s) || strchr("|-_.", *s) ? *s : '?'));
    pd_put_u8(out, ' ');
}

void manual_bash(const struct manual *m, struct pd_buf *out) {
    char words[200];
    manual_words(m->line->usage, words, sizeof words);
    pd_put_fmt(out, "    %s)\n        words='%s'\n        options='", m->name, words);
    each_option(m, give_bash, out);
    pd_put_fmt(out, "'\n        ;;\n");
}

/* --- zsh --- */

const char complete_zsh_head[] =
    "#compdef paddlectl\n"
    "# zsh completion of paddlectl; made by 'paddlectl help --zsh'\n"
    "\n"
    "_paddlectl_job() { local -a j; j=(output/JOB*(N:t)); compadd -a j }\n"
    "_paddlectl_template() { local -a t; t=(${(f)\"$(paddlectl init 2>/dev/null | sed -n 's/^  "
    "\\([^ ]*\\).*/\\1/p')\"}); compadd -a t }\n"
    "\n"
    "_paddlectl() {\n"
    "    local curcontext=$curcontext ret=1\n"
    "    local -a commands\n"
    "    commands=(\n";

const char complete_zsh_tail[] = "    esac\n"
                                 "    return ret\n"
                                 "}\n"
                                 "_paddlectl \"$@\"\n";

/* Text within '...[text]' of _arguments: escape quotes and brackets. */
static void zsh_text(struct pd_buf *out, const char *s) {
    for (; *s; s++) {
        if (*s == '\'')
            pd_put_fmt(out, "'\\''");
        else if (strchr("[]:\\", *s))
            pd_put_fmt(out, "\\%c", *s);
        else
            pd_put_u8(out, (uint8_t)(*s == '\n' ? ' ' : *s));
    }
}

static void zsh_kind(struct pd_buf *out, const char *kind) {
    if (!strcmp(kind, "FILE"))
        pd_put_fmt(out, "file:_files");
    else if (!strcmp(kind, "FOLDER"))
        pd_put_fmt(out, "folder:_files -/");
    else if (!strcmp(kind, "JOB"))
        pd_put_fmt(out, "job:_paddlectl_job");
    else if (!strcmp(kind, "TEMPLATE"))
        pd_put_fmt(out, "template:_paddlectl_template");
    else if (!strcmp(kind, "COMMAND"))
        pd_put_fmt(out, "command:_command_names -e");
    else if (!strcmp(kind, "SUBCOMMAND"))
        pd_put_fmt(out, "command:{ _describe command commands }");
    else if (strchr(kind, '|')) {
        pd_put_fmt(out, "value:(");
        for (; *kind; kind++)
            pd_put_u8(out, (uint8_t)(*kind == '|' ? ' ' : *kind));
        pd_put_fmt(out, ")");
    } else {
        zsh_text(out, kind);
        pd_put_fmt(out, ": ");
    }
}

static void give_zsh(struct pd_buf *out, const char *name, const char *kind, const char *text) {
    pd_put_fmt(out, "            '--%s%s[", name, kind ? "=" : "");
    zsh_text(out, text);
    pd_put_fmt(out, "]");
    if (kind) {
        pd_put_fmt(out, ":");
        zsh_kind(out, kind);
    }
    pd_put_fmt(out, "' \\\n");
}

void manual_zsh(const struct manual *m, struct pd_buf *out) {
    char words[200];
    manual_words(m->line->usage, words, sizeof words);
    pd_put_fmt(out, "    %s)\n        _arguments -S \\\n", m->name);
    each_option(m, give_zsh, out);
    for (char *save = NULL, *w = strtok_r(words, " ", &save), *next; w; w = next) {
        next = strtok_r(NULL, " ", &save);
        pd_put_fmt(out, "            '%s:", next ? "" : "*");
        zsh_kind(out, w);
        pd_put_fmt(out, "' \\\n");
    }
    pd_put_fmt(out, "            && ret=0\n        ;;\n");
}
