/* seal.c - see seal.h. The frame's type is authenticated with the payload. */
#include "agent/core/seal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum {
    OVERHEAD = crypto_secretstream_xchacha20poly1305_ABYTES,
    HEADER = crypto_secretstream_xchacha20poly1305_HEADERBYTES
};

static void key_of(uint8_t *key, const struct net_conn *c, const char *label) {
    crypto_generichash(key, crypto_secretstream_xchacha20poly1305_KEYBYTES, (const uint8_t *)label,
                       strlen(label), net_session_key(c), WIRE_KEY_BYTES);
}

void seal_init(struct seal *s, const struct net_conn *c, int is_taker, int on) {
    memset(s, 0, sizeof *s);
    s->on = on;
    key_of(s->send_key, c, is_taker ? "taker" : "source");
    key_of(s->receive_key, c, is_taker ? "source" : "taker");
}

int seal_send(struct seal *s, struct net_conn *c, uint16_t type, const void *p, size_t n) {
    if (!s->on) {
        struct net_sec sec[2] = {{NULL, 0}, {p, n}};
        return net_send(c, type, 0, 0, sec, 2, NULL, NULL);
    }
    uint8_t header[HEADER], *sealed = pd_malloc(n + OVERHEAD);
    unsigned n_sec = s->sent ? 2 : 3;
    if (!sealed)
        return PD_ENOMEM;
    if (!s->sent)
        crypto_secretstream_xchacha20poly1305_init_push(&s->out, header, s->send_key);
    s->sent = 1;
    crypto_secretstream_xchacha20poly1305_push(&s->out, sealed, NULL, p, n, (const uint8_t *)&type,
                                               sizeof type, 0);
    struct net_sec sec[3] = {{NULL, 0}, {sealed, n + OVERHEAD}, {header, HEADER}};
    int rc = 0;
    if (n_sec == 3) { /* net_send copies the sections, because the header is on the stack */
        rc = net_send(c, type, 0, 0, sec, 3, NULL, NULL);
        free(sealed);
    } else {
        rc = net_send(c, type, 0, 0, sec, 2, free, sealed);
    }
    return rc;
}

int seal_open(struct seal *s, const struct wire_frame *f, uint8_t **out, size_t *n,
              struct pd_err *err) {
    const uint8_t *p = f->n_sec > 1 ? f->sec[1] : NULL;
    size_t len = f->n_sec > 1 ? f->len[1] : 0;
    if (s->on && !s->received) {
        if (f->n_sec < 3 || f->len[2] != HEADER ||
            crypto_secretstream_xchacha20poly1305_init_pull(&s->in, f->sec[2], s->receive_key))
            return pd_fail(err, PD_EAUTH, "the peer's first message is not sealed");
        s->received = 1;
    }
    if (!len || (s->on && len < OVERHEAD))
        return pd_fail(err, PD_EPROTO, "an empty message");
    uint8_t *plain = pd_malloc(len);
    if (!plain)
        return pd_oom(err, "a sealed message");
    if (!s->on) {
        memcpy(plain, p, len);
    } else {
        const uint16_t type = f->type;
        if (crypto_secretstream_xchacha20poly1305_pull(&s->in, plain, NULL, NULL, p, len,
                                                       (const uint8_t *)&type, sizeof type)) {
            free(plain);
            return pd_fail(err, PD_EAUTH, "a sealed message is damaged");
        }
        len -= OVERHEAD;
    }
    *out = plain;
    *n = len;
    return 0;
}
