/* SPDX-License-Identifier: Apache-2.0 */
/* sim_loop.c - the clock, the queue of events, and what the product uses of libuv. An event belongs
 * to an actor; events of a stopped actor wait. Events at one time come in the order in which they
 * were made. */

#include "tests/sim/sim.h"

struct sim S;

/* --- chance --- */

uint64_t sim_rand(void) { /* splitmix64 */
    uint64_t z = (S.rng += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
uint64_t sim_below(uint64_t n) { return n ? sim_rand() % n : 0; }
uint64_t sim_between(uint64_t lo, uint64_t hi) { return lo + sim_below(hi - lo + 1); }
int sim_chance(int percent) { return (int)sim_below(100) < percent; }

void __wrap_randombytes_buf(void *p, size_t n);
void __wrap_randombytes_buf(void *p, size_t n) {
    for (uint8_t *b = p; n--;)
        *b++ = (uint8_t)sim_rand();
}
uint32_t __wrap_randombytes_uniform(uint32_t n);
uint32_t __wrap_randombytes_uniform(uint32_t n) { return (uint32_t)sim_below(n); }

/* --- the clock --- */

enum { EPOCH_S = 1800000000 };

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t) {
    uint64_t ns = S.now;
    if (id == CLOCK_REALTIME)
        ns += (uint64_t)((int64_t)EPOCH_S * 1000000000 +
                         (S.here ? S.m[S.here->machine].clock_us * 1000 : 0));
    *t = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    return 0;
}
time_t __wrap_time(time_t *t);
time_t __wrap_time(time_t *t) {
    (void)t;
    return EPOCH_S + (time_t)(S.now / 1000000000);
}

/* --- failures and the trace --- */

void sim_trace(const char *fmt, ...) {
    va_list ap;
    if (!S.trace)
        return;
    fprintf(stderr, "%10.4f %-9s ", (double)S.now / 1e9, S.here ? S.here->name : "-");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void sim_fail(const char *fmt, ...) {
    va_list ap;
    fflush(stdout);
    fprintf(stderr, "seed %llu, at %.3f s: ", (unsigned long long)S.seed, (double)S.now / 1e9);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n  it happens again with: %s --seed=%llu --trace\n",
            program_invocation_short_name, (unsigned long long)S.seed);
    _exit(1);
}

/* --- events --- */

struct event {
    uint64_t at, seq;
    struct actor *a;
    void (*fn)(void *arg);
    void *arg;
    int owns; /* the queue frees arg */
};

static struct {
    struct event *v; /* a heap: the earliest first */
    size_t n, cap;
    uint64_t seq;
} Q;

static int before(const struct event *x, const struct event *y) {
    return x->at != y->at ? x->at < y->at : x->seq < y->seq;
}

static void push(struct event e) {
    size_t i = Q.n++;
    if (Q.n > Q.cap) {
        Q.cap = Q.cap ? 2 * Q.cap : 1024;
        Q.v = realloc(Q.v, Q.cap * sizeof *Q.v);
    }
    for (; i && before(&e, &Q.v[(i - 1) / 2]); i = (i - 1) / 2)
        Q.v[i] = Q.v[(i - 1) / 2];
    Q.v[i] = e;
}

static struct event pop(void) {
    const struct event top = Q.v[0], last = Q.v[--Q.n];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < Q.n; i = c) {
        if (c + 1 < Q.n && before(&Q.v[c + 1], &Q.v[c]))
            c++;
        if (!before(&Q.v[c], &last))
            break;
        Q.v[i] = Q.v[c];
    }
    if (Q.n)
        Q.v[i] = last;
    return top;
}

void sim_after(struct actor *a, uint64_t delay_ns, void (*fn)(void *arg), void *arg) {
    push((struct event){S.now + delay_ns, ++Q.seq, a, fn, arg, 0});
}

void sim_after_once(struct actor *a, uint64_t delay_ns, void (*fn)(void *arg), void *arg) {
    push((struct event){S.now + delay_ns, ++Q.seq, a, fn, arg, 1});
}

