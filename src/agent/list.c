/* list.c - AG_LIST: the jobs under a root_dir; AG_STATUS: this one. */
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "agent/session.h"
#include "agent/status.h"
#include "wire/msg.h"

enum { LIST_MAX = 10000 };

int list_on_list(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    (void)body;
    const char *root = s->ag->place.root;
    json_t *jobs = json_array();
    DIR *d = opendir(root);
    struct dirent *e;
    while (d && (e = readdir(d)) && json_array_size(jobs) < LIST_MAX) {
        struct place p;
        char inside[PATH_MAX];
        if (*e->d_name == '.' || place_init(&p, root, e->d_name, NULL) || place_path(p.dir, ".agent", inside, NULL) ||
            access(inside, F_OK))
            continue;
        json_array_append_new(jobs, status_brief(&p));
    }
    if (d)
        closedir(d);
    if (msg_send(s->conn, f->type, f->req, json_pack("{s:o}", "jobs", jobs)))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    return 0;
}

int list_on_status(struct session *s, const struct wire_frame *f, const json_t *body, struct pd_err *err) {
    unsigned others = 0;
    (void)body;
    for (const struct session *o = s->ag->sessions; o; o = o->next)
        others += o != s && o->conn;
    if (msg_send(s->conn, f->type, f->req, status_full(s->ag, others)))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    return 0;
}
