/* checkpoint_int.h - what checkpoint.c and resume.c share. */
#ifndef PD_TRAIN_CHECKPOINT_INTERNAL_H
#define PD_TRAIN_CHECKPOINT_INTERNAL_H

#include "base/buf.h"
#include "model/model.h"
#include "ps/client/client.h"
#include "train/checkpoint.h"

/* The line of a stream whose trainer was lost before it said anything (on_trainer_lost = continue):
 * at the beginning of the pass. */
#define TRAIN_NO_NOTE "- 0 0"

struct train_checkpoints {
    const char *config;
    int may_copy;
    struct pd_buf note;
    /* the save under way (trainer 0), and the one that is to be started */
    int under_way;
    char name[64], next[64];
    struct ps_progress progress, next_progress;
    int has_base; /* it has, and behind it so many saves of changes only */
    int64_t n_deltas;
    char data[TRAIN_DATA_MAX], saved_data[TRAIN_DATA_MAX]; /* of an online job: of the save to be
                                                              started, of the one under way */
    uint64_t saved_pass;
    enum ps_chain chain;              /* of its next one */
    struct train_online_saves online; /* who hears of it; saved NULL: it is none */
    /* what this process goes on from */
    int resumed;
    struct model_resume from;
};

#endif
