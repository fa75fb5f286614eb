/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_claims.c - several paddlectls claim one job at once: job_owner.c against the agents'
 * client.c, with every message held until the test delivers it, on a clock of the test.
 *
 *     claimant ── asks ──▶ [held] ──▶ agent ── answers ──▶ [held] ──▶ job_pinged */
#include <setjmp.h>

#include <cmocka.h>

#include <sys/socket.h>

#include "agent/client/client.h"
#include "launcher/job/job_internal.h"
#include "launcher/link/link_internal.h"

enum {
    AGENTS = 3,
    CLAIMANTS = 3,
    LEASE_MS = 5000,
    HALF = LEASE_MS / 2,
    ORDERS = 1000,
    MS = 1000000
};

/* --- the clock, and what paddlectl prints --- */

static uint64_t now_ms;
static char printed[4000];

int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t) {
    (void)id;
    *t = (struct timespec){(time_t)(now_ms / 1000), (long)(now_ms % 1000 * MS)};
    return 0;
}

void __wrap_view_printf(struct view *v, const char *fmt, ...);
void __wrap_view_printf(struct view *v, const char *fmt, ...) {
    const size_t n = strlen(printed);
    va_list ap;
    (void)v;
    va_start(ap, fmt);
    vsnprintf(printed + n, sizeof printed - n, fmt, ap);
    va_end(ap);
}

/* --- agents, claimants, and the way between each two --- */

struct way {
    struct transport t;
    struct link link;
    struct pd_buf asks, answers; /* held */
    struct wire_decoder *dec;
    int fd;
    uint64_t ours_ms; /* when the last ping was sent that the agent answered as the claimant's */
};

struct claimant {
    struct job job;
    struct job_node nodes[AGENTS], *by_id[AGENTS];
    struct way way[AGENTS];
    int dead;
};

static struct agent {
    struct agent_core core;
    struct clients *all;
} agents[AGENTS];
static struct claimant *claimants[CLAIMANTS];
static int n_claimants;

static int on_ping(struct client *c, const struct wire_frame *f, const json_t *body,
                   struct pd_err *err) {
    struct ag_ping m;
    assert_int_equal(wire_get(&wire_ag_ping, &m, body, err), 0);
    client_show_token(c, m.owner, (int)m.claim, m.holder);
    return client_answer(c, f, client_lease(c, m.sent_ns), err);
}
static const struct client_request requests[] = {{WIRE_AG_PING, 0, 1, on_ping, NULL}, {0}};
static const struct client_service pings = {.name = "pings", .requests = requests};
static const struct client_use use = {&pings, NULL};

static void greet(struct client *c, void *arg) {
    (void)arg;
    client_send(c, WIRE_AG_HELLO, 0, json_object());
}
static void on_client_close(void *arg) { (void)arg; }

static int hold(struct transport *t, const void *p, size_t n) {
    pd_put(&((struct way *)t)->asks, p, n);
    return 0;
}

/* link.c breaks a link without memory. */
static void broken(struct transport *t) {
    (void)t;
    fail_msg("out of memory");
}

static void spin(int a) {
    for (int i = 0; i < 4; i++)
        uv_run(&agents[a].core.loop, UV_RUN_NOWAIT);
}

/* The agent receives the messages that the claimant has sent. */
static void deliver(int who, int a) {
    struct way *w = &claimants[who]->way[a];
    char part[4096];
    if (w->asks.len)
        assert_int_equal(send(w->fd, w->asks.data, w->asks.len, MSG_NOSIGNAL), w->asks.len);
    w->asks.len = 0;
    spin(a);
    for (ssize_t n; (n = read(w->fd, part, sizeof part)) > 0;)
        pd_put(&w->answers, part, (size_t)n);
}

/* The agent's answers reach the claimant. */
static void answer(int who, int a) {
    struct way *w = &claimants[who]->way[a];
    struct pd_err err = {0};
    assert_int_equal(wire_decoder_feed(w->dec, w->answers.data, w->answers.len, &err), 0);
    w->answers.len = 0;
    for (struct wire_frame *f; (f = wire_decoder_next(w->dec));) {
        json_t *body = NULL;
        assert_int_equal(msg_body(f, &body, &err), 0);
        if (f->type == WIRE_AG_PING) {
            if (json_is_true(json_object_get(body, "owner")))
                w->ours_ms = (uint64_t)json_integer_value(json_object_get(body, "sent_ns")) / MS;
            job_pinged(&claimants[who]->nodes[a], body);
        }
        json_decref(body);
        wire_frame_free(f);
    }
}

static void ping(int who) {
    for (int a = 0; a < AGENTS; a++)
        link_ping(&claimants[who]->way[a].link);
}

static void both(int who, int a) {
    deliver(who, a);
    answer(who, a);
}

