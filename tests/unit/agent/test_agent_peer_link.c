/* SPDX-License-Identifier: Apache-2.0 */
/* test_agent_peer_link.c - TCP between agents, without a job: node 0 and members on one loop, with
 * recorded events. Joining, messages both ways, connections that break or are replaced, strangers.
 */
#include <setjmp.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <sodium.h>
#include <sys/socket.h>

#include "agent/core/msg.h"
#include "agent/peer_link.h"
#include "agent/report/probe.h"
#include "wire/msg.h"

enum { N_NODES = 3, SELVES = 4 };

/* An agent. agents[0] is node 0; agents[3] claims to be node 1, too. */
struct agent {
    struct peer_id self;
    struct peer_link *link;
    int port, n_joins[N_NODES], n_lost[N_NODES], n_joined, n_messages, n_takers, n_votes;
    uint64_t alive_ms[N_NODES];
    int from; /* the sender of the last message */
    uint16_t type;
    uint64_t req;
    char word[32], bytes[32];
    struct pd_err refused;
};

static struct agent_core core;
static struct agent agents[SELVES];
static json_t *head_at;

static int n_voters;      /* of the next open_agent */
static int from_port;     /* of the next open_agent; 0: any */
static int reports_early; /* node 1 has a report when node 0 has its HD_JOIN, and not the answer */

static void on_join(void *arg, int node, const json_t *join) {
    struct agent *a = arg;
    a->n_joins[node]++;
    snprintf(a->word, sizeof a->word, "%s", msg_str(join, "word"));
    if (reports_early)
        peer_link_send(agents[1].link, PEER_HEAD, WIRE_HD_EXITED, 0,
                       json_pack("{s:s}", "word", "exit"));
}

static void on_lost(void *arg, int node) { ((struct agent *)arg)->n_lost[node]++; }
static void on_joined(void *arg) { ((struct agent *)arg)->n_joined++; }

static void on_message(void *arg, int node, const struct wire_frame *f, const json_t *body,
                       const struct pd_err *refused) {
    struct agent *a = arg;
    a->n_messages++;
    a->from = node;
    a->type = f->type;
    a->req = f->req;
    pd_err_clear(&a->refused);
    if (refused)
        a->refused = *refused;
    snprintf(a->word, sizeof a->word, "%s", msg_str(body, "word"));
    snprintf(a->bytes, sizeof a->bytes, "%.*s", f->n_sec > 1 ? (int)f->len[1] : 0,
             f->n_sec > 1 ? (const char *)f->sec[1] : "");
}

static json_t *join_body(void *arg) {
    (void)arg;
    return json_pack("{s:s}", "word", "hello");
}

static void on_alive(void *arg, int node, uint64_t sent_ms) {
    ((struct agent *)arg)->alive_ms[node] = sent_ms;
}

static void on_vote(void *arg, struct net_conn *c, const struct wire_frame *f) {
    struct agent *a = arg;
    a->n_votes++;
    a->from = (int)net_peer(c)->id;
    a->type = f->type;
}

static void on_taker_frame(void *arg, struct net_conn *c, struct wire_frame *f) {
    (void)c;
    ((struct agent *)arg)->n_takers++;
    wire_frame_free(f);
}

static void on_taker_gone(void *arg, struct net_conn *c) { (void)arg, (void)c; }

static void spin(void) {
    uv_run(&core.loop, UV_RUN_NOWAIT);
    nanosleep(&(struct timespec){0, 500000}, NULL);
}

