/* SPDX-License-Identifier: Apache-2.0 */
/* agent_files.h - four agents on this machine. A trainer asks agent 0 for data files that are not
 * there. One or two other agents hold these files, and a client (the launcher) has the package. One
 * set at a time: set_up, teardown. */
#pragma once

#include <pthread.h>
#include <sodium.h>
#include <sys/socket.h>

#include "agent/files/file_fetch_internal.h"
#include "agent/core/msg.h"
#include "agent/peer_link.h"
#include "math/hash.h"
#include "data/input/fetch.h"
#include "pack/store/assemble.h"
#include "pack/scan/scan.h"
#include "wire/msg.h"

enum { NODES = 4 };

struct made {
    struct agent_core core;
    struct clients *clients;
    struct client_use uses[1];
    struct spec spec;
    struct peer_id self;
    struct kept_data kept;
    struct file_fetch *data;
    struct peer_link *link;
    int port, lost;
};

static const char *const names[] = {"data/big",       "data/small",          "data/empty",
                                    "data/new\nline", "data/\xff quote\" '", "data/deep/er/x",
                                    "data/sparse"};
enum { BIG, SMALL, EMPTY, N_NAMES = sizeof names / sizeof names[0] };

static char top[64], src[100];
static struct made *node[NODES];
static struct scan *scan;
static int n_holders;           /* node 1, or nodes 1 and 2, have the files */
static struct net_conn *client; /* the launcher; NULL: no launcher */
static struct pd_err client_said;
static enum { FEED_WELL, FEED_OTHER_PIECES, FEED_OTHER_BYTES } feeding;
static int n_fed, n_fed_objects;

/* --- agents --- */

static inline void spin(void) {
    for (int i = 0; i < NODES; i++)
        uv_run(&node[i]->core.loop, UV_RUN_NOWAIT);
    nanosleep(&(struct timespec){0, 200000}, NULL);
}

static inline void must(int rc, const struct pd_err *err) {
    if (rc)
        fail_msg("%s", err->msg);
}

static inline int pick(void *arg, size_t item) {
    struct scan_item it;
    (void)arg;
    scan_item(scan, item, &it);
    return it.type == MANIFEST_FILE;
}

/* As after a dispatch: puts the data files into the node's workspace and store. */
static inline void give(struct made *m) {
    struct scan_root root;
    struct store *st;
    struct assemble *a;
    struct pd_err err = {0};
    char target[PATH_MAX], ws[PATH_MAX];
    static uint8_t buf[OBJECT_MAX];
    struct object_id ids[64];
    must(scan_pick(scan, pick, NULL, &root, &err), &err);
    must(node_paths_join(m->core.paths.dir, "data-x", target, &err), &err);
    must(node_paths_join(m->core.paths.dir, "workspace", ws, &err), &err);
    const struct assemble_opts o = {.root = m->core.paths.root, .target = target, .lies_in = ws};
    must(store_open(&st, m->core.paths.root, &err), &err);
    must(assemble_new(&a, st, &o, root.raw, root.n, &err), &err);
    while (!assemble_complete(a)) {
        assert_true(assemble_step(a, 1000, &err) >= 0);
        size_t n = assemble_need(a, ids, 64);
        for (size_t i = 0; i < n; i++) {
            uint32_t len;
            must(scan_read(scan, scan_find(scan, &ids[i]), buf, &len, &err), &err);
            must(assemble_put(a, &ids[i], buf, len, &err), &err);
        }
    }
    must(assemble_finish(a, &err), &err);
    assemble_free(a);
    store_close(st);
    must(pd_merge_tree(target, ws, &err), &err);
    must(kept_data_root(&m->kept, root.raw, root.n, &err), &err);
}

/* --- calls of file_fetch to its owner, and events of the agent's listener --- */

static int n_asked[NODES]; /* HD_FILE_COPY */
static int head_answers;   /* the other nodes are connected to the head, node 0 */
static json_t *lost_list;  /* the head's */

