/* SPDX-License-Identifier: Apache-2.0 */
/* job_feed.c - sends a data file to a node on request, if the node's trainer needs the file and no
 * other node could provide it. This machine still has the scanned package. Requested objects
 * (docs/protocol.md, "Data files") are read, hashed again and compressed on threads of the pool. */
#include "launcher/job/job_internal.h"
#include "pack/store/file_pieces.h"

enum { PIECES_FRAME = 1 << 20, NEED_MAX = 512 };

/* The work for one DF_NEED. */
struct feeding {
    uv_work_t work;
    struct job_node *node;
    const struct scan *scan;
    uint64_t pull;
    size_t n;
    struct pd_buf out;
    size_t end[NEED_MAX]; /* end of each record in out */
    struct pd_err err;
    struct object_id ids[];
};

void job_feed_offer(struct job_node *n) {
    struct job *j = n->job;
    if (job_data_n(j) && !j->flags.detach && n->link)
        link_send(n->link, WIRE_AG_DATA_FEED, 0, json_object(), NULL, 0);
}

static void refuse(struct job_node *n, uint64_t pull, const char *why) {
    if (n->link)
        link_send(n->link, WIRE_DF_DATA, pull,
                  json_pack("{s:s%}", "error", why, pd_utf8_valid(why, strlen(why))), NULL, 0);
}

static void send_pieces(struct job_node *n, uint64_t pull, const struct wire_frame *f) {
    const struct scan *scan = dispatch_scan(n->job->dispatch, n->job->data_package);
    struct file_pieces pieces = {0};
    struct pd_buf b = {0};
    size_t item, len = f->n_sec > 1 ? f->len[1] : 0;
    char *path = pd_calloc(1, len + 1);
    if (path && len)
        memcpy(path, f->sec[1], len);
    if (!path || !job_data_item(n->job, path, &item)) {
        refuse(n, pull, "the package has no data file of this name");
    } else if (scan_item_pieces(scan, item, &pieces)) {
        refuse(n, pull, "out of memory");
    } else {
        file_pieces_put(&b, &pieces);
        for (size_t at = 0; at < b.len && n->link && !b.failed; at += PIECES_FRAME)
            link_send(n->link, WIRE_DF_FILE, pull, NULL, b.data + at,
                      b.len - at < PIECES_FRAME ? b.len - at : PIECES_FRAME);
        if (b.failed)
            refuse(n, pull, "out of memory");
    }
    pd_buf_release(&b);
    file_pieces_release(&pieces);
    free(path);
}

/* On a thread of the pool. */
static void work(uv_work_t *w) {
    struct feeding *x = w->data;
    struct object_codec *codec = object_codec_new();
    uint8_t *buf = pd_malloc(OBJECT_MAX);
    int rc = codec && buf ? 0 : PD_ENOMEM;
    for (size_t i = 0; i < x->n && !rc; i++) {
        long object = scan_find(x->scan, &x->ids[i]);
        uint32_t n;
        if (object < 0)
            rc = pd_fail(&x->err, PD_EPROTO, "the requested object is not in the package");
        else if (!(rc = scan_read(x->scan, object, buf, &n, &x->err)))
            rc = object_encode(codec, &x->ids[i], buf, n, &x->out);
        x->end[i] = x->out.len;
    }
    if (rc)
        pd_fail(&x->err, rc, "out of memory");
    object_codec_free(codec);
    free(buf);
}

static void on_worked(uv_work_t *w, int status) {
    struct feeding *x = w->data;
    struct job_node *n = x->node;
    if (status)
        pd_fail(&x->err, PD_ECANCELED, "paddlectl is ending");
    if (x->err.code)
        refuse(n, x->pull, x->err.msg);
    for (size_t i = 0, from = 0; i < x->n && !x->err.code && n->link;
         i++) /* each frame holds complete records */
        if (i + 1 == x->n || x->end[i + 1] - from > PIECES_FRAME) {
            link_send(n->link, WIRE_DF_DATA, x->pull, NULL, x->out.data + from, x->end[i] - from);
            from = x->end[i];
        }
    pd_buf_release(&x->out);
    free(x);
}

static void send_objects(struct job_node *n, uint64_t pull, const struct wire_frame *f) {
    size_t len = f->n_sec > 1 ? f->len[1] : 0;
    struct feeding *x = len && len % OBJECT_ID == 0 && len / OBJECT_ID <= NEED_MAX
                            ? pd_calloc(1, sizeof *x + len)
                            : NULL;
    if (!x) {
        refuse(n, pull, "the request names too many objects, or none");
        return;
    }
    x->node = n;
    x->scan = dispatch_scan(n->job->dispatch, n->job->data_package);
    x->pull = pull;
    x->n = len / OBJECT_ID;
    memcpy(x->ids, f->sec[1], len);
    pd_buf_init(&x->out);
    x->work.data = x;
    if (uv_queue_work(&n->job->c.loop, &x->work, work, on_worked)) {
        free(x);
        refuse(n, pull, "cannot start a thread");
    }
}

void job_feed_frame(struct job_node *n, const struct wire_frame *f, const json_t *body) {
    json_int_t pull = json_integer_value(json_object_get(body, "pull"));
    if (pull <= 0 || !job_data_n(n->job))
        return;
    if (f->type == WIRE_DF_FILE)
        send_pieces(n, (uint64_t)pull, f);
    else
        send_objects(n, (uint64_t)pull, f);
}
