/* input.h - the bytes of a data file, whatever it is packed with: as they are, gzip, or zstd, told
 * by the first bytes and not by the name. Offsets count unpacked bytes. Bounded memory; one thread
 * at a time. */
#ifndef PD_DATA_INPUT_H
#define PD_DATA_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct data_input;

/* Open `path` ("-": standard input); `shown` is the name that messages use. PD_ENOENT, PD_EIO (a
 * folder, too), PD_ENOMEM. */
int data_input_open(struct data_input **out, const char *path, const char *shown,
                    struct pd_err *err);
void data_input_close(struct data_input *in);

/* Up to `n` bytes; fewer than n only before the end, 0 at the end. PD_EIO; PD_EDATA when what is
 * packed is broken or cut off. */
int64_t data_input_read(struct data_input *in, void *p, size_t n, struct pd_err *err);

/* 1: the next read may wait for whoever writes: it is no regular file, and all that has come is
 * read. */
int data_input_may_wait(const struct data_input *in);

/* Go to unpacked offset `offset`, not before the one read so far: seeks where the file allows it,
 * else reads on. PD_EDATA when the file is shorter. */
int data_input_skip_to(struct data_input *in, uint64_t offset, struct pd_err *err);

uint64_t data_input_offset(const struct data_input *in); /* unpacked bytes read */
uint64_t data_input_raw_offset(
    const struct data_input *in); /* bytes taken from the file: how far one is in it */

/* --- writing --- */

enum data_packing { DATA_PLAIN, DATA_GZIP, DATA_ZSTD };
int data_packing_of(const char *text);                /* "none", "gzip", "zstd": the enum; -1 */
const char *data_packing_suffix(enum data_packing p); /* "", ".gz", ".zst" */

/* `n` bytes as one more member (frame) of a packed file, appended to *out: a file of several
 * members is their texts in a row. The caller frees. 0 or PD_ENOMEM. */
int data_pack(enum data_packing p, const void *text, size_t n, void **out, size_t *n_out);

#endif