static inline void frame_of(struct wire_frame *f, uint16_t type, uint64_t req, const void *p,
                            size_t n) {
    *f = (struct wire_frame){.type = type, .req = req, .n_sec = 2};
    f->sec[1] = (uint8_t *)(uintptr_t)p;
    f->len[1] = n;
}

static inline void ask_head(void *arg, uint16_t type, uint64_t req, const void *p, size_t n) {
    const struct made *m = arg;
    struct wire_frame f;
    struct object_id id;
    struct pd_err err = {0};
    json_t *body = NULL;
    if (!head_answers)
        return;
    frame_of(&f, type, req, p, n);
    const int rc = file_on_asked(node[0]->data, m->spec.node, &f, &body, &id, &err);
    if (rc > 0)
        return;
    frame_of(&f, type, req, id.b, OBJECT_ID);
    file_on_holders(m->data, &f, body, rc ? &err : NULL);
    json_decref(body);
}
static inline int is_joined(void *arg) { return (void)arg, head_answers; }
static inline const json_t *lost_nodes(void *arg) { return (void)arg, lost_list; }
static inline int is_here(void *arg, int i) { return (void)arg, !node[i]->lost; }
static inline void ask_copy(void *arg, int i, const char *path) {
    struct wire_frame f;
    (void)arg;
    n_asked[i]++;
    frame_of(&f, WIRE_HD_FILE_COPY, 0, path, strlen(path));
    file_on_copy(node[i]->data, &f);
}
static inline void few_changed(void *arg) { (void)arg; }
static inline int is_head(void *arg) { return !((struct made *)arg)->spec.node; }
static inline json_t *peer(void *arg, int i) {
    (void)arg;
    return json_pack("{s:i, s:s, s:[s], s:i, s:b}", "node", i, "name", i == 1 ? "host-b" : "host-x",
                     "addrs", "127.0.0.1", "port", node[i]->port, "lost", node[i]->lost);
}

static inline void on_taker_frame(void *arg, struct net_conn *c, struct wire_frame *f) {
    file_serve_frame(file_fetch_server(((struct made *)arg)->data), c, f);
}
static inline void on_taker_gone(void *arg, struct net_conn *c) {
    file_serve_gone(file_fetch_server(((struct made *)arg)->data), c);
}
static inline void on_lost(void *arg, int i) { (void)arg, (void)i; }
static inline void on_open(struct client *c, void *arg) { (void)c, (void)arg; }
static inline void on_close(void *arg) { (void)arg; }

static inline void open_parts(struct made *m) {
    static const struct file_fetch_io io = {ask_head,   is_joined, is_head,  peer,
                                            lost_nodes, is_here,   ask_copy, few_changed};
    static const struct peer_events ev = {
        .on_lost = on_lost, .on_taker_frame = on_taker_frame, .on_taker_gone = on_taker_gone};
    static const struct client_events client_ev = {on_open, on_close};
    const struct file_fetch_opts o = {.core = &m->core,
                                      .spec = &m->spec,
                                      .self = &m->self,
                                      .kept = &m->kept,
                                      .io = &io,
                                      .arg = m};
    const struct peer_link_opts link = {.core = &m->core,
                                        .self = &m->self,
                                        .n_nodes = NODES,
                                        .takers = 1,
                                        .lease_ms = 60000,
                                        .events = &ev,
                                        .arg = m};
    struct pd_err err = {0};
    must(file_fetch_new(&m->data, &o, &err), &err);
    must(peer_link_new(&m->link, &link, &m->port, &err), &err);
    must(clients_new(&m->clients, &m->core, &client_ev, m, &err), &err);
    m->uses[0] = (struct client_use){&file_fetch_service, &m->data};
    clients_serve(m->clients, m->uses, 1);
}

