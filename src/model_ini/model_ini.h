/* SPDX-License-Identifier: Apache-2.0 */
/* model_ini.h - the model part of train.ini as typed structs: each value with its line, before
 * nn_graph_load checks whether the layers fit together.
 *
 *   [data] [field NAME]... [layer NAME]... [cost NAME]... [optimizer] [evaluator NAME]...
 *   src/conf reads [train].
 *
 * The keys of all sections and their types are ONE table in model_ini.c. */
#pragma once

#include "base/row_life.h"
#include "data/schema/schema.h"

enum { NN_NAME_MAX = 64, NN_MAX_INPUTS = 64, NN_MAX_LAYERS = 1024 };

struct ini_name { /* a word and its line; line 0: not given */
    char text[NN_NAME_MAX];
    int line;
};

struct ini_names {       /* a list: "w1, w2 w3" */
    struct ini_name *at; /* [n], all with the line of the list */
    uint32_t n;
    int line;
};

struct ini_text {
    char text[PATH_MAX];
    int line;
};

struct ini_number {
    double value;
    int line; /* 0: not given, value is the default */
};

struct ini_size {
    uint64_t value; /* 0 with is_vocabulary: "size = vocabulary" */
    int is_vocabulary;
    int line;
};

struct ini_bool {
    int value, line;
};

struct data_ini {
    int line;                    /* line of the section; 0: no such section */
    struct ini_name format;      /* of the schema */
    struct ini_text train, test; /* patterns, relative to the folder of train.ini */
    struct ini_names fields;     /* of the schema */
    struct ini_size vocabulary;  /* given, or the number of lines of vocabulary_file */
    struct ini_text vocabulary_file;
    struct ini_size start_id, end_id; /* of <s>, <e>; from vocabulary_file if that is given */
};

struct layer_ini {
    struct ini_name name, type;
    struct ini_names inputs, param;
    struct ini_size size;
    struct ini_name act, pooling, combine, init, kind;
    struct ini_bool bias, sparse_update, is_distributed, is_static;
    struct ini_number init_std, init_mean, init_max, rate, lr_factor, l1, l2;
    struct ini_size dim, rank;                                        /* pairs; cross layers */
    struct ini_size channels, height, width, filter, stride, padding; /* images */
    struct ini_number eps, momentum, scale;                           /* normalisation; cosine */
    struct ini_size negatives, share;                                 /* sampled output layers */
    struct ini_text counts;
    struct ini_number power;
    /* admission and ageing of a table's rows: base/row_life.h */
    struct ini_number life[PD_ROW_LIFE_N];
    struct ini_name click; /* the field with the clicks of a sample */
};

struct cost_ini {
    struct ini_name name, type;
    struct ini_names input;
    struct ini_name label;
    struct ini_number weight, delta;
};

struct evaluator_ini {
    struct ini_name name, type, input, label;
    struct ini_number threshold; /* a single output of at least this value means 1; default 0.5 */
    struct ini_size positive;    /* the positive class; default 1 */
    struct ini_name slice, group, group_weight;
    struct ini_size k, max_samples;
};

enum { NN_MAX_SETTINGS = 32, NN_SETTING_MAX = 1024 };

/* Settings of optimizers are passed on as text: src/ps/plan/optim_conf.h knows them. */
struct optimizer_ini {
    int line;
    struct ini_name type;
    struct ini_number l1, l2; /* defaults of the layers' own */
    struct optimizer_setting {
        struct ini_name name;
        char value[NN_SETTING_MAX];
    } setting[NN_MAX_SETTINGS];
    uint32_t n_settings;
};

struct model_ini {
    char file[PATH_MAX]; /* as given, for messages */
    char dir[PATH_MAX];  /* its folder, "." if none */
    struct data_ini data;
    /* Settings of [data] and [field NAME] as text; src/data knows them. */
    struct data_setting *data_setting;
    uint32_t n_data_settings;
    /* made of data_setting; NULL: no [data], or [data] without a format */
    struct data_schema *schema;
    struct layer_ini *layer;
    uint32_t n_layers;
    struct cost_ini *cost;
    uint32_t n_costs;
    struct evaluator_ini *evaluator;
    uint32_t n_evaluators;
    struct optimizer_ini optimizer;
};

/* Read `path`, or `text` (if not NULL) as if it were that file, and count the lines of
 * vocabulary_file. PD_ECONF with "path:line: ...", PD_ENOENT, PD_EIO. */
int model_ini_read(struct model_ini **out, const char *path, const char *text, struct pd_err *err);
void model_ini_free(struct model_ini *m);

/* The path of vocabulary_file, which is relative to the folder of the file. PD_ECONF: too long. */
int model_ini_vocabulary_path(const struct model_ini *m, char path[PATH_MAX], struct pd_err *err);

/* Row i of the table of keys, for the reference: section ("layer"), name, what a value may be, and
 * what the key says. 0, or PD_ENOENT past the end. Keys of src/data and of the optimizers are not
 * in this table. */
struct model_ini_key {
    const char *section, *name, *text;
    char value[64];
};
int model_ini_key(size_t i, struct model_ini_key *out);

/* Value of a setting of [optimizer]; NULL: not given. */
const char *model_ini_setting(const struct model_ini *m, const char *name);
