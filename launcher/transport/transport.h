/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h - a byte stream to a command on a node, over an ssh channel or to a child process.
 *
 *     open --> on_open --> on_bytes ... --> on_close
 *
 * Callbacks run on the loop's thread, never inside transport_write, transport_eof or
 * transport_close. on_close comes exactly once, and last, even if the stream never opened; then the
 * transport is gone. why->code is
 * - 0 after transport_close
 * - PD_ECLOSED if the command ended or the connection was lost
 * - otherwise the error; why->msg names the step but not the host
 *
 * A plain command (`paddlectl exec`) needs separate outputs and the exit status: on_stderr, and in
 * on_close transport_status and transport_signal. PD_ECLOSED with neither of them means that the
 * connection was lost while the command ran.
 */
#pragma once

#include <uv.h>

struct transport;

struct transport_events {
    void (*on_open)(void *arg); /* the command was started; its success is unknown */
    void (*on_bytes)(const uint8_t *p, size_t n, void *arg);
    void (*on_drain)(void *arg); /* the queue of unsent bytes is short; may be NULL */
    void (*on_close)(const struct pd_err *why, void *arg);
    /* may be NULL: then only transport_stderr keeps the end of stderr */
    void (*on_stderr)(const uint8_t *p, size_t n, void *arg);
};

int transport_write(struct transport *t, const void *p, size_t n); /* copied; 0 or PD_ENOMEM */
size_t transport_queued(const struct transport *t);                /* unsent bytes */
/* end the command's stdin after the queued bytes; later writes are dropped */
void transport_eof(struct transport *t);
void transport_close(struct transport *t); /* close at once; queued bytes may be lost */
/* 1: the kernel of the other host acknowledges what is sent to it. 0: it does not, or nobody knows.
 */
int transport_is_acknowledged(const struct transport *t);

/* The end of the command's stderr so far, printable, at most a few lines; "" if there is none. */
const char *transport_stderr(const struct transport *t);

/* How the command ended, valid from on_close on. Status: 0..255, or -1. Signal: "TERM", or NULL. */
int transport_status(const struct transport *t);
const char *transport_signal(const struct transport *t);

/* Start a child process with pipes. argv[0] is its path. */
int transport_local(struct transport **out, uv_loop_t *loop, char *const *argv,
                    const struct transport_events *ev, void *arg, struct pd_err *err);
/* A connected socket of this machine, which the transport takes over. It ends as a command that
 * ended well when the other end closes it. */
int transport_socket(struct transport **out, uv_loop_t *loop, int fd,
                     const struct transport_events *ev, void *arg, struct pd_err *err);
/* pid of the child; 0: it could not be started */
int transport_local_pid(const struct transport *t);
/* transport_close also ends the processes of the child's group: TERM, KILL a second later. */
void transport_local_end_group(struct transport *t);
/* The process does not keep the loop running, and its own end counts: processes that it has left
 * may still hold its outputs. */
void transport_local_background(struct transport *t);

/* Split `text`, the value of an option, at blanks; quotes ('' and "") hold words together. No shell
 * reads it. *out ends with NULL. PD_ECONF: a quote without its end. */
int transport_words(char ***out, size_t *n, const char *option, const char *text,
                    struct pd_err *err);
void transport_words_free(char **words); /* NULL is fine */

/* --- for implementations --- */

enum { TRANSPORT_TAIL = 2048, TRANSPORT_LOW_WATER = 256 << 10, TRANSPORT_KEEP = 64 << 10 };

struct transport {
    const struct transport_events *ev;
    void *arg;
    int (*write)(struct transport *t, const void *p, size_t n);
    void (*eof)(struct transport *t);
    void (*close)(struct transport *t);
    int (*is_acknowledged)(const struct transport *t); /* NULL: nobody knows */
    size_t queued;
    /* bytes [queue_off, queue.len) are unsent; transport_local does not use it */
    struct pd_buf queue;
    size_t queue_off;
    char tail[TRANSPORT_TAIL + 1];
    size_t tail_len;
    int at_eof;      /* transport_eof was called */
    int status;      /* -1: unknown */
    char signal[32]; /* "": none */
};

void transport_init(struct transport *t, const struct transport_events *ev, void *arg);
void transport_release(struct transport *t);
int transport_push(struct transport *t, const void *p, size_t n); /* append to the queue */
void transport_pop(struct transport *t, size_t n); /* remove n bytes from its front */
/* add to the tail, and pass to on_stderr */
void transport_add_stderr(struct transport *t, const uint8_t *p, size_t n);
/* Set `why` to PD_ECLOSED, "the command ended with exit status 3: <stderr>". `status` and `signal`
 * must be set. */
void transport_ended(const struct transport *t, struct pd_err *why);