/* Runs the loop until the condition holds, or for 10 s. */
#define UNTIL(what)                                  \
    do {                                             \
        uint64_t end_ = pd_mono_ns() + 10000000000u; \
        while (!(what) && pd_mono_ns() < end_) {     \
            for (int i_ = 0; i_ < SELVES; i_++)      \
                if (agents[i_].link)                 \
                    peer_link_tick(agents[i_].link); \
            spin();                                  \
        }                                            \
        if (!(what))                                 \
            fail_msg("%s", #what);                   \
    } while (0)

static void pause_ms(unsigned ms) {
    for (uint64_t end = pd_mono_ns() + ms * UINT64_C(1000000); pd_mono_ns() < end; spin())
        for (int i = 0; i < SELVES; i++)
            if (agents[i].link)
                peer_link_tick(agents[i].link);
}

static void open_agent(struct agent *a, int node, int takers) {
    static const struct peer_events ev = {on_join,   on_lost,        on_message,
                                          join_body, on_joined,      on_alive,
                                          on_vote,   on_taker_frame, on_taker_gone};
    struct peer_link_opts o = {.core = &core,
                               .self = &a->self,
                               .n_nodes = N_NODES,
                               .from_port = from_port,
                               .takers = takers,
                               .n_voters = n_voters,
                               .lease_ms = 60000,
                               .events = &ev,
                               .arg = a};
    struct pd_err err = {0};
    a->self = (struct peer_id){.job = "J", .node = node, .incarnation = (uint64_t)node + 1};
    assert_int_equal(peer_link_new(&a->link, &o, &a->port, &err), 0);
}

static int setup(void **state) {
    struct node_paths p = {.job = "J"};
    (void)state;
    memset(agents, 0, sizeof agents);
    if (sodium_init() < 0 || agent_core_init(&core, &p, AGENT_JOB, "build", NULL))
        return -1;
    open_agent(&agents[0], 0, 0);
    head_at = json_pack("{s:[s], s:i}", "addrs", "127.0.0.1", "port", agents[0].port);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (int i = 0; i < SELVES; i++)
        peer_link_close(agents[i].link);
    uv_run(&core.loop, UV_RUN_DEFAULT);
    for (int i = 0; i < SELVES; i++)
        assert_null(agents[i].link); /* the link has freed itself */
    json_decref(head_at);
    return uv_loop_close(&core.loop);
}

static struct agent *member(int i, int node) {
    open_agent(&agents[i], node, 0);
    peer_link_join(agents[i].link, 0, head_at);
    UNTIL(agents[i].n_joined == 1);
    return &agents[i];
}

static void messages_go_both_ways(void **state) {
    struct agent *head = &agents[0], *m = member(1, 1);
    const struct pd_err e = {.code = PD_EHOST, .msg = "it has no such port"};
    (void)state;
    assert_int_equal(head->n_joins[1], 1);
    assert_string_equal(head->word, "hello");
    assert_true(peer_link_is_joined(m->link) && !peer_link_silent_ms(head->link));
    peer_link_send(m->link, PEER_HEAD, WIRE_HD_READY, 0, json_pack("{s:s}", "word", "up"));
    UNTIL(head->n_messages == 1);
    assert_int_equal(head->from, 1);
    assert_int_equal(head->type, WIRE_HD_READY);
    assert_string_equal(head->word, "up");
    peer_link_send_with(head->link, 1, WIRE_HD_FILE, 9, json_pack("{s:s}", "word", "down"), "bytes",
                        5);
    UNTIL(m->n_messages == 1);
    assert_int_equal(m->from, PEER_HEAD);
    assert_int_equal(m->req, 9);
    assert_string_equal(m->word, "down");
    assert_string_equal(m->bytes, "bytes");
    peer_link_refuse(m->link, PEER_HEAD, WIRE_HD_BIND, 10, &e);
    UNTIL(head->n_messages == 2);
    assert_int_equal(head->refused.code, PD_EHOST);
    assert_int_equal(head->req, 10);
    peer_link_send(head->link, 2, WIRE_HD_STOP, 0,
                   json_object()); /* a node that has not joined gets no message */
    peer_link_replay(head->link);
    assert_int_equal(head->n_joins[1], 2);
    assert_int_equal(head->n_joins[2], 0);
}

static void a_broken_connection_is_made_again(void **state) {
    struct agent *head = &agents[0], *m = member(1, 1);
    (void)state;
    peer_link_cut(m->link);
    UNTIL(head->n_lost[1] == 1 && head->n_joins[1] == 2 && m->n_joined == 2);
    peer_link_rest(m->link); /* the member's job is over */
    peer_link_cut(m->link);
    UNTIL(head->n_lost[1] == 2);
    pause_ms(300);
    assert_int_equal(head->n_joins[1], 2);
    assert_false(peer_link_is_joined(m->link));
}

/* HD_JOIN does not have what happens after it was sent, and no later message would. */
static void a_report_follows_the_join(void **state) {
    struct agent *head = &agents[0];
    (void)state;
    reports_early = 1;
    member(1, 1);
    reports_early = 0;
    UNTIL(head->n_messages == 1);
    assert_int_equal(head->type, WIRE_HD_EXITED);
    assert_string_equal(head->word, "exit");
}

static void a_second_connection_takes_the_place_of_the_first(void **state) {
    struct agent *head = &agents[0], *first = member(1, 1), *second = member(3, 1);
    (void)state;
    assert_int_equal(head->n_joins[1], 2);
    assert_int_equal(head->n_lost[1], 1);
    peer_link_rest(first->link);
    UNTIL(!peer_link_is_joined(first->link));
    peer_link_send(head->link, 1, WIRE_HD_STOP, 0, json_object());
    UNTIL(second->n_messages == 1);
    assert_int_equal(first->n_messages, 0);
}

/* A member has one head at a time: what the earlier one still sends does not reach it. */
static void another_node_is_the_head(void **state) {
    struct agent *old = &agents[0], *head = member(1, 1), *m = member(2, 2);
    json_t *at = json_pack("{s:[s], s:i}", "addrs", "127.0.0.1", "port", head->port);
    (void)state;
    assert_int_equal(peer_link_lead(head->link), 0);
    peer_link_join(m->link, 1, at);
    assert_false(peer_link_is_joined(m->link));
    peer_link_send(old->link, 2, WIRE_HD_STOP, 0, json_object());
    UNTIL(head->n_joins[2] == 1 && m->n_joined == 2 && old->n_lost[1] && old->n_lost[2]);
    assert_int_equal(m->n_messages, 0);
    assert_int_equal(peer_link_silent_ms(head->link), 0);
    peer_link_send(head->link, 2, WIRE_HD_STOP, 0, json_object());
    peer_link_send(m->link, PEER_HEAD, WIRE_HD_READY, 0, json_pack("{s:s}", "word", "up"));
    UNTIL(m->n_messages == 1 && head->n_messages == 1);
    assert_int_equal(m->from, PEER_HEAD);
    assert_int_equal(head->from, 2);
    peer_link_cut(m->link); /* it comes back to the new head */
    UNTIL(head->n_joins[2] == 2);
    assert_int_equal(old->n_joins[2], 1);
    peer_link_close(m->link);
    UNTIL(!m->link);
    json_decref(at);
}

/* --- strangers: connections that the test itself makes --- */

static int stranger_open, stranger_closed;

static void on_stranger_open(struct net_conn *c, void *arg) {
    (void)arg;
    stranger_open = 1;
    const struct net_sec sec = {"[]", 2};
    net_send(c, WIRE_HD_READY, 0, 1, &sec, 1, NULL, NULL);
}

static void on_stranger_frame(struct net_conn *c, struct wire_frame *f, void *arg) {
    (void)c, (void)arg;
    wire_frame_free(f);
}

static void on_stranger_close(struct net_conn *c, const struct pd_err *why, void *arg) {
    (void)c, (void)why, (void)arg;
    stranger_closed = 1;
}

static void strangers_are_turned_away(void **state) {
    static const struct net_events ev = {on_stranger_open, on_stranger_frame, NULL,
                                         on_stranger_close};
    static const struct {
        uint16_t role;
        uint32_t id;
        int other_key, opens;
    } rows[] = {
        {WIRE_ROLE_AGENT, 1, 0, 1}, /* a node whose body is no JSON object */
        {WIRE_ROLE_AGENT, 1, 1, 0},   {WIRE_ROLE_AGENT, N_NODES, 0, 1}, {WIRE_ROLE_AGENT, 0, 0, 1},
        {WIRE_ROLE_TRAINER, 1, 0, 1}, {WIRE_ROLE_TAKER, 1, 0, 1},       {WIRE_ROLE_VOTE, 1, 0, 1},
    };
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire_hs_opts hs;
        struct net_conn *c;
        peer_id_put(&agents[0].self, rows[i].role, &hs);
        hs.self.id = rows[i].id;
        hs.key[0] ^= (uint8_t)rows[i].other_key;
        stranger_open = stranger_closed = 0;
        assert_int_equal(net_connect(&c, &core.loop, "127.0.0.1", agents[0].port, 3000, &hs, &opts,
                                     &ev, NULL, NULL),
                         0);
        UNTIL(stranger_closed);
        if (stranger_open != rows[i].opens)
            fail_msg("row %zu", i);
    }
    assert_int_equal(
        agents[0].n_messages + agents[0].n_joins[1] + agents[0].n_takers + agents[0].n_votes, 0);
}