int sim_step(void) {
    enum { LONGEST_S = 4000 };
    if (!Q.n)
        return 0;
    struct event e = pop();
    if (e.a && !e.a->dead && e.a->stopped > e.at) {
        e.at = e.a->stopped; /* the order of its events stays */
        push(e);
        return 1;
    }
    S.now = e.at > S.now ? e.at : S.now;
    if (S.now > LONGEST_S * 1000 * MS)
        for (struct actor *a = S.actors; a; a = a->next)
            if (a->alive)
                sim_fail("%s has not ended", a->name);
    S.here = e.a;
    e.fn(e.arg);
    if (e.owns)
        free(e.arg);
    S.here = NULL;
    return 1;
}

/* --- actors and loops --- */

struct actor *sim_actor(int machine, const char *name) {
    struct actor *a = calloc(1, sizeof *a);
    *a = (struct actor){.machine = machine, .name = name, .next = S.actors};
    return S.actors = a;
}

void sim_alive(struct actor *a, int change) {
    a->alive += change;
    if (!a->alive) {
        a->ended = S.now;
        sim_trace("the loop of %s ends", a->name);
        if (a == S.launcher && !S.launcher_ended)
            S.launcher_ended = S.now;
        if (a == S.m[a->machine].agent)
            S.m[a->machine].agent = NULL;
    } else if (change > 0) {
        a->ended = 0;
    }
}

int __wrap_uv_loop_init(uv_loop_t *l);
int __wrap_uv_loop_init(uv_loop_t *l) {
    memset(l, 0, sizeof *l);
    l->data = S.here;
    S.here->loop = l;
    return 0;
}
int __wrap_uv_loop_close(uv_loop_t *l);
int __wrap_uv_loop_close(uv_loop_t *l) {
    const struct actor *a = l->data;
    return a->alive ? UV_EBUSY : 0;
}

/* Loops are nested: a loop that ends while another one runs above it returns after that one. No
 * event of it can come any more. */
int __wrap_uv_run(uv_loop_t *l, uv_run_mode mode);
int __wrap_uv_run(uv_loop_t *l, uv_run_mode mode) {
    struct actor *a = l->data;
    (void)mode;
    while (a->alive)
        if (!sim_step()) {
            sim_trace_handles(a);
            sim_fail("%s waits, and nothing will come", a->name);
        }
    S.here = a;
    return 0;
}

uint64_t __wrap_uv_now(const uv_loop_t *l);
uint64_t __wrap_uv_now(const uv_loop_t *l) {
    (void)l;
    return S.now / MS;
}
void __wrap_uv_update_time(uv_loop_t *l);
void __wrap_uv_update_time(uv_loop_t *l) { (void)l; }

/* --- handles --- */

struct handle {
    uv_handle_t *h; /* NULL: closed */
    struct actor *a;
    int active, ref, closing, waiting; /* waiting: events that name this handle */
    uint64_t turn, due, repeat;        /* of a timer; an event of an older turn is void */
    uv_signal_cb on_signal;
    int signum;
    void (*on_async)(uv_async_t *h);
    struct handle *next;
};
static struct handle *handles;

static struct handle *of(const void *h) { return ((const uv_handle_t *)h)->u.reserved[3]; }
static int counts(const struct handle *x) { return (x->active && x->ref) || x->closing; }

static void *open_handle(uv_loop_t *l, void *h, uv_handle_type type, int active) {
    struct handle *x = calloc(1, sizeof *x);
    uv_handle_t *u = h;
    *x = (struct handle){.h = h, .a = l->data, .active = active, .ref = 1, .next = handles};
    handles = x;
    u->loop = l;
    u->type = type;
    u->close_cb = NULL;
    u->u.reserved[3] = x;
    if (active)
        sim_alive(x->a, 1);
    return x;
}

static void change(struct handle *x, int active, int ref, int closing) {
    const int was = counts(x);
    x->active = active;
    x->ref = ref;
    x->closing = closing;
    if (counts(x) != was)
        sim_alive(x->a, counts(x) - was);
}

static void on_close(void *arg) {
    struct handle *x = arg;
    uv_handle_t *h = x->h;
    x->h = NULL;
    if (h->close_cb)
        h->close_cb(h);
    change(x, 0, 0, 0);
}

