/* msg.h - frames whose section 0 is a JSON object: sending, taking apart, and reading fields with
 * bounds. */
#ifndef PD_AGENT_MSG_H
#define PD_AGENT_MSG_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "net/conn.h"
#include "wire/body.h"

/* The largest frame an agent takes or sends: JSON and one chunk. */
enum { MSG_MAX_FRAME = (4 << 20) + (256 << 10) + 1024 };

/* Sends `body` and takes it over (NULL, from a json_pack without memory, is PD_ENOMEM). */
int msg_send(struct net_conn *c, uint16_t type, uint64_t req, json_t *body);
int msg_send_with(struct net_conn *c, uint16_t type, uint64_t req, json_t *body, const void *p,
                  size_t n);

/* The object in section 0. PD_EPROTO when it is none or too large. */
int msg_body(const struct wire_frame *f, json_t **out, struct pd_err *err);
/* A frame with WIRE_F_ERROR into `err`; returns its code (PD_EPROTO if the frame is malformed). */
int msg_error(const struct wire_frame *f, struct pd_err *err);

const char *msg_str(const json_t *o, const char *key); /* "" when absent or no string */
/* Clamped to [min, max]; `absent` when there is no integer. */
int64_t msg_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t absent);
int msg_bool(const json_t *o, const char *key);

/* Write an error frame to a descriptor, for a process that has no loop yet. */
void msg_write_error(int fd, uint16_t type, const struct pd_err *e);

#endif
