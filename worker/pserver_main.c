/* SPDX-License-Identifier: Apache-2.0 */
/* pserver_main.c - `paddle_worker pserver`: options and sockets, then the server until the job
 * ends. */
#include <arpa/inet.h>
#include <jansson.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <uv.h>

#include "net/conn.h"
#include "ps/server/server.h"
#include "worker/worker.h"

enum { PORT_TRIES = 1000 };

struct sockets {
    int fd[PS_SERVER_THREADS_MAX];
    int n;
};

static void close_all(struct sockets *s) {
    while (s->n)
        close(s->fd[--s->n]);
}

/* The address to listen on. nics: a numeric address, the name of an interface, or empty for all
 * interfaces. */
static int listen_ip(const char *nics, char *ip, size_t cap, struct pd_err *err) {
    uv_interface_address_t *list;
    int n, found = 0;
    if (!*nics)
        return pd_fmt(ip, cap, "%s", net_any_ip());
    if (net_is_ip(nics))
        return pd_fmt(ip, cap, "%s", nics);
    if (uv_interface_addresses(&list, &n))
        return pd_fail(err, PD_EIO, "cannot list the network interfaces");
    for (int i = 0; i < n && !found; i++)
        if (!strcmp(list[i].name, nics) && list[i].address.address4.sin_family == AF_INET)
            found = !uv_ip4_name(&list[i].address.address4, ip, cap);
    for (int i = 0; i < n && !found; i++) /* the interface has no IPv4 address */
        if (!strcmp(list[i].name, nics) && list[i].address.address4.sin_family == AF_INET6 &&
            !IN6_IS_ADDR_LINKLOCAL(&list[i].address.address6.sin6_addr))
            found = !uv_ip6_name(&list[i].address.address6, ip, cap);
    uv_free_interface_addresses(list, n);
    return found ? 0 : pd_fail(err, PD_ECONF, "nics: unknown interface or address '%s'", nics);
}

/* PADDLE_LISTEN_FDS="3,4": sockets that the starting process has bound already, so that no other
 * process can take the ports. */
static int inherit(const char *list, int want, struct sockets *s, struct pd_err *err) {
    for (const char *p = list; *p; p += *p == ',') {
        char item[16];
        int64_t fd;
        size_t k = strcspn(p, ",");
        if (pd_fmt(item, sizeof item, "%.*s", (int)(k < 100 ? k : 100), p) ||
            pd_parse_i64(item, 3, 1 << 20, &fd) || s->n == PS_SERVER_THREADS_MAX ||
            fcntl((int)fd, F_SETFD, FD_CLOEXEC))
            return pd_fail(err, PD_ECONF, "PADDLE_LISTEN_FDS='%s' does not list open sockets",
                           list);
        s->fd[s->n++] = (int)fd;
        p += k;
    }
    return s->n == want ? 0
                        : pd_fail(err, PD_ECONF,
                                  "PADDLE_LISTEN_FDS='%s' has %d sockets, ports_num and "
                                  "ports_num_for_sparse ask for %d",
                                  list, s->n, want);
}

/* exact: trainers were told this port, and the next ports may be those of other pservers on this
 * machine. So the first socket has this port and the others have any. */
static int bind_ports(const char *ip, int port, int exact, int want, struct sockets *s,
                      struct pd_err *err) {
    for (; s->n < want; s->n++) {
        int got = 0, fd = exact && !s->n
                              ? net_bind(ip, port, err)
                              : net_bind_first_free(ip, exact ? 0 : port, PORT_TRIES, &got, err);
        if (fd < 0)
            return fd;
        s->fd[s->n] = fd;
        if (port)
            port = got + 1;
    }
    return 0;
}

