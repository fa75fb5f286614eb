/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - all options, as ONE table (options.c). conf.ini, [train] of train.ini, the command
 * line, the PADDLE_INIT_* environment, --help and `paddlectl conf` use this table. A new option is
 * a field here and a row there.
 *
 *     defaults < train.ini < conf.ini < environment < command line
 *
 * A value of a higher origin is never overwritten by a lower origin, so sources may be read in any
 * order. */
#pragma once

enum pd_origin_level {
    PD_FROM_DEFAULT,
    PD_FROM_TRAIN_INI,
    PD_FROM_CONF_INI,
    PD_FROM_ENV,
    PD_FROM_ARGV
};

/* The programs that accept an option. PD_UP_TO_WORD is a flag for pd_options_args: the first word
 * that is not an option ends the options, because a command with its own options begins there. */
enum pd_opt_who {
    PD_LAUNCHER = 1,
    PD_PSERVER = 2,
    PD_TRAINER = 4,
    PD_WORKER = PD_PSERVER | PD_TRAINER,
    PD_UP_TO_WORD = 8
};

/* PD_SIZE: bytes, written with a suffix K, M or G (powers of 1024). */
enum pd_opt_type { PD_STR, PD_PATH, PD_INT, PD_F64, PD_BOOL, PD_CHOICE, PD_SIZE };

enum pd_host_key_policy { PD_HOSTKEY_STRICT, PD_HOSTKEY_ACCEPT_NEW };
/* In the order of the rows of launcher/engine/engine.c. */
enum pd_engine {
    PD_ENGINE_SSH,
    PD_ENGINE_LOCAL,
    PD_ENGINE_SLURM,
    PD_ENGINE_KUBERNETES,
    PD_ENGINE_MPI,
    PD_N_ENGINES
};
enum pd_relay { PD_RELAY_AUTO, PD_RELAY_OFF };
enum pd_data_layout { PD_DATA_DISPATCHED, PD_DATA_SHARED, PD_DATA_LOCAL };
enum pd_encrypt { PD_ENCRYPT_ALL, PD_ENCRYPT_OFF };
enum pd_on_hangup { PD_HANGUP_STOP, PD_HANGUP_DETACH };
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

/* [groups]: a name for a list of hosts. */
struct pd_group {
    char *name, *hosts;
    char where[300];
};

/* [host PATTERN]: settings of some hosts. The keys are the rows of pd_host_keys. */
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
        char *text; /* NULL: not given; otherwise valid for the type of the key */
        char where[300];
    } value[PD_HOST_N_KEYS];
    struct pd_env_var *env; /* env.NAME */
    size_t n_env;
};

/* A pair of --set SECTION.KEY=VALUE (settings.h). */
enum pd_set_file { PD_SET_OPTION, PD_SET_CONF_INI, PD_SET_TRAIN_INI };
struct pd_setting {
    char *text;              /* "layer.hidden.size=512" */
    char *section;           /* "layer hidden" */
    const char *key, *value; /* in `text`: "size=512", "512" */
    enum pd_set_file file;   /* where the section stands; PD_SET_OPTION: [train] */
    enum pd_origin_level level;
    int again; /* of the job from which this one continues */
};