/* All ask, and all hear. */
static void round_of(int n) {
    for (int who = 0; who < n_claimants; who++)
        if (!claimants[who]->dead)
            ping(who);
    for (int i = 0; i < n; i++)
        for (int who = 0; who < n_claimants; who++)
            for (int a = 0; a < AGENTS && !claimants[who]->dead; a++)
                both(who, a);
}

static void open_way(struct claimant *c, int a) {
    struct way *w = &c->way[a];
    struct pd_err err = {0};
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
    uv_pipe_t *p = malloc(sizeof *p);
    uv_pipe_init(&agents[a].core.loop, p, 0);
    assert_int_equal(uv_pipe_open(p, fd[0]), 0);
    assert_int_equal(client_open(agents[a].all, (uv_stream_t *)p, (uv_stream_t *)p, &err), 0);
    w->fd = fd[1];
    w->t.write = hold;
    w->t.close = broken;
    w->link.env = &c->job.c.env;
    w->link.phase = PHASE_OPEN;
    w->link.t = &w->t;
    pd_buf_init(&w->asks);
    pd_buf_init(&w->answers);
    assert_non_null(w->dec = wire_decoder_new(MSG_MAX_FRAME));
    c->nodes[a] = (struct job_node){.job = &c->job,
                                    .id = a,
                                    .place = a,
                                    .link = &w->link,
                                    .step = NODE_RUNNING,
                                    .lease_ms = LEASE_MS};
    c->by_id[a] = &c->nodes[a];
}

static struct claimant *new_claimant(int joined) {
    struct claimant *c = claimants[n_claimants++] = calloc(1, sizeof *c);
    struct job *j = &c->job;
    uv_loop_init(&j->c.loop);
    uv_timer_init(&j->c.loop, &j->take_over);
    uv_timer_init(&j->c.loop, &j->look);
    j->c.env.loop = &j->c.loop;
    j->look.data = j;
    j->nodes = c->nodes;
    j->by_id = c->by_id;
    j->n_hosts = j->n_nodes = AGENTS;
    j->phase = JOB_FOLLOW;
    j->joined = joined;
    job_owner_begin(j);
    snprintf(j->c.env.holder, sizeof j->c.env.holder, "host-%d (process 7)", n_claimants - 1);
    for (int a = 0; a < AGENTS; a++)
        open_way(c, a);
    return c;
}

/* A job whose first claimant, `paddlectl run`, keeps it; n others look on. */
static void begin(int n) {
    static const struct client_events ev = {greet, on_client_close};
    struct node_paths p = {.root = "/nowhere"};
    struct pd_err err = {0};
    now_ms = 1000000;
    n_claimants = 0;
    *printed = 0;
    for (int a = 0; a < AGENTS; a++) {
        assert_int_equal(agent_core_init(&agents[a].core, &p, AGENT_JOB, "build", &err), 0);
        assert_int_equal(clients_new(&agents[a].all, &agents[a].core, &ev, NULL, &err), 0);
        clients_serve(agents[a].all, &use, 1);
        clients_set_lease(agents[a].all, LEASE_MS);
    }
    const struct claimant *run = new_claimant(0);
    for (int a = 0; a < AGENTS; a++)
        clients_set_owner(agents[a].all, run->job.c.env.owner);
    while (n--)
        new_claimant(1);
    round_of(1);
}

static void end(void) {
    for (int who = 0; who < n_claimants; who++) {
        struct claimant *c = claimants[who];
        for (int a = 0; a < AGENTS; a++) {
            close(c->way[a].fd);
            wire_decoder_free(c->way[a].dec);
            pd_buf_release(&c->way[a].asks);
            pd_buf_release(&c->way[a].answers);
        }
        uv_close((uv_handle_t *)&c->job.take_over, NULL);
        uv_close((uv_handle_t *)&c->job.look, NULL);
        uv_run(&c->job.c.loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&c->job.c.loop), 0);
        free(c);
    }
    for (int a = 0; a < AGENTS; a++) {
        clients_close(agents[a].all, 1);
        spin(a);
        clients_free(agents[a].all);
        assert_int_equal(uv_loop_close(&agents[a].core.loop), 0);
    }
}

static int owns(int who) { return claimants[who]->job.owns && !claimants[who]->dead; }

/* An owner that was silent for half a lease may be owner no more without knowing it. */
static int is_sure(int who) {
    for (int a = 0; a < AGENTS; a++)
        if (now_ms - claimants[who]->way[a].ours_ms >= HALF)
            return 0;
    return owns(who);
}

static int n_owners(int (*is)(int who)) {
    int n = 0;
    for (int who = 0; who < n_claimants; who++)
        n += is(who);
    return n;
}