static inline struct made *make_agent(int i) {
    struct made *m = calloc(1, sizeof *m);
    struct node_paths p;
    struct pd_err err = {0};
    char path[PATH_MAX];
    assert_int_equal(pd_fmt(path, sizeof path, "%s/root%d", top, i), 0);
    must(node_paths_init(&p, path, "JOB20261122000000-abcd", &err), &err);
    must(node_paths_make_job(&p, i, &err), &err);
    must(agent_core_init(&m->core, &p, AGENT_JOB, "", &err), &err);
    must(node_paths_join(p.dir, "workspace", path, &err), &err);
    assert_int_equal(mkdir(path, 0755), 0);
    m->spec = (struct spec){.node = i,
                            .n_nodes = NODES,
                            .job.encrypt = 1,
                            .job.data_copies = 1,
                            .roles.n_nodes = NODES};
    assert_int_equal(
        roles_init(&m->spec.roles, ROLE_PSERVER) | roles_init(&m->spec.roles, ROLE_TRAINER), 0);
    for (int k = 0; k < NODES; k++)
        roles_add(&m->spec.roles, ROLE_TRAINER, k);
    m->self.node = i;
    memcpy(m->self.job, p.job, sizeof m->self.job);
    if (i && i <= n_holders)
        give(m);
    open_parts(m);
    return m;
}

static inline void write_source(void) {
    char path[PATH_MAX], *slash;
    static uint8_t bytes[3 << 20];
    for (int i = 0; i < N_NAMES; i++) {
        assert_int_equal(pd_fmt(path, sizeof path, "%s/%s", src, names[i]), 0);
        slash = strrchr(path, '/');
        *slash = 0;
        assert_int_equal(pd_mkdirs(path, 0755, NULL), 0);
        *slash = '/';
        size_t n = i == BIG ? sizeof bytes : i == EMPTY ? 0 : 3000 + (size_t)i * 100;
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)(pd_mix64(k / 8 + (uint64_t)i * 1000000) >> k % 8 * 8);
        assert_int_equal(pd_write_file_quick(path, bytes, n, i == SMALL ? 0640 : 0644, NULL), 0);
        if (!strcmp(names[i], "data/sparse"))
            assert_int_equal(truncate(path, 1 << 20), 0);
    }
}

/* --- the client --- */

static inline size_t item_of(const char *path) {
    struct scan_item it;
    for (size_t i = 0; i < scan_n_items(scan); i++) {
        scan_item(scan, i, &it);
        if (!strcmp(it.path, path))
            return i;
    }
    fail_msg("no item %s", path);
    return 0;
}

static inline void feed(const struct wire_frame *f, uint64_t pull) {
    static uint8_t buf[OBJECT_MAX];
    struct file_pieces pieces = {0};
    struct object_codec *codec = object_codec_new();
    char path[300] = "";
    struct pd_buf b;
    struct pd_err err = {0};
    pd_buf_init(&b);
    if (f->type == WIRE_DF_FILE) {
        memcpy(path, f->sec[1], f->len[1]);
        assert_int_equal(scan_item_pieces(scan, item_of(path), &pieces), 0);
        pieces.mode ^= feeding == FEED_OTHER_PIECES;
        file_pieces_put(&b, &pieces);
        n_fed++;
    } else {
        for (size_t i = 0; i < f->len[1] / OBJECT_ID; i++) {
            struct object_id id;
            uint32_t n;
            memcpy(id.b, f->sec[1] + i * OBJECT_ID, OBJECT_ID);
            must(scan_read(scan, scan_find(scan, &id), buf, &n, &err), &err);
            buf[n / 2] ^= feeding == FEED_OTHER_BYTES;
            assert_int_equal(object_encode(codec, &id, buf, n, &b), 0);
            n_fed_objects++;
        }
    }
    const struct net_sec sec[2] = {{"{}", 2}, {b.data, b.len}};
    net_send(client, f->type == WIRE_DF_FILE ? WIRE_DF_FILE : WIRE_DF_DATA, 0, pull, sec, 2, NULL,
             NULL);
    object_codec_free(codec);
    file_pieces_release(&pieces);
    pd_buf_release(&b);
}

static int n_answers;