void __wrap_uv_close(uv_handle_t *h, uv_close_cb cb);
void __wrap_uv_close(uv_handle_t *h, uv_close_cb cb) {
    struct handle *x = of(h);
    h->close_cb = cb;
    if ((uv_stream_t *)h == S.m[x->a->machine].sock)
        S.m[x->a->machine].sock = NULL;
    x->turn++;
    change(x, 0, x->ref, 1);
    sim_after(x->a, 0, on_close, x);
}
int __wrap_uv_is_active(const uv_handle_t *h);
int __wrap_uv_is_active(const uv_handle_t *h) { return of(h)->active; }
void __wrap_uv_unref(uv_handle_t *h);
void __wrap_uv_unref(uv_handle_t *h) { change(of(h), of(h)->active, 0, of(h)->closing); }

void sim_trace_handles(const struct actor *a) {
    for (const struct handle *x = handles; x; x = x->next)
        if (x->a == a && counts(x))
            sim_trace("%s waits for a handle of type %d (signal %d)", a->name,
                      x->h ? (int)x->h->type : -1, x->signum);
}

/* --- timers --- */

struct alarm {
    struct handle *x;
    uint64_t turn;
};

static void arm(struct handle *x, uint64_t ms);
static void on_alarm(void *arg) {
    const struct alarm a = *(struct alarm *)arg;
    struct handle *x = a.x;
    if (!x->h || x->turn != a.turn)
        return;
    uv_timer_t *t = (uv_timer_t *)x->h;
    if (x->repeat)
        arm(x, x->repeat);
    else
        change(x, 0, x->ref, 0);
    t->timer_cb(t);
}

/* libuv counts in whole milliseconds. */
static void arm(struct handle *x, uint64_t ms) {
    struct alarm *a = malloc(sizeof *a);
    *a = (struct alarm){x, ++x->turn};
    x->due = (S.now / MS + ms) * MS;
    sim_after_once(x->a, x->due > S.now ? x->due - S.now : 0, on_alarm, a);
}

int __wrap_uv_timer_init(uv_loop_t *l, uv_timer_t *t);
int __wrap_uv_timer_init(uv_loop_t *l, uv_timer_t *t) {
    open_handle(l, t, UV_TIMER, 0);
    return 0;
}
int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb cb, uint64_t ms, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb cb, uint64_t ms, uint64_t repeat) {
    struct handle *x = of(t);
    if (x->closing || !x->h)
        return UV_EINVAL;
    t->timer_cb = cb;
    x->repeat = repeat;
    change(x, 1, x->ref, 0);
    arm(x, ms);
    return 0;
}
int __wrap_uv_timer_stop(uv_timer_t *t);
int __wrap_uv_timer_stop(uv_timer_t *t) {
    struct handle *x = of(t);
    x->turn++;
    change(x, 0, x->ref, x->closing);
    return 0;
}
uint64_t __wrap_uv_timer_get_due_in(const uv_timer_t *t);
uint64_t __wrap_uv_timer_get_due_in(const uv_timer_t *t) {
    const struct handle *x = of(t);
    return x->due > S.now ? (x->due - S.now) / MS : 0;
}

/* --- signals, wake-ups, pipes --- */

int __wrap_uv_signal_init(uv_loop_t *l, uv_signal_t *h);
int __wrap_uv_signal_init(uv_loop_t *l, uv_signal_t *h) {
    open_handle(l, h, UV_SIGNAL, 0);
    return 0;
}
int __wrap_uv_signal_start(uv_signal_t *h, uv_signal_cb cb, int signum);
int __wrap_uv_signal_start(uv_signal_t *h, uv_signal_cb cb, int signum) {
    struct handle *x = of(h);
    x->on_signal = cb;
    x->signum = signum;
    change(x, 1, x->ref, x->closing);
    return 0;
}
int __wrap_uv_signal_stop(uv_signal_t *h);
int __wrap_uv_signal_stop(uv_signal_t *h) {
    change(of(h), 0, of(h)->ref, of(h)->closing);
    return 0;
}

static void on_signal(void *arg) {
    struct handle *x = arg;
    if (x->h && x->active)
        x->on_signal((uv_signal_t *)x->h, x->signum);
}

