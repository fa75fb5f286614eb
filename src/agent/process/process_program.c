/* SPDX-License-Identifier: Apache-2.0 */
/* process_program.c - see process_program.h. */
#include "agent/process/process_program.h"

#include "pack/object/object.h"

/* NULL: the file is the right program. Otherwise what is wrong with it. */
static const char *what_is_wrong(const struct process_program *p, int fd, struct pd_err *err) {
    char hex[2 * OBJECT_ID + 1];
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return "is no regular file";
    if (st.st_uid && st.st_uid != geteuid())
        return "belongs to another user";
    if (st.st_mode & 022)
        return "can be written by other users";
    if (object_hex_of_fd(fd, p->path, hex, err))
        return NULL;
    return strcmp(hex, p->hash) ? "has other bytes than paddlectl's worker" : NULL;
}

static void *check(void *arg) {
    struct process_program *p = arg;
    int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno != ELOOP) {
        pd_fail_errno(&p->err, errno == ENOENT ? PD_ENOENT : PD_EIO, errno, "cannot run %s",
                      p->path);
        return NULL;
    }
    const char *fault = fd < 0 ? "is a link" : what_is_wrong(p, fd, &p->err);
    pd_close(fd);
    if (fault) {
        unlink(p->path);
        unlink(p->packed);
        pd_fail(&p->err, PD_EHOST, "%s %s and was removed; the next job brings it again", p->path,
                fault);
    }
    return NULL;
}

void process_program_begin(struct process_program *p, const char *root, const char *id,
                           const char *hash) {
    sigset_t all, mask;
    p->begun = 1;
    p->hash = hash;
    if (pd_fmt(p->path, sizeof p->path, "%s/.paddlectl/bin/worker-%s", root, id) ||
        pd_fmt(p->packed, sizeof p->packed, "%s/.paddlectl/bin/packed-worker-%s", root, id)) {
        pd_fail(&p->err, PD_EIO, "path too long: %s", root);
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    p->runs = !pthread_create(&p->thread, NULL, check, p);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (!p->runs)
        check(p);
}

int process_program_result(struct process_program *p, struct pd_err *err) {
    if (p->runs)
        pthread_join(p->thread, NULL);
    p->runs = 0;
    return p->err.code ? pd_fail(err, p->err.code, "%s", p->err.msg) : 0;
}