static inline void on_client_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    json_t *body = NULL;
    (void)c;
    (void)arg;
    if (f->flags & WIRE_F_ERROR)
        wire_error_get(f, &client_said);
    n_answers += f->type == WIRE_AG_DATA_LIST;
    if (f->type == WIRE_DF_FILE || f->type == WIRE_DF_NEED) {
        assert_int_equal(msg_body(f, &body, NULL), 0);
        feed(f, (uint64_t)msg_int(body, "pull", 1, INT64_MAX, 0));
        json_decref(body);
    }
    wire_frame_free(f);
}

static inline void on_client_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    (void)c, (void)why, (void)arg;
    client = NULL;
}

static inline uv_stream_t *pipe_on(int fd) {
    uv_pipe_t *p = malloc(sizeof *p);
    assert_int_equal(uv_pipe_init(&node[0]->core.loop, p, 0), 0);
    assert_int_equal(uv_pipe_open(p, fd), 0);
    return (uv_stream_t *)p;
}

static inline void open_client(void) {
    static const struct net_events ev = {NULL, on_client_frame, NULL, on_client_close};
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME};
    struct pd_err err = {0};
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    uv_stream_t *ours = pipe_on(fd[0]), *theirs = pipe_on(fd[1]);
    must(client_open(node[0]->clients, theirs, theirs, &err), &err);
    must(net_conn_on_streams(&client, ours, ours, &opts, &ev, NULL, &err), &err);
}

static inline void close_client(void) {
    if (client)
        net_close(client);
    while (client || clients_count(node[0]->clients))
        spin();
}

static inline int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sends AG_DATA_LIST with all files; rank[i] has the ranks of names[i]. */
static inline void send_list(const int (*rank)[2]) {
    const char *sorted[N_NAMES];
    struct pd_buf b;
    char body[80];
    memcpy(sorted, names, sizeof sorted);
    qsort(sorted, N_NAMES, sizeof *sorted, by_name);
    pd_buf_init(&b);
    for (int i = 0; i < N_NAMES; i++) {
        struct file_pieces f = {0};
        struct object_id id;
        int k = 0;
        while (strcmp(names[k], sorted[i]))
            k++;
        assert_int_equal(scan_item_pieces(scan, item_of(sorted[i]), &f), 0);
        assert_int_equal(file_pieces_id(&f, &id), 0);
        pd_put_str(&b, sorted[i]);
        pd_put(&b, id.b, OBJECT_ID);
        pd_put_u32(&b, (uint32_t)rank[k][0]);
        pd_put_u32(&b, (uint32_t)rank[k][1]);
        pd_put_u64(&b, f.size);
        file_pieces_release(&f);
    }
    snprintf(body, sizeof body, "{\"first\":0,\"of\":%d}", N_NAMES);
    const struct net_sec sec[2] = {{body, strlen(body)}, {b.data, b.len}};
    net_send(client, WIRE_AG_DATA_LIST, 0, 7, sec, 2, NULL, NULL);
    for (n_answers = 0; !n_answers;)
        spin();
    assert_int_equal(client_said.code, 0);
    pd_buf_release(&b);
}

static inline void offer(void) {
    const struct net_sec sec = {"{}", 2};
    net_send(client, WIRE_AG_DATA_FEED, 0, 0, &sec, 1, NULL, NULL);
}

/* --- the trainer --- */

struct asking {
    const char *path;
    struct data_fetch *f;
    struct pd_err err;
    atomic_int done;
};

static inline void *want(void *arg) {
    struct asking *w = arg;
    data_fetch_wait(w->f, w->path, &w->err);
    atomic_store(&w->done, 1);
    return NULL;
}

/* Blocks until agent 0 has answered. */
static inline int fetch(const char *path, struct pd_err *err) {
    struct asking w = {.path = path};
    pthread_t t;
    pd_err_clear(err);
    int fd = file_fetch_channel(node[0]->data, err);
    assert_true(fd >= 0);
    assert_int_equal(data_fetch_new(&w.f, fd, NULL), 0);
    assert_int_equal(pthread_create(&t, NULL, want, &w), 0);
    while (!atomic_load(&w.done))
        spin();
    pthread_join(t, NULL);
    data_fetch_free(w.f);
    close(fd);
    *err = w.err;
    return err->code;
}

