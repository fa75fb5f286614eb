/* list.c - AG_LIST: the jobs under a root_dir. */
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "agent/session.h"
#include "base/fs.h"
#include "base/str.h"
#include "wire/msg.h"

enum { LIST_MAX = 10000 };

static int read_pid(const struct place *p) {
    char path[PATH_MAX];
    struct pd_buf b;
    int64_t v = 0;
    pd_buf_init(&b);
    if (!place_path(p->dir, ".agent/pid", path, NULL) && !pd_read_file(path, 64, &b, NULL) && b.len) {
        b.data[strcspn((char *)b.data, "\n")] = 0;
        if (pd_parse_i64((char *)b.data, 1, 1 << 30, &v))
            v = 0;
    }
    pd_buf_release(&b);
    return (int)v;
}

/* What its agent left, "running" while one answers, "dead" when it vanished without a result (a power cut). */
static json_t *describe(const struct place *p) {
    char state[16];
    int fd = place_connect(p);
    place_read_status(p, state);
    if (!*state)
        strcpy(state, fd >= 0 ? "running" : "dead");
    if (fd >= 0)
        close(fd);
    return json_pack("{s:s, s:i, s:s, s:i}", "job", p->job, "node", place_read_node(p), "state", state, "pid",
                     fd >= 0 ? read_pid(p) : 0);
}

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
        json_array_append_new(jobs, describe(&p));
    }
    if (d)
        closedir(d);
    if (msg_send(s->conn, f->type, f->req, json_pack("{s:o}", "jobs", jobs)))
        return pd_fail(err, PD_ENOMEM, "out of memory");
    return 0;
}
