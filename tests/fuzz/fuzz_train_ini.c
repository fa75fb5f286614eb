/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_train_ini.c - train.ini as the trainer reads it: [train], --set, data, layers, costs,
 * evaluators, optimizer, vocabulary_file and counts.
 *
 * Parts: train.ini, words.txt, then words of --set. Large numbers are left out where a network is
 * made of them: they only cost memory, and tests/unit/nn has their limits. */
#include "conf/settings.h"
#include "tests/support/fuzz/fuzz.h"
#include "train/config.h"

enum { SETTINGS = 8, DIGITS = 5 };

static int has_large_number(const char *s) {
    size_t n = 0;
    for (; *s; s++) {
        n = isdigit((unsigned char)*s) ? n + 1 : 0;
        if (n > DIGITS || (n && (s[1] == 'e' || s[1] == 'E')))
            return 1;
    }
    return 0;
}

FUZZ(in) {
    struct pd_options o;
    struct pd_err err = {0};
    struct train_config c;
    struct model_ini *m = NULL;
    size_t n, n_words;
    const char *text = fuzz_part(in, &n), *words = fuzz_part(in, &n_words);
    int large = has_large_number(text), rc = 0;
    (void)fuzz_file("words.txt", words, n_words);
    const char *path = fuzz_file("train.ini", text, n);
    fuzz_check(!pd_options_init(&o, NULL));
    for (int i = 0; i < SETTINGS && !rc && fuzz_left(in); i++) {
        const char *set = fuzz_text(in);
        large |= has_large_number(set);
        rc = pd_settings_add(&o, PD_TRAINER, set, PD_FROM_ARGV, &err);
    }
    rc = rc ? rc : pd_options_read_train(&o, path, &err);
    if (!fuzz_rc(rc, &err) && large) {
        (void)fuzz_rc(model_ini_read(&m, path, NULL, &err), &err);
        model_ini_free(m);
    } else if (!rc) {
        (void)fuzz_rc(train_config_load(&c, &o, path, &err), &err);
        train_config_release(&c);
    }
    pd_options_release(&o);
}
