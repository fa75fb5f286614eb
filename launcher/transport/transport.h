/* transport.h - a byte stream to a command on a node, whatever carries it: an ssh channel or a
 * child process.
 *
 *     open --> on_open --> on_bytes ... --> on_close
 *
 * Callbacks come from the loop's thread, never from inside transport_write, transport_eof or
 * transport_close. on_close comes exactly once and last, also for a stream that never opened;
 * afterwards the transport is gone. `why->code` is 0 after transport_close by us, PD_ECLOSED when
 * the command ended or the connection was lost, else what went wrong, with the step but without the
 * host.
 *
 * A plain command (`paddlectl exec`) wants its two outputs apart and its exit: on_stderr, and in
 * on_close transport_status and transport_signal. PD_ECLOSED with neither of them is a connection
 * that was lost while it ran.
 */
#ifndef LAUNCHER_TRANSPORT_H
#define LAUNCHER_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"

struct transport;

struct transport_events {
    void (*on_open)(void *arg); /* the command was started; nothing is known yet of what it does */
    void (*on_bytes)(const uint8_t *p, size_t n, void *arg);
    void (*on_drain)(void *arg); /* the queue of unsent bytes became short; may be NULL */
    void (*on_close)(const struct pd_err *why, void *arg);
    void (*on_stderr)(const uint8_t *p, size_t n,
                      void *arg); /* may be NULL: only transport_stderr keeps its end */
};

int transport_write(struct transport *t, const void *p, size_t n); /* copied; 0 or PD_ENOMEM */
size_t transport_queued(const struct transport *t);                /* bytes not yet handed on */
void transport_eof(struct transport *t);   /* the command's stdin ends after what is queued; later
                                              writes are dropped */
void transport_close(struct transport *t); /* at once; what is queued may be lost */

/* The end of what the command wrote to its stderr so far, printable, at most a few lines; "" if
 * nothing. */
const char *transport_stderr(const struct transport *t);

/* How the command ended, from on_close: its exit status, or -1; the signal that ended it ("TERM"),
 * or NULL. */
int transport_status(const struct transport *t);
const char *transport_signal(const struct transport *t);

/* A child process with pipes. argv[0] is its path. */
int transport_local(struct transport **out, uv_loop_t *loop, char *const *argv,
                    const struct transport_events *ev, void *arg, struct pd_err *err);
int transport_local_pid(
    const struct transport *t); /* of that child; 0 when it could not be started */

/* --- for implementations --- */

enum { TRANSPORT_TAIL = 2048, TRANSPORT_LOW_WATER = 256 << 10, TRANSPORT_KEEP = 64 << 10 };

struct transport {
    const struct transport_events *ev;
    void *arg;
    int (*write)(struct transport *t, const void *p, size_t n);
    void (*eof)(struct transport *t);
    void (*close)(struct transport *t);
    size_t queued;
    struct pd_buf
        queue; /* bytes [queue_off, queue.len) are still to be sent; unused by child processes */
    size_t queue_off;
    char tail[TRANSPORT_TAIL + 1];
    size_t tail_len;
    int at_eof;      /* transport_eof was called */
    int status;      /* -1: not known */
    char signal[32]; /* "": none */
};

void transport_init(struct transport *t, const struct transport_events *ev, void *arg);
void transport_release(struct transport *t);
int transport_push(struct transport *t, const void *p, size_t n); /* append to the queue */
void transport_pop(struct transport *t, size_t n);                /* take n bytes off its front */
void transport_add_stderr(struct transport *t, const uint8_t *p,
                          size_t n); /* to the tail and to on_stderr */
/* `status` and `signal` are set: "the command ended with exit status 3: <stderr>" as PD_ECLOSED. */
void transport_ended(const struct transport *t, struct pd_err *why);

#endif
