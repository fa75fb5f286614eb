/* SPDX-License-Identifier: Apache-2.0 */
/* saved_models.h - which models a job has saved, as its nodes list them (AG_MODELS), and the choice
 * of one. */
#pragma once

#include <jansson.h>

#include "launcher/outputs/saved_name.h"
#include "launcher/link/ask_all.h"

struct saved_model {
    char name[64];
    struct saved_name at;
    int state; /* training can continue from it */
};

struct saved_models {
    struct saved_model *v; /* in the order of the training */
    size_t n, cap;
    json_t *tests; /* array of [pass, value]; NULL: no tests of passes */
    char by[80];   /* the name of the value */
    int higher;    /* 1: the higher value is better */
};

/* Asks the nodes of a job, after find_join; keeps their links open. The next ask_all_run goes on
 * with these links: nodes that failed are left out, and keep their errors. 0, PD_ENOMEM,
 * PD_ECANCELED after Ctrl-C. */
int saved_models_ask(struct ask_all *g, struct saved_models *out, struct pd_err *err);
void saved_models_release(struct saved_models *m);

/* The model that `want` names: "latest", "best" (of the saved passes that were tested), a number of
 * a pass, counted from 1, or a name ("pass-00003"). With `resume` only models from which training
 * can continue. `text`: which it is, "pass 4 (pass-00003)". PD_EUSAGE: `want` is none of these.
 * PD_ENOENT: there is none; the message lists the saved ones. `job` is for messages. */
enum { SAVED_CHOICE_TEXT = 300 };
int saved_models_choose(const struct saved_models *m, const char *job, const char *want, int resume,
                        const struct saved_model **out, char text[SAVED_CHOICE_TEXT],
                        struct pd_err *err);
