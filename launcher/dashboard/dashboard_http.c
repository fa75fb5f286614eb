/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard_http.c - the HTTP server of the dashboard; see dashboard.h. It answers GET and HEAD of
 * three paths below the token, to loopback addresses only. A page of another site cannot use it:
 * the name in Host must be that of this server (DNS rebinding), and that page has no token. */
#include "launcher/dashboard/dashboard.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <sodium.h>

/* A static paddlectl has no HTTP library in it: dashboard_http_start then says so. */
#pragma weak MHD_start_daemon
#pragma weak MHD_stop_daemon
#pragma weak MHD_get_daemon_info
#pragma weak MHD_lookup_connection_value
#pragma weak MHD_create_response_from_buffer
#pragma weak MHD_add_response_header
#pragma weak MHD_queue_response
#pragma weak MHD_destroy_response

struct dashboard_http {
    struct MHD_Daemon *daemon;
    struct dashboard_jobs *jobs;
    char token[DASHBOARD_TOKEN + 1];
    char hosts[2][32]; /* what Host may be */
};

static enum MHD_Result send_text(struct MHD_Connection *c, unsigned status, const char *type,
                                 const void *p, size_t n, const struct dashboard_jobs *jobs) {
    static const char *const headers[][2] = {{"Cache-Control", "no-store"},
                                             {"X-Content-Type-Options", "nosniff"},
                                             {"X-Frame-Options", "DENY"},
                                             {"Referrer-Policy", "no-referrer"}};
    struct MHD_Response *r =
        MHD_create_response_from_buffer(n, (void *)(uintptr_t)p, MHD_RESPMEM_MUST_COPY);
    char ms[24];
    if (!r)
        return MHD_NO;
    MHD_add_response_header(r, "Content-Type", type);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        MHD_add_response_header(r, headers[i][0], headers[i][1]);
    if (jobs && !pd_fmt(ms, sizeof ms, "%lld", (long long)(jobs->next_us / 1000)))
        MHD_add_response_header(r, "X-Next-Ms", ms);
    const enum MHD_Result rc = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, const char *text) {
    return send_text(c, status, "text/plain; charset=utf-8", text, strlen(text), NULL);
}

static enum MHD_Result send_page(struct dashboard_http *h, struct MHD_Connection *c) {
    struct pd_buf page = {0};
    struct pd_err err = {0};
    const enum MHD_Result rc =
        report_page(&page, h->jobs->text, 1, &err)
            ? refuse(c, MHD_HTTP_INTERNAL_SERVER_ERROR, err.msg)
            : send_text(c, MHD_HTTP_OK, "text/html; charset=utf-8", page.data, page.len, h->jobs);
    pd_buf_release(&page);
    return rc;
}

static enum MHD_Result send_metrics(struct dashboard_http *h, struct MHD_Connection *c) {
    struct pd_buf text = {0};
    struct pd_err err = {0};
    const enum MHD_Result rc =
        dashboard_metrics(&text, h->jobs, &err)
            ? refuse(c, MHD_HTTP_INTERNAL_SERVER_ERROR, err.msg)
            : send_text(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text.data,
                        text.len, NULL);
    pd_buf_release(&text);
    return rc;
}

/* The rest of the path behind "/TOKEN/", or NULL. */
static const char *below_token(const struct dashboard_http *h, const char *url) {
    return strlen(url) > DASHBOARD_TOKEN + 1 && url[DASHBOARD_TOKEN + 1] == '/' &&
                   !sodium_memcmp(url + 1, h->token, DASHBOARD_TOKEN)
               ? url + DASHBOARD_TOKEN + 2
               : NULL;
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *body,
                              size_t *n_body, void **state) {
    static int begun;
    struct dashboard_http *h = arg;
    (void)version, (void)body;
    if (strcmp(method, "GET") && strcmp(method, "HEAD"))
        return *n_body ? MHD_NO : refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
    if (!*state) { /* the headers have come, the request is not complete */
        *state = &begun;
        return MHD_YES;
    }
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host");
    if (!host || (strcasecmp(host, h->hosts[0]) && strcasecmp(host, h->hosts[1])))
        return refuse(c, MHD_HTTP_FORBIDDEN, "another host's name\n");
    const char *path = below_token(h, url);
    if (!path || (*path && strcmp(path, "data") && strcmp(path, "metrics")))
        return refuse(c, MHD_HTTP_NOT_FOUND,
                      "not found: the address is the one that paddlectl dashboard printed\n");
    struct pd_err err = {0};
    if (dashboard_jobs_update(h->jobs, &err))
        return refuse(c, MHD_HTTP_INTERNAL_SERVER_ERROR, err.msg);
    if (!strcmp(path, "metrics"))
        return send_metrics(h, c);
    return *path ? send_text(c, MHD_HTTP_OK, "application/json", h->jobs->text,
                             strlen(h->jobs->text), h->jobs)
                 : send_page(h, c);
}

int dashboard_http_start(struct dashboard_http **out, struct dashboard_jobs *d, const char *token,
                         uint16_t *port, struct pd_err *err) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (!MHD_start_daemon)
        return pd_fail(err, PD_EUSAGE,
                       "this paddlectl is the static file, which has no dashboard: 'paddlectl "
                       "report' writes the same page");
    struct dashboard_http *h = pd_calloc(1, sizeof *h);
    if (!h)
        return pd_oom(err, "the dashboard");
    h->jobs = d;
    pd_fmt(h->token, sizeof h->token, "%s", token);
    errno = 0;
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, h, MHD_OPTION_SOCK_ADDR,
        (struct sockaddr *)&a, MHD_OPTION_CONNECTION_LIMIT, 64u, MHD_OPTION_CONNECTION_TIMEOUT, 60u,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16384, MHD_OPTION_END);
    if (!h->daemon) {
        const int why = errno;
        free(h);
        return pd_fail_errno(err, PD_EIO, why ? why : EADDRINUSE, "port %u of 127.0.0.1", *port);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);
    *port = info ? info->port : *port;
    pd_fmt(h->hosts[0], sizeof h->hosts[0], "127.0.0.1:%u", *port);
    pd_fmt(h->hosts[1], sizeof h->hosts[1], "localhost:%u", *port);
    *out = h;
    return 0;
}

void dashboard_http_stop(struct dashboard_http *h) {
    if (!h)
        return;
    MHD_stop_daemon(h->daemon);
    free(h);
}