/* The struct owns the strings; "" means unset. Numbers are within the bounds of the table. */
struct pd_options {
    /* [cluster] */
    char *hosts, *connect, *launch, *pservers, *trainers, *root_dir, *nic;
    int64_t engine, nodes; /* enum pd_engine; 0: not given */
    int64_t port, ports_num, ports_num_for_sparse;
    /* [slurm] */
    char *partition, *time, *account, *slurm_options, *allocation;
    double save_time; /* seconds */
    /* [kubernetes] */
    char *image, *kube_namespace, *kube_context, *run_name, *cpu, *memory, *shm, *node_selector,
        *tolerations, *image_pull_secret;
    int64_t run_as;
    double pod_timeout; /* seconds */
    /* [ssh] */
    char *identity_file, *known_hosts, *ssh_config, *proxy_jump;
    int64_t host_key_policy, fanout;
    double connect_timeout; /* seconds */
    /* [job] */
    char *job_name;
    char *job_dispatch_package, *job_workspace, *outputs, *profile_file, *trainer_command,
        *pserver_command;
    char *on_end;
    double on_end_timeout;
    double attach_lease, detach_lease, silence_timeout; /* seconds */
    int64_t min_nodes, job_save_on_stop;
    int64_t bind;                              /* index of the choice */
    int64_t log_max_size, keep_jobs, log_keep; /* bytes, files */
    int64_t relay, encrypt, store_limit;       /* enum pd_relay, enum pd_encrypt, bytes */
    int64_t data_layout;                       /* enum pd_data_layout */
    int64_t data_copies;                       /* 0: auto (job_data_copies) */
    int64_t on_failure, max_restarts;          /* enum pd_on_failure */
    int64_t on_hangup;                         /* enum pd_on_hangup */
    /* [train] */
    char *config, *save_dir, *init_model_path, *resume, *keep_best, *online_done_file,
        *online_until, *online_stop_file;
    int64_t job, num_passes, batch_size, trainer_count, n_streams, data, seed, update, reproducible,
        staleness, geo_sgd_need_push_nums, log_period, saving_period, saving_period_by_batches,
        saving_deltas, checkpoint_copies, save_only_one, early_stopping_passes, save_state,
        start_pass, resume_older, save_initial, max_bad_lines, reader_threads, shuffle_buffer,
        stop_on_nan, reject_nan, local, use_gpu, load_missing_parameter_strategy, on_trainer_lost,
        overlap, profile, online_shuffle, online_test, online_base_period, online_delta_period,
        online_keep;
    double async_lagged_grad_discard_ratio, reconnect_timeout, heartbeat_timeout, start_timeout,
        online_quiet, online_idle; /* seconds, except the first */
    /* [worker]: options of a process that is started by hand */
    char *pserver_list, *nics, *key_file;
    int64_t trainer_id, num_gradient_servers, save_on_stop;
    double server_timeout; /* seconds */

    struct pd_env_var *env; /* [env], in file order, names unique */
    size_t n_env;
    struct pd_group *groups; /* in file order, names unique */
    size_t n_groups;
    struct pd_host_section *host_sections; /* in file order: a later section has priority */
    size_t n_host_sections;
    struct pd_setting *settings; /* in the order of their first use, keys unique */
    size_t n_settings;
    char *conf_dir; /* folder of conf.ini; NULL: no conf.ini was read */
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
    double min, max; /* PD_INT, PD_SIZE, PD_F64; for whole numbers exact up to 2^53 */
    /* PD_CHOICE: "a|b|c", index = value; PD_F64: "0": 0 is allowed, too; PD_INT: a word that stands
     * for min - 1 */
    const char *choices;
    const char *unit; /* "s", "samples", "" */
    const char *text; /* one line of help */
};

const struct pd_option *pd_option_table(size_t *n);

int pd_options_init(struct pd_options *o, struct pd_err *err); /* all defaults; 0 or PD_ENOMEM */
void pd_options_release(struct pd_options *o);
/* Initialize *o with the values and origins of `from`, except [env], [groups] and [host ...]. 0 or
 * PD_ENOMEM. */
int pd_options_copy(struct pd_options *o, const struct pd_options *from, struct pd_err *err);

/* A key of [host PATTERN]. */
struct pd_host_option {
    const char *name;
    enum pd_opt_type type;
    double min, max;
    const char *text;
};
extern const struct pd_host_option pd_host_keys[PD_HOST_N_KEYS];

/* Read conf.ini: sections cluster, groups, host ..., slurm, kubernetes, ssh, job, env, train.
 * PD_PATH values are relative to the folder of the file. An unknown section or key, or a value out
 * of range: PD_ECONF "conf.ini:12: port is 0..65535, not '70000'". */
int pd_options_read_conf(struct pd_options *o, const char *path, struct pd_err *err);

