/* SPDX-License-Identifier: Apache-2.0 */
/* prepare.h - texts into what the trainers read: dictionary, ids, shards. The work behind two
 * subcommands, which only parse options, call these functions and print the counts. (For files of
 * samples `prepare` uses records.h.)
 *
 *   paddlectl prepare [options] FILE...      (FILE - is standard input)
 *     --out=DIR             folder for dict.txt, counts.txt, train_data_dir/ and test_data_dir/;
 *                           default: the current folder
 *     --format=lines        lines: each line of the files is a text; wordnet: the text is the part
 *                           behind the first bar of a line, lines without a bar are skipped
 *     --tokens=words        words: lower case, [0-9]+ | [a-z]+(['-][a-z]+)*, other bytes separate;
 *                           blanks: words are separated by blanks only
 *     --min_word_freq=1     the dictionary holds words that occur at least this often (>=) in the
 *                           training lines
 *     --dict=FILE           use this dictionary and build none (excludes min_word_freq)
 *     --unknown=keep        words outside the dictionary: keep writes <unk>, drop skips them
 *     --shards=1            1..100000 files of training lines and as many of held-out lines, dealt
 *                           round-robin
 *     --holdout=0           hold out every k-th line for test_data_dir; 0: none, else >= 2
 *     --test=PATTERN        files of held-out texts, as PTB and WikiText have them; they are
 * neither counted for the dictionary nor shuffled
 *     --share=1             use this share of the lines, 0 < share <= 1, after the shuffle
 *     --shuffle=true        shuffle the lines (true|false)
 *     --seed=1              seed of the shuffle
 *   prints, or with --json reports, every member of struct data_prepare_counts by its name.
 *
 *   paddlectl split [options] FILE...
 *     --shards=N            required; 1..100000
 *     --out=DIR             default: the current folder
 *     --prefix=train.txt    files are called PREFIX-00000, PREFIX-00001, ...: line i goes to shard
 *                           i mod N
 *     --header              the first line of each file is a header, the same in all files; every
 *                           shard begins with it
 *     --holdout=0           every k-th line goes to one of N shards TEST_PREFIX-00000, ...
 *                           instead; 0: none, else >= 2
 *     --test_prefix=test.txt
 *     --shuffle             shuffle all lines first, which holds them in memory; --seed=1
 *     --pack=none           none, gzip or zstd: packing of the shards (.gz, .zst)
 *   prints the members of struct data_split_counts.
 *
 * Both: files get their names only when all are complete. Shards of an earlier, larger run with the
 * same prefix are removed, so that no line appears twice. Exit status: 2 for PD_EUSAGE and
 * PD_ENOENT, 1 for other errors.
 *
 * dict.txt has one word per line; the line number from 0 is its id (dict.h). Line i of counts.txt
 * says how often word i occurs in the training shards. A line of the shards holds ids without <s>
 * and <e>: the reader adds these. Memory: linear in the text for `prepare` and for a `split` that
 * shuffles, otherwise constant. Input files may be packed with gzip or zstd.
 */
#pragma once

#include "data/prepare/shards.h" /* DATA_MAX_SHARDS */

struct data_prepare_opts {
    const char *const *input; /* paths; "-" is standard input */
    size_t n_inputs;
    const char *test; /* pattern of files with held-out texts only; NULL: none */
    const char *out;
    const char *format; /* "lines", "wordnet" */
    const char *tokens; /* "words", "blanks" */
    uint64_t min_word_freq;
    const char *dict; /* NULL: build a dictionary */
    uint32_t shards;
    uint64_t holdout;
    double share;
    int shuffle;
    uint64_t seed;
    int drop_unknown;
};

/* The defaults above. */
void data_prepare_defaults(struct data_prepare_opts *o);

struct data_prepare_counts {
    uint64_t lines;                    /* texts found in the files, empty ones included */
    uint64_t words;                    /* in these texts */
    uint64_t vocabulary;               /* lines of dict.txt, <unk>, <s>, <e> included */
    uint64_t train_lines, train_words; /* written */
    uint64_t train_unknown;            /* words written as <unk>, or dropped */
    uint64_t test_lines, test_words, test_unknown;
};

int data_prepare(const struct data_prepare_opts *o, struct data_prepare_counts *counts,
                 struct pd_err *err);

struct data_split_opts {
    const char *const *input;
    size_t n_inputs;
    const char *out, *prefix, *test_prefix;
    uint32_t shards;
    uint64_t holdout, seed;
    int header, shuffle;
    const char *pack; /* "none", "gzip", "zstd" */
};

/* The defaults above, without `shards`. */
void data_split_defaults(struct data_split_opts *o);

struct data_split_counts {
    uint64_t lines, bytes, shards, test_lines; /* lines: all lines without headers */
};

int data_split(const struct data_split_opts *o, struct data_split_counts *counts,
               struct pd_err *err);
