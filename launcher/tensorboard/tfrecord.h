/* SPDX-License-Identifier: Apache-2.0 */
/* tfrecord.h - a file of records as TensorFlow writes it (TFRecord):
 *
 *     length u64 | CRC of the length u32 | data | CRC of the data u32        (little-endian)
 *
 * The CRC is CRC-32C, rotated and shifted by a constant ("masked").
 *
 * A file that has been written before is written again from its beginning: records that it has
 * already stay untouched, so that a program that reads it meanwhile sees no change. From the first
 * different byte on the file is cut off. */
#pragma once

struct tfrecord {
    int fd;
    uint64_t at, size; /* the end of what has been written or compared; the size of the file */
    struct pd_buf out; /* records that follow */
    char path[PATH_MAX];
};

/* Opens and locks the file; creates it if there is none. PD_EEXIST: another process writes it. */
int tfrecord_open(struct tfrecord *f, const char *path, struct pd_err *err);
/* Appends a record, which tfrecord_write writes. */
void tfrecord_put(struct tfrecord *f, const void *p, size_t n);
/* After an error the file ends with the last complete record before. */
int tfrecord_write(struct tfrecord *f, struct pd_err *err);
void tfrecord_rewind(struct tfrecord *f);                 /* begins again */
int tfrecord_cut(struct tfrecord *f, struct pd_err *err); /* the file ends here */
void tfrecord_close(struct tfrecord *f);
