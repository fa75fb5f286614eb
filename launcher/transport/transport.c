/* SPDX-License-Identifier: Apache-2.0 */
/* transport.c - parts that all transports share: the send queue and the tail of stderr. */
#include "launcher/transport/transport.h"

void transport_init(struct transport *t, const struct transport_events *ev, void *arg) {
    memset(t, 0, sizeof *t);
    t->ev = ev;
    t->arg = arg;
    t->status = -1;
    pd_buf_init(&t->queue);
}

void transport_release(struct transport *t) { pd_buf_release(&t->queue); }

int transport_write(struct transport *t, const void *p, size_t n) {
    return t->at_eof ? 0 : t->write(t, p, n);
}

void transport_eof(struct transport *t) {
    if (t->at_eof)
        return;
    t->at_eof = 1;
    t->eof(t);
}

void transport_close(struct transport *t) { t->close(t); }

int transport_is_acknowledged(const struct transport *t) {
    return t->is_acknowledged && t->is_acknowledged(t);
}

size_t transport_queued(const struct transport *t) { return t->queued; }

const char *transport_stderr(const struct transport *t) { return t->tail; }

int transport_status(const struct transport *t) { return t->signal[0] ? -1 : t->status; }

const char *transport_signal(const struct transport *t) { return t->signal[0] ? t->signal : NULL; }

int transport_push(struct transport *t, const void *p, size_t n) {
    if (t->queue_off == t->queue.len) {
        pd_buf_clear(&t->queue);
        t->queue_off = 0;
    } else if (t->queue_off > t->queue.len / 2) {
        memmove(t->queue.data, t->queue.data + t->queue_off, t->queue.len - t->queue_off);
        t->queue.len -= t->queue_off;
        t->queue_off = 0;
    }
    if (pd_buf_reserve(&t->queue, n))
        return PD_ENOMEM;
    pd_put(&t->queue, p, n);
    t->queued += n;
    return 0;
}

/* Free the memory of a queue that was long (the agent, a package): there may be thousands of
 * transports. */
void transport_pop(struct transport *t, size_t n) {
    t->queue_off += n;
    t->queued -= n;
    if (t->queue_off == t->queue.len && t->queue.cap > TRANSPORT_KEEP) {
        pd_buf_release(&t->queue);
        t->queue_off = 0;
    }
}

void transport_add_stderr(struct transport *t, const uint8_t *p, size_t n) {
    if (n && t->ev->on_stderr)
        t->ev->on_stderr(p, n, t->arg);
    if (n > TRANSPORT_TAIL) {
        p += n - TRANSPORT_TAIL;
        n = TRANSPORT_TAIL;
    }
    if (t->tail_len + n > TRANSPORT_TAIL) {
        size_t drop = t->tail_len + n - TRANSPORT_TAIL;
        memmove(t->tail, t->tail + drop, t->tail_len - drop);
        t->tail_len -= drop;
    }
    /* terminal control codes of a node must not reach the user's terminal */
    for (size_t i = 0; i < n; i++)
        t->tail[t->tail_len++] = p[i] < 32 && p[i] != '\n' && p[i] != '\t' ? ' ' : (char)p[i];
    t->tail[t->tail_len] = 0;
}

void transport_ended(const struct transport *t, struct pd_err *why) {
    char how[100], text[800];
    if (t->signal[0])
        pd_fmt(how, sizeof how, "was ended by signal %s", t->signal);
    else if (t->status >= 0)
        pd_fmt(how, sizeof how, "ended with exit status %d", t->status);
    else
        pd_fmt(how, sizeof how, "ended, the connection was closed");
    /* Show the last lines, which name the error; a login shell may print noise before them. */
    size_t keep = t->tail_len < 600 ? t->tail_len : 600;
    pd_fmt(text, sizeof text, "%s", t->tail + t->tail_len - keep);
    char *s = pd_trim(text);
    pd_fail(why, PD_ECLOSED, "the remote command %s%s%s", how, *s ? ": " : "", s);
}

void transport_words_free(char **words) {
    for (size_t i = 0; words && words[i]; i++)
        free(words[i]);
    free(words);
}

/* The word at *text, up to the blank behind it. NULL: no memory, or err. */
static char *take_word(const char **text, const char *option, struct pd_err *err) {
    struct pd_buf b = {0};
    const char *s = *text;
    char quote = 0;
    for (; *s && (quote || !strchr(" \t", *s)); s++)
        if (quote ? *s == quote : *s == '\'' || *s == '"')
            quote = quote ? 0 : *s;
        else
            pd_put_u8(&b, (uint8_t)*s);
    pd_put_u8(&b, 0);
    *text = s;
    if (quote)
        pd_fail(err, PD_ECONF, "%s: a quote (%c) without its end", option, quote);
    else if (!b.failed)
        return (char *)b.data;
    pd_buf_release(&b);
    return NULL;
}

int transport_words(char ***out, size_t *n, const char *option, const char *text,
                    struct pd_err *err) {
    char **v = pd_calloc(strlen(text) + 1, sizeof *v);
    *n = 0;
    *out = NULL;
    if (!v)
        return pd_oom(err, "the words of a command");
    for (text += strspn(text, " \t"); *text; text += strspn(text, " \t"))
        if (!(v[(*n)++] = take_word(&text, option, err))) {
            transport_words_free(v);
            *n = 0;
            return err->code ? err->code : pd_oom(err, "the words of a command");
        }
    *out = v;
    return 0;
}
