/* SPDX-License-Identifier: Apache-2.0 */
/* msg.c - see msg.h. */
#include "agent/core/msg.h"

#include "wire/msg.h"

int msg_send_with(struct net_conn *c, uint16_t type, uint64_t req, json_t *body, const void *p,
                  size_t n) {
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text)
        return PD_ENOMEM;
    struct net_sec sec[2] = {{text, strlen(text)}, {p, n}};
    int rc = net_send(c, type, 0, req, sec, p ? 2 : 1, NULL, NULL);
    free(text);
    return rc;
}

int msg_send(struct net_conn *c, uint16_t type, uint64_t req, json_t *body) {
    return msg_send_with(c, type, req, body, NULL, 0);
}

int msg_send_payload(struct net_conn *c, uint16_t type, const void *p, size_t n) {
    const struct net_sec sec[2] = {{NULL, 0}, {p, n}};
    return net_send(c, type, 0, 0, sec, 2, NULL, NULL);
}

int msg_payload(const struct wire_frame *f, uint8_t **out, size_t *n, struct pd_err *err) {
    *n = f->n_sec > 1 ? f->len[1] : 0;
    *out = NULL;
    if (!*n)
        return pd_fail(err, PD_EPROTO, "%s: an empty message", wire_msg_name(f->type));
    if (!(*out = pd_malloc(*n)))
        return pd_oom(err, "a message");
    memcpy(*out, f->sec[1], *n);
    return 0;
}

int msg_body(const struct wire_frame *f, json_t **out, struct pd_err *err) {
    json_error_t e;
    if (!f->n_sec || f->len[0] > WIRE_JSON_MAX)
        return pd_fail(err, PD_EPROTO, "%s: its body is missing or too large",
                       wire_msg_name(f->type));
    json_t *o = json_loadb((const char *)f->sec[0], f->len[0], JSON_REJECT_DUPLICATES, &e);
    if (!json_is_object(o)) {
        json_decref(o);
        return pd_fail(err, PD_EPROTO, "%s: its body is not a JSON object", wire_msg_name(f->type));
    }
    *out = o;
    return 0;
}

const char *msg_str(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

int64_t msg_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t absent) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v))
        return absent;
    int64_t n = json_integer_value(v);
    return n < min ? min : n > max ? max : n;
}

int msg_bool(const json_t *o, const char *key) { return json_is_true(json_object_get(o, key)); }

void msg_write_error(int fd, uint16_t type, const struct pd_err *e) {
    /* Large enough, so that nothing is allocated: the error may be that there is no memory. */
    uint8_t text[sizeof e->msg + sizeof e->from + 64], header[WIRE_HEADER];
    struct pd_buf b = {.data = text, .cap = sizeof text};
    static const uint8_t zero[WIRE_ALIGN];
    wire_error_put(&b, e);
    size_t len[WIRE_SECTIONS] = {b.len};
    wire_header(header, type, WIRE_F_ERROR, 0, 1, len);
    if (!pd_write_all(fd, header, sizeof header) && !pd_write_all(fd, b.data, b.len))
        (void)pd_write_all(fd, zero, wire_pad(b.len));
}
