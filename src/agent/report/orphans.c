/* SPDX-License-Identifier: Apache-2.0 */
/* orphans.c - see orphans.h. */
#include "agent/report/orphans.h"

#include "agent/host/facts.h"
#include "agent/core/msg.h"
#include "agent/process/process_tree.h"
#include "agent/report/status.h"

enum { GRACE_MS = 1000, JOBS_MAX = 100000 };

/* The job's id is not enough: several nodes of a job may be on one machine. */
int orphans_end(const struct node_paths *p, uint64_t since, unsigned grace_ms) {
    char job[100], node[40];
    const char *const marks[] = {job, node};
    int id = node_paths_read_node(p);
    if (id < 0 || pd_fmt(job, sizeof job, "PADDLE_JOB_ID=%s", p->job))
        return 0;
    snprintf(node, sizeof node, "PADDLE_NODE_ID=%d", id);
    return process_tree_end_marked(marks, 2, since, grace_ms);
}

int orphans_may_run(const struct node_paths *p) {
    char path[PATH_MAX], host[HOST_NAME_MAX + 1], boot[64];
    if (node_paths_has_listener(p))
        return 1;
    if (node_paths_join(p->dir, "result.json", path, NULL) || !access(path, F_OK))
        return 0;
    json_t *s = status_read(p);
    facts_host(host);
    pd_boot_id(boot);
    int elsewhere = *msg_str(s, "host") && strcmp(msg_str(s, "host"), host);
    int lives = !strcmp(msg_str(s, "boot"), boot) &&
                status_agent_lives(p, (uint64_t)msg_int(s, "since", 0, INT64_MAX, 0));
    json_decref(s);
    return elsewhere || lives;
}

static void report_reaped(const struct node_paths *p, int n) {
    char path[PATH_MAX], text[200];
    int len = snprintf(text, sizeof text,
                       "reaping what %.70s left behind: its agent is gone, %d process%s ended\n",
                       p->job, n, n > 1 ? "es" : "");
    (void)pd_write_all(2, text, (size_t)len);
    int fd = node_paths_join(p->dir, "log/agent.log", path, NULL)
                 ? -1
                 : open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0) {
        (void)pd_write_all(fd, text, (size_t)len);
        close(fd);
    }
}

static void reap_job(const struct node_paths *p, const char *boot) {
    char path[PATH_MAX];
    if (node_paths_join(p->dir, "result.json", path, NULL) || !access(path, F_OK))
        return;
    json_t *s = status_read(p);
    uint64_t since = (uint64_t)msg_int(s, "since", 0, INT64_MAX, 0);
    int n = 0;
    if (since && !strcmp(msg_str(s, "boot"), boot) && !status_agent_lives(p, since))
        n = orphans_end(p, since, GRACE_MS);
    if (n)
        report_reaped(p, n);
    json_decref(s);
}

void orphans_reap(const char *root) {
    char boot[64];
    DIR *d = opendir(root);
    struct dirent *e;
    pd_boot_id(boot);
    for (int i = 0; d && i < JOBS_MAX && (e = readdir(d)); i++) {
        struct node_paths p;
        if (*e->d_name != '.' && !node_paths_init(&p, root, e->d_name, NULL))
            reap_job(&p, boot);
    }
    pd_closedir(d);
}
