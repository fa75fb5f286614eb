/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - see fetch.h. The requests are those that src/agent/files/file_asks.c reads. Only one
 * thread at a time waits for an answer. A thread sends a prefetch request before it queues for its
 * turn, so that the files of all threads are fetched at the same time. */
#include "data/input/fetch.h"

#include <pthread.h>
#include <sys/socket.h>

enum { ANSWER_MAX = 4096 };

struct data_fetch {
    int fd;
    pthread_mutex_t send, wait; /* send: one request at a time is written; wait: one thread waits */
    uint32_t next_id;           /* protected by wait */
};

int data_fetch_new(struct data_fetch **out, int fd, struct pd_err *err) {
    struct data_fetch *f = pd_calloc(1, sizeof *f);
    if (!f)
        return pd_oom(err, "a request for a data file");
    f->fd = fd;
    pthread_mutex_init(&f->send, NULL);
    pthread_mutex_init(&f->wait, NULL);
    *out = f;
    return 0;
}

void data_fetch_free(struct data_fetch *f) {
    if (!f)
        return;
    pthread_mutex_destroy(&f->send);
    pthread_mutex_destroy(&f->wait);
    free(f);
}

/* Sends a request. With wait == 0 the request is dropped if the agent does not keep up. 0 or -1. */
static int send_request(struct data_fetch *f, uint32_t id, const char *path, int wait) {
    uint8_t text[8 + PATH_MAX];
    size_t n = strlen(path), at = 0;
    int rc = 0;
    if (!n || n >= PATH_MAX)
        return -1;
    for (int i = 0; i < 4; i++) {
        text[i] = (uint8_t)(n >> 8 * i);
        text[4 + i] = (uint8_t)(id >> 8 * i);
    }
    memcpy(text + 8, path, n);
    pthread_mutex_lock(&f->send);
    while (at < n + 8 && !rc) {
        ssize_t k =
            send(f->fd, text + at, n + 8 - at, MSG_NOSIGNAL | (wait || at ? 0 : MSG_DONTWAIT));
        if (k > 0)
            at += (size_t)k;
        else if (errno != EINTR)
            rc = -1;
    }
    pthread_mutex_unlock(&f->send);
    return rc;
}

static int read_all(int fd, void *p, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t k = recv(fd, (char *)p + at, n - at, 0);
        if (!k || (k < 0 && errno != EINTR))
            return -1;
        at += k > 0 ? (size_t)k : 0;
    }
    return 0;
}

static int read_answer(struct data_fetch *f, uint32_t id, struct pd_err *err) {
    uint8_t head[12];
    char text[ANSWER_MAX];
    struct pd_reader r;
    if (read_all(f->fd, head, sizeof head))
        return pd_fail(err, PD_ECLOSED, "this node's agent does not answer: it has ended");
    pd_reader_init(&r, head, sizeof head);
    uint32_t n = pd_get_u32(&r), of = pd_get_u32(&r), code = pd_get_u32(&r);
    if (n >= sizeof text || of != id || code > 1000)
        return pd_fail(err, PD_EPROTO, "the answer of this node's agent is not valid");
    if (read_all(f->fd, text, n))
        return pd_fail(err, PD_ECLOSED, "this node's agent has ended in the middle of its answer");
    return code ? pd_fail(err, -(int)code, "%.*s", (int)n, text) : 0;
}

int data_fetch_wait(struct data_fetch *f, const char *path, struct pd_err *err) {
    data_fetch_prefetch(f, path);
    pthread_mutex_lock(&f->wait);
    uint32_t id = ++f->next_id ? f->next_id : ++f->next_id;
    int rc = send_request(f, id, path, 1) ? pd_fail(err, PD_ECLOSED, "this node's agent has ended")
                                          : read_answer(f, id, err);
    pthread_mutex_unlock(&f->wait);
    return rc;
}

void data_fetch_prefetch(struct data_fetch *f, const char *path) {
    if (f && access(path, F_OK))
        (void)send_request(f, 0, path, 0);
}

int data_fetch_ensure(struct data_fetch *f, const char *path, struct pd_err *err) {
    return f && *path != '/' && access(path, F_OK) && errno == ENOENT
               ? data_fetch_wait(f, path, err)
               : 0;
}

int data_fetch_open(struct data_fetch *f, struct data_input **out, const char *path,
                    const char *shown, struct pd_err *err) {
    int rc = data_fetch_ensure(f, path, err);
    return rc ? rc : data_input_open(out, path, shown, err);
}