static int describe(int fd, char *ip, size_t cap, int *port, int *loopback) {
    struct sockaddr_storage sa;
    socklen_t n = sizeof sa;
    if (getsockname(fd, (struct sockaddr *)&sa, &n))
        return -1;
    if (sa.ss_family == AF_INET6) {
        const struct sockaddr_in6 *a = (struct sockaddr_in6 *)&sa;
        *loopback = IN6_IS_ADDR_LOOPBACK(&a->sin6_addr);
        *port = ntohs(a->sin6_port);
        return uv_ip6_name(a, ip, cap);
    }
    const struct sockaddr_in *a = (struct sockaddr_in *)&sa;
    *loopback = ntohl(a->sin_addr.s_addr) >> 24 == 127;
    *port = ntohs(a->sin_port);
    return sa.ss_family == AF_INET ? uv_ip4_name(a, ip, cap) : -1;
}

enum { PORTS_TEXT = PS_SERVER_THREADS_MAX * 7 + 80 };

/* Formats "10.0.0.2, ports (dense; sparse): 7164; 7165". Refuses to listen on a network without a
 * key. */
static int check_sockets(const struct worker *w, const struct sockets *s, char text[PORTS_TEXT],
                         struct pd_err *err) {
    char ip[64] = "?";
    size_t n = 0;
    for (int i = 0; i < s->n; i++) {
        int port = 0, loopback = 0;
        if (describe(s->fd[i], ip, sizeof ip, &port, &loopback))
            return pd_fail(err, PD_ECONF, "socket %d is not a bound TCP socket", s->fd[i]);
        if (!loopback && !w->has_key)
            return pd_fail(
                err, PD_ECONF,
                "without a key anybody could read and change the parameters on %s: make one with\n"
                "    head -c 32 /dev/urandom > key; chmod 600 key\n"
                "copy it to every node and give --key_file=key to all pservers and trainers "
                "(--nics=127.0.0.1 serves this machine alone, without a key)",
                ip);
        if (i == 0)
            n = (size_t)snprintf(text, PORTS_TEXT, "%s, ports (dense; sparse):", ip);
        n += (size_t)snprintf(text + n, PORTS_TEXT - n, "%s %d",
                              i == (int)w->options.ports_num ? ";" : "", port);
    }
    return 0;
}

/* The folders that trainers may name: what is saved, and what the job begins with. */
struct folders {
    const char *write[4], *read[3];
    char resume[PATH_MAX];
};

static struct ps_folders folders_of(const struct pd_options *o, struct folders *f) {
    int writes = 0, reads = 0;
    *f = (struct folders){.write = {NULL}};
    f->write[writes++] = "output";
    if (strcmp(o->save_dir, "output"))
        f->write[writes++] = o->save_dir;
    if (strchr(o->resume, '/') && !pd_fmt(f->resume, sizeof f->resume, "%s", o->resume)) {
        size_t n = strlen(f->resume);
        while (n > 1 && f->resume[n - 1] == '/')
            f->resume[--n] = 0;
        char *slash = strrchr(f->resume, '/');
        if (o->resume_older && slash != f->resume) /* the checkpoints beside it, too, but not "/" */
            *slash = 0;
        f->write[writes++] = f->resume; /* servers exchange parts of the checkpoint */
    }
    if (*o->init_model_path)
        f->read[reads++] = o->init_model_path;
    if (getenv("PADDLE_OUTPUT_DIR")) /* in a job the working folder is the workspace */
        f->read[reads++] = ".";
    return (struct ps_folders){f->write, f->read};
}

/* The event "serving". */
struct serving {
    int fd;
    int64_t rank;
    uint64_t sent, received, at_ns; /* at the last event */
};

/* An agent that does not read must not stop the server: then there is no event. */
static void write_event(int fd, const char *line, size_t n) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (n <= PIPE_BUF && poll(&p, 1, 0) == 1 && p.revents & POLLOUT)
        (void)pd_write_all(fd, line, n);
}