static inline void read_whole(const char *dir, const char *name, struct pd_buf *b,
                              struct stat *st) {
    char path[PATH_MAX];
    struct pd_err err = {0};
    pd_buf_init(b);
    assert_int_equal(pd_fmt(path, sizeof path, "%s/%s", dir, name), 0);
    must(pd_read_file(path, 1 << 24, b, &err), &err);
    assert_int_equal(lstat(path, st), 0);
}

static inline void must_have_on(int i, const char *name) {
    char ws[PATH_MAX];
    struct pd_buf a, b;
    struct stat sa, sb;
    must(node_paths_join(node[i]->core.paths.dir, "workspace", ws, NULL), NULL);
    read_whole(src, name, &a, &sa);
    read_whole(ws, name, &b, &sb);
    assert_int_equal(a.len, b.len);
    if (a.len && memcmp(a.data, b.data, a.len))
        fail_msg("%s has other bytes", name);
    assert_int_equal(sa.st_mode, sb.st_mode);
    assert_int_equal(sa.st_mtim.tv_sec, sb.st_mtim.tv_sec);
    assert_int_equal(sa.st_mtim.tv_nsec, sb.st_mtim.tv_nsec);
    pd_buf_release(&a);
    pd_buf_release(&b);
}

static inline void must_have(const char *name) { must_have_on(0, name); }

static inline void lose(int i, const char *name) {
    char path[PATH_MAX];
    assert_int_equal(pd_fmt(path, sizeof path, "%s/workspace/%s", node[i]->core.paths.dir, name),
                     0);
    assert_int_equal(unlink(path), 0);
}

static inline void must_fetch(const char *name) {
    struct pd_err err;
    must(fetch(name, &err), &err);
    must_have(name);
}

/* --- tests --- */

static inline int set_up(int holders) {
    struct pd_err err = {0};
    n_holders = holders;
    pd_fmt(top, sizeof top, "/tmp/agent-data-XXXXXX");
    if (sodium_init() < 0 || !mkdtemp(top))
        return -1;
    snprintf(src, sizeof src, "%s/src", top);
    write_source();
    must(scan_new(&scan, src, SCAN_ALONE, &err), &err);
    must(scan_run(scan, &err), &err);
    for (int i = 0; i < NODES; i++)
        node[i] = make_agent(i);
    head_answers = 0;
    memset(n_asked, 0, sizeof n_asked);
    feeding = FEED_WELL;
    n_fed = n_fed_objects = 0;
    pd_err_clear(&client_said);
    open_client();
    return 0;
}

static inline int setup(void **state) { return (void)state, set_up(1); }
static inline int setup_two(void **state) { return (void)state, set_up(2); }
static inline int setup_none(void **state) { return (void)state, set_up(0); }

static inline int teardown(void **state) {
    (void)state;
    pd_fault_arm(NULL);
    close_client();
    for (int i = 0; i < NODES; i++) {
        file_fetch_close(node[i]->data);
        peer_link_close(node[i]->link);
    }
    for (int i = 0; i < NODES; i++) {
        struct made *m = node[i];
        while (uv_run(&m->core.loop, UV_RUN_NOWAIT))
            spin();
        file_fetch_free(m->data);
        clients_free(m->clients);
        roles_release(&m->spec.roles);
        kept_data_release(&m->kept);
        assert_int_equal(uv_loop_close(&m->core.loop), 0);
        free(m);
    }
    json_decref(lost_list);
    lost_list = NULL;
    scan_free(scan);
    return pd_rm_tree(top, NULL);
}

static const int on_one[N_NAMES][2] = {{1, -1}, {1, -1}, {1, 2}, {1, -1},
                                       {-1, 1}, {1, -1}, {1, -1}};
static const int on_both[N_NAMES][2] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 2}};
