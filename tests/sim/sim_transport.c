/* SPDX-License-Identifier: Apache-2.0 */
/* sim_transport.c - paddlectl's stream to a node (launcher/transport/transport.h): the login, the
 * start of an agent, and the relay to it. */

#include "tests/sim/sim_net.h"
#include "wire/msg.h"

enum { SSH_CONNECT_MS = 10000 };

static int t_write(struct transport *x, const void *p, size_t n) {
    struct sim_transport *t = (struct sim_transport *)x;
    if (!t->closing && !t->s->end[0].shut && !t->a->dead)
        sim_put(&t->s->way[1], BYTES, p, n);
    return 0;
}
static void t_eof(struct transport *x) { (void)x; }
static void t_close(struct transport *x) {
    struct sim_transport *t = (struct sim_transport *)x;
    if (t->closing)
        return;
    sim_close_transport(t, 0, "");
    sim_shut(t->s, 0, t->a->dead);
}

static void on_join(void *arg) { /* the relay reaches the agent's socket */
    struct sim_stream *s = arg;
    struct machine *m = &S.m[s->end[1].machine];
    if (s->end[0].shut || !m->sock || !m->agent) {
        s->end[1].a = NULL;
        sim_put(&s->way[0], RST, NULL, 0);
        return;
    }
    m->incoming = s;
    m->on_connection(m->sock, 0);
}

/* The node has no agent of the job: its relay answers for a job that is over, or with an error. */
static void no_agent(struct sim_stream *s);

static void on_login(void *arg) {
    struct sim_stream *s = arg;
    const int from = s->end[0].machine, to = s->end[1].machine;
    struct machine *m = &S.m[to];
    if (!s->end[0].t || s->end[0].shut)
        return;
    if (!sim_reaches(from, to) || !sim_reaches(to, from)) {
        if (S.now >= s->deadline)
            sim_close_transport(s->end[0].t, PD_EHOST, "connecting timed out");
        else
            sim_after(NULL, 500 * MS, on_login, s);
        return;
    }
    sim_put(&s->way[0], OPENED, NULL, 0);
    const int spawns = s->start && !m->agent && !m->has_dir;
    if (spawns)
        sim_spawn_agent(to, s->job, s->lease_ms);
    if (m->agent && (m->sock || spawns)) {
        s->end[1].a = m->agent;
        sim_after(m->agent, sim_below(20 * MS), on_join, s);
    } else {
        no_agent(s);
    }
}

int __wrap_transport_local(struct transport **out, uv_loop_t *loop, char *const *argv,
                           const struct transport_events *ev, void *arg, struct pd_err *err);
int __wrap_transport_local(struct transport **out, uv_loop_t *loop, char *const *argv,
                           const struct transport_events *ev, void *arg, struct pd_err *err) {
    struct sim_transport *t = calloc(1, sizeof *t);
    const struct actor *own = loop->data;
    const int from = own->machine;
    int node = 0;
    struct sim_stream *s = NULL;
    (void)err;
    for (char *const *a = argv; *a; a++) {
        if (sscanf(*a, "--root=/sim/%d", &node) == 1)
            s = sim_new_stream(from, node);
        if (s) {
            sscanf(*a, "--job=%63s", s->job);
            sscanf(*a, "--lease=%u", &s->lease_ms);
            s->start |= !strcmp(*a, "--start");
        }
    }
    transport_init(&t->t, ev, arg);
    t->t.write = t_write;
    t->t.eof = t_eof;
    t->t.close = t_close;
    t->s = s;
    t->a = loop->data;
    s->end[0].a = t->a;
    s->end[0].t = t;
    s->deadline = S.now + SSH_CONNECT_MS * MS;
    sim_alive(t->a, 1);
    sim_after(NULL, sim_travel(from, node) * 3 + sim_below(60 * MS), on_login, s);
    *out = &t->t;
    return 0;
}

void sim_run_over(int machine, const char *job); /* sim_host.c */
static void on_over(void *arg) {
    struct sim_stream *s = arg;
    S.m[s->end[1].machine].incoming = s;
    sim_run_over(s->end[1].machine, s->job);
}

static void no_agent(struct sim_stream *s) {
    const int to = s->end[1].machine;
    if (S.m[to].has_dir) {
        s->end[1].a = sim_actor(to, "relay");
        sim_after(s->end[1].a, 0, on_over, s);
        return;
    }
    struct pd_err e = {0};
    struct pd_buf b;
    uint8_t head[WIRE_HEADER];
    static const uint8_t zero[WIRE_ALIGN];
    pd_fail(&e, PD_ENOENT, "there is no job %s", s->job);
    pd_buf_init(&b);
    wire_error_put(&b, &e);
    size_t len[WIRE_SECTIONS] = {b.len};
    wire_header(head, WIRE_AG_HELLO, WIRE_F_ERROR, 0, 1, len);
    sim_put(&s->way[0], BYTES, head, sizeof head);
    sim_put(&s->way[0], BYTES, b.data, b.len);
    sim_put(&s->way[0], BYTES, zero, wire_pad(b.len));
    sim_put(&s->way[0], FIN, NULL, 0);
    pd_buf_release(&b);
}