/* Read [train] of train.ini; the other sections belong to the model and are skipped. PD_ENOENT: no
 * such file. */
int pd_options_read_train(struct pd_options *o, const char *path, struct pd_err *err);

/* The same for a text in memory; `name` is the file's name for messages. */
int pd_options_read_train_text(struct pd_options *o, const char *name, const char *text, size_t n,
                               struct pd_err *err);

/* Read PADDLE_INIT_<OPTION> variables, and for workers those of the original system, such as
 * PADDLE_TRAINERS_NUM and CPU_NUM. Unknown names are ignored, because other programs may use the
 * prefix. */
int pd_options_read_environ(struct pd_options *o, unsigned who, char *const *environ_,
                            struct pd_err *err);

/* An option of a subcommand, in addition to the table. With neither flag nor value: a row for the
 * help; pd_options_args takes the option itself (--set). */
struct pd_extra_option {
    /* name: "grep", or with the form of the value: "grep=REGEX". The shell completes FILE and
     * FOLDER to files, JOB to jobs, "a|b|c" to these words; other forms are only shown. */
    const char *name;
    int *flag;          /* --name sets it to 1 (or --name=0|1) ... */
    const char **value; /* ... or --name=VALUE, --name VALUE; points into argv */
    const char *text;
};

/* Parse --name=value, --name value, --name (bool) and --section.name=value; - and _ are the same.
 * `argv` is without program and subcommand. Other words, and all words after "--", go into rest[]
 * in order, at most argc entries. PD_EUSAGE for an unknown option, with the nearest known name.
 * `extra` ends with a row whose name is NULL, or is NULL. */
int pd_options_args(struct pd_options *o, unsigned who, int argc, char **argv,
                    const struct pd_extra_option *extra, const char **rest, int *n_rest,
                    struct pd_err *err);

/* The same for "[options] command with its options": the first word that is not an option ends our
 * options. */
int pd_options_command(struct pd_options *o, unsigned who, int argc, char **argv,
                       const struct pd_extra_option *extra, const char **rest, int *n_rest,
                       struct pd_err *err);

/* Set one option by name, as the functions above do. `where` is used in messages and in the origin.
 */
int pd_options_set(struct pd_options *o, unsigned who, const char *section, const char *name,
                   const char *value, enum pd_origin_level level, const char *where,
                   const char *base_dir, struct pd_err *err);

/* Complete the list [worker] pservers: "10.0.0.1,10.0.0.2:7170,[2001:db8::1],2001:db8::2" -> every
 * item has a port (default: the option `port`), and IPv6 is in brackets. PD_ENOMEM. */
int pd_options_complete_pservers(struct pd_options *o, struct pd_err *err);

/* Append the value of row i to `out` as text, without a NUL. */
void pd_options_text(const struct pd_options *o, size_t i, struct pd_buf *out);
/* Row of option `name` for `who`, or -1. */
int pd_options_find(const char *name, unsigned who);

/* --- for --help and the manual (help.c) --- */

/* The option's name on the command line: "port", "ssh.config". */
void pd_option_spelling(size_t i, unsigned who, char out[128]);
/* The placeholder for the option's value: "N", "FILE", "strict|accept-new". */
const char *pd_option_placeholder(const struct pd_option *t);
/* Append "1..64 threads; default: 1", or nothing. */
void pd_option_bounds(const struct pd_option *t, struct pd_buf *out);
/* 1: the option is in the list `which`, for example "ssh cluster.hosts" (sections or single
 * options). NULL means all. */
int pd_option_is_listed(const struct pd_option *t, const char *which);

/* Append the help of `extra`, then of the table's options in `which`, in lines of `width` columns.
 */
void pd_options_help(unsigned who, const char *which, const struct pd_extra_option *extra,
                     int width, struct pd_buf *out);
/* Append a paragraph, filled to `width` columns; newlines in `text` count as blanks. */
void pd_help_text(struct pd_buf *out, const char *text, int width);
