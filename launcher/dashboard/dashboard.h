/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard.h - `paddlectl dashboard`: the page of `paddlectl report`, live, and metrics for
 * Prometheus, on a loopback address.
 *
 *     records of runs ──> dashboard_jobs.c ──> JSON ─────> dashboard_http.c ──> browser
 *     agents ──> dashboard_hosts.c ──┘   └───> dashboard_metrics.c ──┘────────> Prometheus
 *
 * Records are read in the thread of the HTTP server when somebody asks. A thread of its own asks
 * the hosts, until nobody has asked for 90 s.
 */
#pragma once

#include "launcher/dashboard/dashboard_hosts.h"
#include "launcher/report/report.h"

/* --- the runs that are shown --- */

/* All runs that are followed by a paddlectl, and the newest ones. */
enum { DASHBOARD_NEWEST = 8, DASHBOARD_MAX = 24 };

struct dashboard_job {
    struct report_job job;
    char id[80], state[24];
    int64_t started_ms;
    int stays;
};

struct dashboard_jobs {
    char outputs[PATH_MAX];
    struct dashboard_job *v[DASHBOARD_MAX];
    size_t n, n_runs;              /* those that are shown; all runs of the folder */
    char *text;                    /* the data of the page */
    int64_t made_us;               /* when the records were read; 0: never */
    int64_t next_us;               /* they are not read again before this time has passed */
    int64_t once_us;               /* CPU time of this reading for runs that are new */
    int changed;                   /* something has been read that the text lacks */
    struct dashboard_hosts *asks;  /* NULL: no host is asked, see why_not */
    char why_not[300];             /* "": the user does not want it */
    struct hosts_picture *picture; /* NULL: no host has answered yet */
    json_t *hosts;                 /* the picture as the page has it; NULL: hosts are not asked */
};

/* Reads the records again if it is time to, and makes d->text anew. Reading takes at most about
 * 0.8 % of a core: the time until the next reading is 125 times the CPU time of this one, at least
 * 2 s and at most a minute. The first reading of a run does not count. */
int dashboard_jobs_update(struct dashboard_jobs *d, struct pd_err *err);
void dashboard_jobs_release(struct dashboard_jobs *d);

/* The jobs of the hosts for the page: {"n", "answered", "n_jobs", "jobs", "silent", "why_not"}. A
 * new reference; NULL: hosts are not asked, or no memory. */
json_t *dashboard_hosts_json(const struct dashboard_jobs *d);

/* Appends the metrics in Prometheus's text format: docs/records.md lists them. */
int dashboard_metrics(struct pd_buf *out, const struct dashboard_jobs *d, struct pd_err *err);

/* --- HTTP --- */

enum { DASHBOARD_TOKEN = 32 }; /* hexadecimal digits */

struct dashboard_http;

/* Serves http://127.0.0.1:*port/TOKEN/. Port 0: any; *port becomes the port in use. `d` belongs to
 * the server's thread until dashboard_http_stop. */
int dashboard_http_start(struct dashboard_http **out, struct dashboard_jobs *d, const char *token,
                         uint16_t *port, struct pd_err *err);
void dashboard_http_stop(struct dashboard_http *h);