/* A candidate needs the job's key, and the id of another node. */
static void votes_are_asked_by_nodes(void **state) {
    static const struct net_events ev = {on_stranger_open, on_stranger_frame, NULL,
                                         on_stranger_close};
    static const struct {
        uint32_t id;
        int other_key, n_votes;
    } rows[] = {{1, 1, 0}, {N_NODES, 0, 0}, {2, 0, 0}, {UINT32_MAX, 0, 0}, {1, 0, 1}};
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME};
    (void)state;
    n_voters = N_NODES;
    open_agent(&agents[2], 2, 0);
    n_voters = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire_hs_opts hs;
        struct net_conn *c;
        peer_id_put(&agents[0].self, WIRE_ROLE_VOTE, &hs);
        hs.self.id = rows[i].id;
        hs.key[0] ^= (uint8_t)rows[i].other_key;
        stranger_open = stranger_closed = 0;
        assert_int_equal(net_connect(&c, &core.loop, "127.0.0.1", agents[2].port, 3000, &hs, &opts,
                                     &ev, NULL, NULL),
                         0);
        UNTIL(rows[i].n_votes ? agents[2].n_votes : stranger_closed);
        assert_int_equal(agents[2].n_votes, rows[i].n_votes);
        if (rows[i].n_votes)
            net_close(c);
        UNTIL(stranger_closed);
    }
    assert_int_equal(agents[2].from, 1);
}

