/* options.h - every option there is, as ONE table (options.c): conf.ini, train.ini's [train],
 * command line, the PADDLE_INIT_* environment, --help and `paddlectl conf` are all made from it.
 * Adding an option is one field here and one line there.
 *
 *     defaults < train.ini < conf.ini < environment < command line
 *
 * A value of a higher origin is never overwritten by a lower one, so sources may be read in any
 * order.
 */
#ifndef PD_CONF_OPTIONS_H
#define PD_CONF_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum pd_origin_level {
    PD_FROM_DEFAULT,
    PD_FROM_TRAIN_INI,
    PD_FROM_CONF_INI,
    PD_FROM_ENV,
    PD_FROM_ARGV
};

/* Who accepts an option. PD_UP_TO_WORD goes with them in pd_options_args: the first word that is no
 * option ends the options, since a command with options of its own begins there. */
enum pd_opt_who {
    PD_LAUNCHER = 1,
    PD_PSERVER = 2,
    PD_TRAINER = 4,
    PD_WORKER = PD_PSERVER | PD_TRAINER,
    PD_UP_TO_WORD = 8
};

/* PD_SIZE: bytes; written with a suffix K, M or G (of 1024). */
enum pd_opt_type { PD_STR, PD_PATH, PD_INT, PD_F64, PD_BOOL, PD_CHOICE, PD_SIZE };

enum pd_host_key_policy { PD_HOSTKEY_STRICT, PD_HOSTKEY_ACCEPT_NEW };
enum pd_relay { PD_RELAY_AUTO, PD_RELAY_OFF };
enum pd_data_layout { PD_DATA_DISPATCHED, PD_DATA_SHARED, PD_DATA_LOCAL };
enum pd_encrypt { PD_ENCRYPT_RELAY, PD_ENCRYPT_OFF };
enum pd_on_failure { PD_FAILURE_STOP, PD_FAILURE_RESTART };
enum pd_data { PD_DATA_STATIC, PD_DATA_QUEUE };
enum pd_train_job { PD_JOB_TRAIN, PD_JOB_TEST, PD_JOB_CHECKGRAD, PD_JOB_ONLINE };
enum pd_update { PD_UPDATE_SYNC, PD_UPDATE_ASYNC, PD_UPDATE_SSP, PD_UPDATE_GEO };
enum pd_reproducible { PD_REPRODUCIBLE_RUN, PD_REPRODUCIBLE_TOPOLOGY };
enum pd_trainer_lost {
    PD_TRAINER_LOST_FAIL,
    PD_TRAINER_LOST_WAIT,
    PD_TRAINER_LOST_CONTINUE
}; /* as enum ps_lost */
enum pd_missing { PD_MISSING_FAIL, PD_MISSING_RAND, PD_MISSING_ZERO };

struct pd_env_var {
    char *name, *value;
    char where[300]; /* "conf.ini:12" */
};

/* [groups]: a name for hosts. */
struct pd_group {
    char *name, *hosts;
    char where[300];
};

/* [host PATTERN]: what is different on some hosts. The keys are rows of pd_host_keys. */
enum pd_host_key {
    PD_HOST_USER,
    PD_HOST_PORT,
    PD_HOST_ADDRESS,
    PD_HOST_IDENTITY_FILE,
    PD_HOST_ROOT_DIR,
    PD_HOST_N_KEYS
};

struct pd_host_section {
    char *pattern;
    char where[300];
    struct pd_host_value {
        char *text; /* NULL: not given; right for the key's type */
        char where[300];
    } value[PD_HOST_N_KEYS];
    struct pd_env_var *env; /* env.NAME */
    size_t n_env;
};

/* Strings are owned; "" when unset. Numbers are within the table's bounds. */
struct pd_options {
    /* [cluster] */
    char *hosts, *pservers, *trainers, *root_dir, *nic;
    int64_t port, ports_num, ports_num_for_sparse;
    /* [ssh] */
    char *identity_file, *known_hosts, *ssh_config, *proxy_jump;
    int64_t host_key_policy, fanout;
    double connect_timeout; /* seconds */
    /* [job] */
    char *job_dispatch_package, *job_workspace, *outputs, *trainer_command, *pserver_command;
    double attach_lease, detach_lease, silence_timeout; /* seconds */
    int64_t min_nodes, job_save_on_stop;
    int64_t bind;                              /* which of its choices */
    int64_t log_max_size, keep_jobs, log_keep; /* bytes, files */
    int64_t relay, encrypt, store_limit;       /* enum pd_relay, enum pd_encrypt, bytes */
    int64_t data_layout;                       /* enum pd_data_layout */
    int64_t on_failure, max_restarts;          /* enum pd_on_failure */
    /* [train] */
    char *config, *save_dir, *init_model_path, *resume, *online_done_file, *online_until,
        *online_stop_file;
    int64_t job, num_passes, batch_size, trainer_count, n_streams, data, seed, update, reproducible,
        staleness, geo_sgd_need_push_nums, log_period, saving_period, saving_period_by_batches,
        saving_deltas, checkpoint_copies, save_only_one, save_state, start_pass, resume_older,
        save_initial, max_bad_lines, reader_threads, shuffle_buffer, stop_on_nan, reject_nan, local,
        use_gpu, load_missing_parameter_strategy, on_trainer_lost, overlap, online_shuffle,
        online_test, online_base_period, online_delta_period, online_keep;
    double async_lagged_grad_discard_ratio, reconnect_timeout, heartbeat_timeout, start_timeout,
        online_quiet, online_idle; /* all but the first in seconds */
    /* by hand: the worker's own */
    char *pserver_list, *nics, *key_file;
    int64_t trainer_id, num_gradient_servers, save_on_stop;
    double server_timeout; /* seconds */