static void on_serving(void *arg, const struct ps_serving *s, const char *const *name) {
    struct serving *v = arg;
    const uint64_t now = pd_mono_ns();
    const double seconds = (double)(now - v->at_ns) * 1e-9;
    json_t *rows = json_object();
    for (uint32_t i = 0; i < s->n_tables; i++)
        json_object_set_new(rows, name[i], json_integer((json_int_t)s->rows[i]));
    json_t *o = json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "t",
                          (json_int_t)(pd_wall_us() / 1000), "ev", "serving", "role", "pserver",
                          "rank", (json_int_t)v->rank, "sent_rate",
                          (json_int_t)((double)(s->sent - v->sent) / seconds), "received_rate",
                          (json_int_t)((double)(s->received - v->received) / seconds), "waiting",
                          (json_int_t)s->waiting, "queued", (json_int_t)s->queued, "rows", rows);
    char *line = o ? json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    if (line && v->at_ns) {
        const size_t n = strlen(line);
        line[n] = '\n'; /* in place of its NUL */
        write_event(v->fd, line, n + 1);
    }
    free(line);
    json_decref(o);
    v->sent = s->sent;
    v->received = s->received;
    v->at_ns = now;
}

static int serve(struct worker *w, struct sockets *s, struct pd_err *err) {
    char ip[64];
    const struct pd_options *o = &w->options;
    const char *inherited = getenv("PADDLE_LISTEN_FDS");
    int want = (int)(o->ports_num + o->ports_num_for_sparse);
    int rc = inherited && *inherited ? inherit(inherited, want, s, err)
                                     : listen_ip(o->nics, ip, sizeof ip, err);
    const struct pd_origin *port = &o->origin[pd_options_find("port", PD_PSERVER)];
    int exact = port->level == PD_FROM_ENV && !pd_starts_with(port->where, "PADDLE_INIT_");
    if (!rc && !(inherited && *inherited) &&
        (rc = bind_ports(ip, (int)o->port, exact, want, s, err)) && exact)
        pd_err_prefix(err, "%s", port->where);
    char ports[PORTS_TEXT];
    if (!rc)
        rc = check_sockets(w, s, ports, err);
    if (rc)
        return rc;
    struct serving serving = {.fd = w->event_fd, .rank = worker_rank(w)};
    struct folders memory;
    const struct ps_folders folders = folders_of(o, &memory);
    struct ps_server_opts so = {.fds = s->fd,
                                .n_dense = (uint32_t)o->ports_num,
                                .n_sparse = (uint32_t)o->ports_num_for_sparse,
                                .n_trainers = (uint32_t)o->num_gradient_servers,
                                .job = w->job_id,
                                .key = w->key,
                                .plain = o->encrypt == PD_ENCRYPT_OFF,
                                .signals = 1,
                                .on_lost = (enum ps_lost)o->on_trainer_lost,
                                .reconnect_ms = (uint64_t)(o->reconnect_timeout * 1000),
                                .start_ms = (uint64_t)(o->start_timeout * 1000),
                                .heartbeat_ms = (uint64_t)(o->heartbeat_timeout * 1000),
                                .output_dir = getenv("PADDLE_OUTPUT_DIR"),
                                .folders = &folders,
                                .cpus = w->cpus.n ? &w->cpus : NULL,
                                .spans = w->spans,
                                .on_serving = w->event_fd >= 0 ? on_serving : NULL,
                                .on_serving_arg = &serving,
                                .log = &w->log};
    struct ps_server *server = NULL;
    rc = ps_server_new(&server, &so, err);
    s->n = 0;  /* the server owns them now */
    if (!rc) { /* the server accepts connections, and signals are handled */
        /* In a job the agent's message names the host, so that the lines of all hosts are equal. */
        const char *text = inherited && *inherited ? strchr(ports, ',') : ports;
        printf("pserver listens%s%s; trainers to come: %lld\n", text == ports ? " on " : "", text,
               (long long)o->num_gradient_servers);
        pd_info(&w->log, "listening on %s; trainers to come: %lld", ports,
                (long long)o->num_gradient_servers);
        rc = ps_server_run(server, err);
    }
    ps_server_free(server);
    return rc;
}

int pserver_main(int argc, char **argv) {
    struct sockets s = {.n = 0};
    struct worker w;
    struct pd_err err = {0};
    int rc = worker_init(&w, "pserver", PD_PSERVER, argc, argv, &err);
    if (!rc) {
        rc = serve(&w, &s, &err);
        worker_write_profile(&w);
        close_all(&s);
    }
    int status = rc ? worker_report_error(&w, "pserver", &err) : 0;
    worker_release(&w);
    return status;
}
