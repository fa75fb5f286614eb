/* SPDX-License-Identifier: Apache-2.0 */
/* msg.h - frames whose section 0 is a JSON object: sending, parsing, and reading fields with
 * bounds. */
#pragma once

#include <jansson.h>

#include "net/conn.h"
#include "wire/body.h"

/* The largest frame that an agent accepts or sends, in bytes: JSON and one chunk. */
enum { MSG_MAX_FRAME = (4 << 20) + (256 << 10) + 1024 };

/* Sends `body` and takes it over. A NULL body (json_pack ran out of memory) is PD_ENOMEM. The n
 * bytes at p are copied into section 1; if p is NULL, there is no section 1. */
int msg_send(struct net_conn *c, uint16_t type, uint64_t req, json_t *body);
int msg_send_with(struct net_conn *c, uint16_t type, uint64_t req, json_t *body, const void *p,
                  size_t n);

/* The object in section 0, a new reference. PD_EPROTO: no JSON object, or too large. */
int msg_body(const struct wire_frame *f, json_t **out, struct pd_err *err);
const char *msg_str(const json_t *o, const char *key); /* borrowed; "" if absent or no string */
/* The integer, clamped to [min, max]; `absent` if there is no integer. */
int64_t msg_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t absent);
int msg_bool(const json_t *o, const char *key);

/* Frames between agents about packages and data files have bytes in section 1, and no section 0. */
int msg_send_payload(struct net_conn *c, uint16_t type, const void *p, size_t n); /* copies */
/* A copy of section 1, which the caller frees. PD_EPROTO: there is none, or it is empty. */
int msg_payload(const struct wire_frame *f, uint8_t **out, size_t *n, struct pd_err *err);

/* Writes an error frame to a descriptor. For a process that has no loop yet; write errors are
 * ignored. */
void msg_write_error(int fd, uint16_t type, const struct pd_err *e);