/* The head knows when it sent the ping that a voter has answered. */
static void voters_answer_pings(void **state) {
    struct agent *head = &agents[0];
    (void)state;
    peer_link_close(head->link);
    UNTIL(!head->link);
    n_voters = N_NODES;
    open_agent(head, 0, 0);
    json_object_set_new(head_at, "port", json_integer(head->port));
    const uint64_t began = pd_mono_ns() / 1000000u;
    member(1, 1);
    n_voters = 0;
    UNTIL(head->alive_ms[1]);
    const uint64_t joined = head->alive_ms[1]; /* it has heard the head since the connection */
    UNTIL(head->alive_ms[1] > joined);
    assert_true(joined >= began && head->alive_ms[1] <= pd_mono_ns() / 1000000u);
    assert_true(peer_link_has(head->link, 1));
    assert_false(peer_link_has(head->link, 2));
    peer_link_part(agents[1].link);
    UNTIL(head->n_lost[1] == 1);
    const uint64_t last = head->alive_ms[1];
    pause_ms(1500);
    assert_int_equal(head->alive_ms[1], last);
    assert_int_equal(head->n_joins[1], 1);
}

static void takers_are_the_owners(void **state) {
    static const struct net_events ev = {on_stranger_open, on_stranger_frame, NULL,
                                         on_stranger_close};
    const struct net_opts opts = {.max_frame = MSG_MAX_FRAME};
    struct wire_hs_opts hs;
    struct net_conn *c;
    (void)state;
    open_agent(&agents[2], 2, 1);
    peer_id_put(&agents[0].self, WIRE_ROLE_TAKER, &hs);
    assert_int_equal(
        net_connect(&c, &core.loop, "127.0.0.1", agents[2].port, 3000, &hs, &opts, &ev, NULL, NULL),
        0);
    UNTIL(agents[2].n_takers == 1);
    net_close(c);
    UNTIL(stranger_closed);
}

/* --- probes --- */

static int probed; /* the number of answers of probe_node */
static char best[200];

static void on_probed(void *arg, const struct probe_result *v, size_t n) {
    const struct probe_result *ok = probe_best(v, n);
    (void)arg;
    probed++;
    snprintf(best, sizeof best, "%s", ok ? ok->addr : v[0].why);
}

/* A listener on a free port of 127.0.0.1. */
static int listen_raw(int *port) {
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    *port = ntohs(sa.sin_port);
    return fd;
}

static void reset(int fd) {
    const struct linger hard = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
}

static void a_probe_that_is_reset_is_tried_again(void **state) {
    struct wire_hs_opts hs;
    int port, conn = -1, fd = listen_raw(&port);
    json_t *addrs = json_pack("[s]", "127.0.0.1");
    const struct probe_target target = {.addrs = addrs, .max = 4, .port = port, .node = 2};
    (void)state;
    probed = 0;
    peer_id_put(&agents[0].self, WIRE_ROLE_PROBE, &hs);
    assert_int_equal(probe_node(&core, &hs, &target, on_probed, NULL, NULL), 0);
    UNTIL(conn >= 0 || (conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0);
    close(fd);
    reset(conn);
    from_port = port;
    open_agent(&agents[2], 2, 0);
    from_port = 0;
    assert_int_equal(agents[2].port, port);
    UNTIL(probed == 1);
    assert_string_equal(best, "127.0.0.1");
    json_decref(addrs);
}

static void a_probe_without_an_answer_ends(void **state) {
    struct wire_hs_opts hs;
    int port, fd = listen_raw(&port);
    json_t *addrs = json_pack("[s]", "127.0.0.1");
    const struct probe_target target = {.addrs = addrs, .max = 4, .port = port, .node = 2};
    (void)state;
    close(fd);
    probed = 0;
    peer_id_put(&agents[0].self, WIRE_ROLE_PROBE, &hs);
    const uint64_t began = pd_mono_ns();
    assert_int_equal(probe_node(&core, &hs, &target, on_probed, NULL, NULL), 0);
    UNTIL(probed == 1);
    assert_true(pd_mono_ns() - began >= PROBE_MS * UINT64_C(1000000));
    assert_non_null(strstr(best, "127.0.0.1"));
    json_decref(addrs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_go_both_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(a_broken_connection_is_made_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_report_follows_the_join, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_connection_takes_the_place_of_the_first, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(another_node_is_the_head, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_are_turned_away, setup, teardown),
        cmocka_unit_test_setup_teardown(takers_are_the_owners, setup, teardown),
        cmocka_unit_test_setup_teardown(votes_are_asked_by_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(voters_answer_pings, setup, teardown),
        cmocka_unit_test_setup_teardown(a_probe_that_is_reset_is_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_probe_without_an_answer_ends, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