/* Silence of the owner, which the others notice: the next delivery carries the first claims. */
static void fall_silent(void) {
    claimants[0]->dead = 1;
    now_ms += HALF;
}

/* --- the tests --- */

/* Two claims cross on the way: each used to get a part of the nodes, and both looked on for ever,
 * while each renewed the lease of its part. */
static void crossed_claims_have_one_winner(void **state) {
    (void)state;
    begin(2);
    assert_int_equal(n_owners(is_sure), 1);
    fall_silent();
    round_of(1);
    deliver(1, 0);
    deliver(2, 2);
    deliver(2, 1);
    deliver(1, 1);
    deliver(1, 2);
    deliver(2, 0);
    for (int a = AGENTS; a-- > 0;) {
        answer(2, a);
        answer(1, a);
    }
    round_of(2);
    assert_true(owns(1));
    assert_false(owns(2));
    for (int i = 0; i < 12; i++) { /* and so it stays */
        now_ms += LEASE_MS / 5;
        round_of(1);
        assert_true(owns(1) && !owns(2));
    }
    assert_non_null(strstr(printed, "this one keeps it now"));
    assert_non_null(strstr(printed, "another paddlectl on host-1 (process 7) keeps the job now; "
                                    "this one looks on"));
    end();
}

/* The winner of the first node ends before it has the others: they are not lost. */
static void a_winner_that_ends_is_replaced(void **state) {
    (void)state;
    begin(2);
    fall_silent();
    round_of(1);
    deliver(1, 0);
    claimants[1]->dead = 1;
    round_of(2);
    assert_int_equal(n_owners(owns), 0);
    now_ms += HALF;
    round_of(3);
    assert_true(owns(2));
    end();
}

/* The owner comes back to the last node while another paddlectl has the first one. It gives the
 * last node back: both held a part, and each waited for the other's. */
static void an_owner_that_comes_back_gives_its_part_back(void **state) {
    (void)state;
    begin(1);
    ping(0); /* these wait in the network */
    fall_silent();
    round_of(1);
    deliver(1, 0);
    deliver(0, AGENTS - 1);
    claimants[0]->dead = 0;
    for (int i = 0; i < 6; i++) {
        round_of(2);
        now_ms += LEASE_MS / 5;
    }
    assert_true(owns(1) && !owns(0));
    assert_non_null(strstr(printed, "another paddlectl on host-1 (process 7) keeps the job now"));
    end();
}

/* --- all orders --- */

static uint64_t rng;
static unsigned below(unsigned n) { /* xorshift64* */
    rng ^= rng >> 12;
    rng ^= rng << 25;
    rng ^= rng >> 27;
    return (unsigned)(rng * UINT64_C(0x2545f4914f6cdd1d) >> 33) % n;
}

/* Some messages are delivered, some wait. `slow`: of 100 messages that could be. */
static void some(unsigned slow) {
    for (int i = 0; i < 2 * CLAIMANTS * AGENTS; i++) {
        const int who = (int)below((unsigned)n_claimants), a = (int)below(AGENTS);
        if (claimants[who]->dead || below(100) < slow)
            continue;
        if (below(2))
            deliver(who, a);
        else
            answer(who, a);
    }
}

static void run_order(uint64_t seed) {
    const int returns = seed % 3 == 0;
    rng = seed * UINT64_C(0x9e3779b97f4a7c15);
    begin(CLAIMANTS - 1);
    claimants[0]->dead = 1;
    for (int t = 0; t < 3 * LEASE_MS; t += 50) {
        now_ms += 50;
        for (int who = 0; who < n_claimants; who++)
            if (!claimants[who]->dead && (t + 170 * who) % (LEASE_MS / 5) < 50)
                ping(who);
        some(t < 2 * LEASE_MS ? 30 + below(60) : 0);
        if (returns && t == LEASE_MS / 100 * 50 + 50 * (int)below(20))
            claimants[0]->dead = 0;
        if (n_owners(is_sure) > 1)
            fail_msg("seed %llu: two paddlectls keep the job", (unsigned long long)seed);
    }
    if (n_owners(owns) != 1 || n_owners(is_sure) != 1)
        fail_msg("seed %llu: %d paddlectls keep the job", (unsigned long long)seed, n_owners(owns));
    end();
}

static void every_order_has_one_winner(void **state) {
    const char *many = getenv("SIM_SCHEDULES");
    const uint64_t n = many ? strtoull(many, NULL, 10) : ORDERS;
    (void)state;
    for (uint64_t seed = 1; seed <= n; seed++)
        run_order(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crossed_claims_have_one_winner),
        cmocka_unit_test(a_winner_that_ends_is_replaced),
        cmocka_unit_test(an_owner_that_comes_back_gives_its_part_back),
        cmocka_unit_test(every_order_has_one_winner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