    struct pd_env_var *env; /* [env], file order, names unique */
    size_t n_env;
    struct pd_group *groups; /* file order, names unique */
    size_t n_groups;
    struct pd_host_section *host_sections; /* file order: a later one wins */
    size_t n_host_sections;
    char *conf_dir; /* the folder of conf.ini; NULL: none was read */
    struct pd_origin {
        enum pd_origin_level level;
        char where[300]; /* "default", "conf.ini:12", "command line", "PADDLE_INIT_SEED" */
    } * origin;          /* index: row of the table */
};

struct pd_option {
    const char *section, *name;
    enum pd_opt_type type;
    size_t field; /* offsetof */
    unsigned who; /* enum pd_opt_who */
    const char *def;
    double min, max;     /* PD_INT, PD_SIZE, PD_F64; for whole numbers exact up to 2^53 */
    const char *choices; /* PD_CHOICE: "a|b|c", index = value; PD_F64: "0": so may it be, too */
    const char *unit;    /* "s", "samples", "" */
    const char *text;    /* one line for people */
};

const struct pd_option *pd_option_table(size_t *n);

int pd_options_init(struct pd_options *o, struct pd_err *err); /* all defaults; 0 or PD_ENOMEM */
void pd_options_release(struct pd_options *o);
/* What `from` says in the table, with where it came from; *o is made. Not [env], [groups] and [host
 * ...]. 0 or PD_ENOMEM. */
int pd_options_copy(struct pd_options *o, const struct pd_options *from, struct pd_err *err);

/* A key of [host PATTERN]. */
struct pd_host_option {
    const char *name;
    enum pd_opt_type type;
    double min, max;
    const char *text;
};
extern const struct pd_host_option pd_host_keys[PD_HOST_N_KEYS];

/* conf.ini: sections cluster, groups, host ..., ssh, job, env, train. PD_PATH values are relative
 * to the file's folder. An unknown section or key, a value out of range: PD_ECONF "conf.ini:12:
 * port is 0..65535, not '70000'". */
int pd_options_read_conf(struct pd_options *o, const char *path, struct pd_err *err);

/* train.ini: section [train] only; all others are the model's and passed over. A missing file is
 * PD_ENOENT. */
int pd_options_read_train(struct pd_options *o, const char *path, struct pd_err *err);

/* The same of a text that is here already; `name` is the file's, for messages. */
int pd_options_read_train_text(struct pd_options *o, const char *name, const char *text, size_t n,
                               struct pd_err *err);

/* PADDLE_INIT_<OPTION>; unknown ones are ignored with NULL err kept clean (other programs may use
 * the prefix). */
int pd_options_read_environ(struct pd_options *o, unsigned who, char *const *environ_,
                            struct pd_err *err);

/* A subcommand's own options beside the table. */
struct pd_extra {
    const char
        *name;          /* "grep", or with what its value is: "grep=REGEX". FILE and FOLDER complete
                         * to files, JOB to   jobs, "a|b|c" to these words; any other is only shown. */
    int *flag;          /* --name sets it to 1 (or --name=0|1) ... */
    const char **value; /* ... or --name=VALUE, --name VALUE; the string stays argv's */
    const char *text;
};

/* --name=value, --name value, --name (bool), --section.name=value, - and _ alike. `argv` without
 * the program and subcommand. What is not an option (and everything after "--") is put into rest[]
 * in order, at most argc entries. PD_EUSAGE for an unknown option, with the nearest known name.
 * extra ends with a row whose name is NULL, or is NULL. */
int pd_options_args(struct pd_options *o, unsigned who, int argc, char **argv,
                    const struct pd_extra *extra, const char **rest, int *n_rest,
                    struct pd_err *err);

/* The same for "[options] command and its options": the first word that is no option ends ours. */
int pd_options_command(struct pd_options *o, unsigned who, int argc, char **argv,
                       const struct pd_extra *extra, const char **rest, int *n_rest,
                       struct pd_err *err);

/* Set one by name, as those above do. `where` appears in messages and in the origin. */
int pd_options_set(struct pd_options *o, unsigned who, const char *section, const char *name,
                   const char *value, enum pd_origin_level level, const char *where,
                   const char *base_dir, struct pd_err *err);

/* [worker] pservers as the client wants it: "10.0.0.1,10.0.0.2:7170,[2001:db8::1],2001:db8::2" ->
 * every item with a port (that of the option `port` where it has none), IPv6 in brackets.
 * PD_ENOMEM. */
int pd_options_complete_pservers(struct pd_options *o, struct pd_err *err);

/* The value of row i as text into `out` (appended, no NUL). */
void pd_options_text(const struct pd_options *o, size_t i, struct pd_buf *out);
/* Row of option `name` for `who`, or -1. */
int pd_options_find(const char *name, unsigned who);

/* --- for --help and the manual (help.c) --- */

/* As it is spelled on the command line: "port", "ssh.config". */
void pd_option_spelling(size_t i, unsigned who, char out[128]);
/* What stands for its value: "N", "FILE", "strict|accept-new". */
const char *pd_option_value(const struct pd_option *t);
/* Appends "1..64 threads; default: 1", or nothing. */
void pd_option_note(const struct pd_option *t, struct pd_buf *out);
/* Is it among these: "ssh cluster.hosts", sections or single options? NULL is all. */
int pd_option_shown(const struct pd_option *t, const char *which);

/* The extras, then those of the options that are among `which`, in lines of `width` columns. */
void pd_options_help(unsigned who, const char *which, const struct pd_extra *extra, int width,
                     struct pd_buf *out);
/* A paragraph, filled: its own newlines are blanks. */
void pd_help_text(struct pd_buf *out, const char *text, int width);

#endif