void sim_signal(struct actor *a, int sig) {
    for (struct handle *x = handles; x; x = x->next)
        if (x->a == a && x->h && x->active && x->on_signal && x->signum == sig)
            sim_after(a, 0, on_signal, x);
}

int __wrap_uv_async_init(uv_loop_t *l, uv_async_t *h, uv_async_cb cb);
int __wrap_uv_async_init(uv_loop_t *l, uv_async_t *h, uv_async_cb cb) {
    struct handle *x = open_handle(l, h, UV_ASYNC, 1);
    x->on_async = cb;
    return 0;
}
int __wrap_uv_async_send(uv_async_t *h);
int __wrap_uv_async_send(uv_async_t *h) {
    (void)h;
    return 0;
}

int __wrap_uv_pipe_init(uv_loop_t *l, uv_pipe_t *h, int ipc);
int __wrap_uv_pipe_init(uv_loop_t *l, uv_pipe_t *h, int ipc) {
    (void)ipc;
    open_handle(l, h, UV_NAMED_PIPE, 0);
    return 0;
}
int __wrap_uv_pipe_bind(uv_pipe_t *h, const char *name);
int __wrap_uv_pipe_bind(uv_pipe_t *h, const char *name) {
    (void)h;
    (void)name;
    return 0;
}
int __wrap_uv_pipe_open(uv_pipe_t *h, uv_file fd);
int __wrap_uv_pipe_open(uv_pipe_t *h, uv_file fd) {
    (void)h;
    (void)fd;
    return 0;
}
int __wrap_uv_listen(uv_stream_t *s, int n, uv_connection_cb cb);
int __wrap_uv_listen(uv_stream_t *s, int n, uv_connection_cb cb) {
    struct machine *m = &S.m[S.here->machine];
    (void)n;
    m->sock = s;
    m->on_connection = cb;
    change(of(s), 1, 1, 0);
    return 0;
}
int __wrap_uv_accept(uv_stream_t *l, uv_stream_t *c);
int __wrap_uv_accept(uv_stream_t *l, uv_stream_t *c) {
    (void)l;
    (void)c;
    return 0;
}

/* A port answers or not: sim_proc.c. The answer must not come after the handle is closed. */
int sim_port_answers(int machine, int port);
struct try_port {
    uv_connect_t *req;
    uv_connect_cb cb;
    struct handle *x;
    int port;
};
static void on_tried(void *arg) {
    struct try_port *t = arg;
    const int closed = !t->x->h || t->x->closing;
    const int rc = closed                                        ? UV_ECANCELED
                   : sim_port_answers(t->x->a->machine, t->port) ? 0
                                                                 : UV_ECONNREFUSED;
    t->cb(t->req, rc);
}
int __wrap_uv_tcp_init(uv_loop_t *l, uv_tcp_t *h);
int __wrap_uv_tcp_init(uv_loop_t *l, uv_tcp_t *h) {
    open_handle(l, h, UV_TCP, 0);
    return 0;
}
int __wrap_uv_tcp_connect(uv_connect_t *req, uv_tcp_t *h, const struct sockaddr *sa,
                          uv_connect_cb cb);
int __wrap_uv_tcp_connect(uv_connect_t *req, uv_tcp_t *h, const struct sockaddr *sa,
                          uv_connect_cb cb) {
    struct try_port *t = malloc(sizeof *t);
    req->handle = (uv_stream_t *)h;
    *t = (struct try_port){req, cb, of(h),
                           ntohs(((const struct sockaddr_in *)(const void *)sa)->sin_port)};
    /* Before any close of the handle: libuv calls the request's callback first. */
    sim_after_once(t->x->a, 0, on_tried, t);
    return 0;
}

void sim_loop_reset(void) {
    while (Q.n) { /* void alarms and what belongs to the dead */
        struct event e = pop();
        if (e.owns)
            free(e.arg);
    }
    while (handles) {
        struct handle *x = handles;
        handles = x->next;
        free(x);
    }
    while (S.actors) {
        struct actor *a = S.actors;
        S.actors = a->next;
        free(a);
    }
    Q.seq = 0;
}
