/* prepare.h - text into what the trainers read: dictionary, ids, shards. The work behind two
 * subcommands, which only parse options, call, and print the counts (prepare of files of samples:
 * records.h):
 *
 *   paddlectl prepare [options] FILE...      (FILE - is standard input)
 *     --out=DIR             where dict.txt, counts.txt, train_data_dir/ and test_data_dir/ go;
 * default: the current folder
 *     --format=lines        lines: each line of the files is a text; wordnet: the text is what
 * follows the first bar of a line, lines without one are left out
 *     --tokens=words        words: lower case, [0-9]+ | [a-z]+(['-][a-z]+)*, all else separates;
 *                           blanks: as they stand between blanks
 *     --min_word_freq=1     words seen at least so often (>=) in the training lines are in the
 * dictionary
 *     --dict=FILE           use this dictionary instead of building one (then min_word_freq is not
 * allowed)
 *     --unknown=keep        keep: words that are not in the dictionary are <unk>; drop: they are
 * left out
 *     --shards=1            1..100000 files of training lines, and as many of held-out lines, dealt
 * round-robin
 *     --holdout=0           hold out every k-th line for test_data_dir; 0: none, else >= 2
 *     --share=1             use this share of the lines, 0 < share <= 1, after the shuffle
 *     --shuffle=true        shuffle the lines (true|false)
 *     --seed=1              of the shuffle
 *   prints, or with --json reports, every member of struct data_prepare_counts by its name.
 *
 *   paddlectl split [options] FILE...
 *     --shards=N            required; 1..100000
 *     --out=DIR             default: the current folder
 *     --prefix=train.txt    files are called PREFIX-00000, PREFIX-00001, ...: line i goes to shard
 * i mod N
 *     --header              the first line of each file is a header: every shard begins with it
 * (all files have the same)
 *     --holdout=0           every k-th line goes to as many shards TEST_PREFIX-00000, ... instead;
 * 0: none, else >= 2
 *     --test_prefix=test.txt
 *     --shuffle             shuffle all lines first, which holds them in memory; --seed=1
 *     --pack=none           none, gzip or zstd: what the shards are packed with (.gz, .zst)
 *   prints the members of struct data_split_counts.
 *
 * Both: files appear under their names only when all are complete; shards of an earlier, larger
 * split under the same prefix are removed, so that no line is there twice. Exit status by the code:
 * PD_EUSAGE, PD_ENOENT 2; others 1.
 *
 * The dictionary dict.txt has a word a line; the line's number from 0 is its id: <unk> 0, <s> 1,
 * <e> 2, then the words by falling frequency, equals by bytes; line i of counts.txt has how often
 * word i is in the training shards. A line of the shards holds ids without <s> and <e>: those are
 * the reader's business. Memory: linear in the text for prepare and for a split that shuffles, else
 * constant. Input files may be packed with gzip or zstd.
 */
#ifndef PD_DATA_PREPARE_H
#define PD_DATA_PREPARE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/prepare/shards.h" /* DATA_MAX_SHARDS */

struct data_prepare_opts {
    const char *const *input; /* paths; "-" is standard input */
    size_t n_inputs;
    const char *out;
    const char *format; /* "lines", "wordnet" */
    const char *tokens; /* "words", "blanks" */
    uint64_t min_word_freq;
    const char *dict; /* NULL: build */
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
    uint64_t lines;      /* texts found in the files, empty ones included */
    uint64_t words;      /* in them */
    uint64_t vocabulary; /* lines of dict.txt, <unk>, <s>, <e> included */
    uint64_t train_lines, train_words,
        train_unknown; /* written; words that are <unk>, or were dropped */
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
    uint64_t lines, bytes, shards, test_lines; /* lines: all of them; headers are none */
};

int data_split(const struct data_split_opts *o, struct data_split_counts *counts,
               struct pd_err *err);

#endif
