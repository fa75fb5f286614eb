/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_internal.h - shared by checkpoint.c and resume.c. */
#pragma once

#include "model/model.h"
#include "ps/client/client.h"
#include "train/checkpoint.h"

/* The line of a stream whose trainer was lost before its first note (on_trainer_lost = continue):
 * the beginning of the pass. */
#define TRAIN_NO_NOTE "- 0 0"

struct train_checkpoints {
    const char *config;
    int may_copy;
    struct pd_buf note;
    /* the running save (trainer 0), and the next one */
    int under_way;
    char name[64], next[64];
    char what[160], next_what[160]; /* for people: "pass 6/40, batch 400" */
    struct ps_progress progress, next_progress;
    int has_base;     /* all rows were saved once */
    int64_t n_deltas; /* saves of changed rows since then */
    /* Online job: folder of the next save, of the running save. */
    char data[TRAIN_DATA_MAX], saved_data[TRAIN_DATA_MAX];
    uint64_t saved_pass;
    enum { NOT_BEST, BEST, ONLY_BEST } best, next_best; /* ONLY_BEST: saved for keep_best alone */
    char former[64]; /* the last ONLY_BEST that is complete; removed when there is a better model */
    enum ps_chain chain;              /* online job: kind of the next save */
    struct train_online_saves online; /* saved NULL: not an online job */
    /* the checkpoint that this process resumed from */
    int resumed;
    struct model_resume from;
};
