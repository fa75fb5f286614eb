/* test_pack_hostile.c - archives made to write where they must not, to become too large, or to be
 * what a package never is; and a disk that is full. Each ends in an error that says why, with
 * nothing left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/fs.h"
#include "pack/pack.h"

struct item {
    const char *path;
    unsigned type, perm;
    const char *link; /* target of a link, or the text of a file */
    int hard;
};

#define FILE_(p) \
    { p, AE_IFREG, 0644, "text", 0 }
#define DIR_(p) \
    { p, AE_IFDIR, 0755, NULL, 0 }
#define SYM_(p, t) \
    { p, AE_IFLNK, 0777, t, 0 }
#define HARD_(p, t) \
    { p, AE_IFREG, 0644, t, 1 }

static const struct {
    const char *name;
    struct item items[4];
    const char *says; /* NULL: it must be accepted */
} rows[] = {
    {"plain", {DIR_("d"), FILE_("d/f")}, NULL},
    {"own top folder", {DIR_("./"), FILE_("./f")}, NULL},
    {"missing parents", {FILE_("x/y/z")}, NULL},
    {"file twice", {FILE_("f"), FILE_("f")}, NULL},
    {"folder twice", {DIR_("d"), DIR_("d")}, NULL},
    {"inner link", {FILE_("f"), DIR_("d"), SYM_("d/l", "../f")}, NULL},
    {"inner hard link", {FILE_("f"), HARD_("g", "f")}, NULL},
    {"hard link to itself", {FILE_("f"), HARD_("f", "f")}, NULL},
    {"dots inside a name", {FILE_("..a"), FILE_("b..")}, NULL},
    {"sticky folder", {{"t", AE_IFDIR, 01777, NULL, 0}}, NULL},
    {"absolute", {FILE_("/tmp/pack-escape")}, "absolute path"},
    {"dotdot", {FILE_("../pack-escape")}, "leaves the tree"},
    {"dotdot inside", {FILE_("a/../../pack-escape")}, "leaves the tree"},
    {"dotdot alone", {DIR_("..")}, "leaves the tree"},
    {"absolute link", {SYM_("l", "/etc")}, "absolute path"},
    {"link above", {SYM_("l", "..")}, "leads out"},
    {"link above, deeper", {DIR_("d"), SYM_("d/l", "../../x")}, "leads out"},
    {"link up through a link", {SYM_("d", "."), SYM_("e", "d/..")}, "behind a name"},
    {"empty link", {SYM_("l", "")}, "empty"},
    {"through a link", {DIR_("d"), SYM_("l", "d"), FILE_("l/f")}, "through a link"},
    {"through a link, folder", {DIR_("d"), SYM_("l", "d"), DIR_("l/x")}, "through a link"},
    {"folder over a link", {DIR_("d"), SYM_("l", "d"), DIR_("l")}, "twice"},
    {"through a file", {FILE_("f"), FILE_("f/g")}, "through a link or a file"},
    {"file over a folder", {DIR_("d"), FILE_("d")}, "twice"},
    {"hard link out", {HARD_("g", "/etc/passwd")}, "absolute path"},
    {"hard link above", {HARD_("g", "../x")}, "leaves the tree"},
    {"hard link to nothing", {HARD_("g", "f")}, "no file in it"},
    {"hard link to a link", {SYM_("l", "x"), HARD_("g", "l")}, "no file in it"},
    {"hard link through a link", {DIR_("d"), SYM_("l", "d"), HARD_("g", "l/f")}, "through a link"},
    {"fifo", {{"p", AE_IFIFO, 0644, NULL, 0}}, "neither file"},
    {"device", {{"c", AE_IFCHR, 0644, NULL, 0}}, "neither file"},
    {"block device", {{"b", AE_IFBLK, 0644, NULL, 0}}, "neither file"},
    {"set-uid", {{"s", AE_IFREG, 04755, "x", 0}}, "set-id"},
    {"set-gid", {{"s", AE_IFREG, 02755, "x", 0}}, "set-id"},
    {"set-gid folder", {{"s", AE_IFDIR, 02755, NULL, 0}}, "set-id"},
    {"top is a file", {FILE_(".")}, "own top folder"},
    {"too many", {FILE_("1"), FILE_("2"), FILE_("3"), FILE_("4")}, "more than 3 entries"},
    {"too large",
     {{"f", AE_IFREG, 0644, "0123456789012345678901234567890123456789", 0}},
     "more than 32 bytes"},
};

static void write_archive(const char *file, const struct item *items) {
    struct archive *a = archive_write_new();
    archive_write_set_format_pax(a);
    archive_write_add_filter_zstd(a);
    assert_int_equal(archive_write_open_filename(a, file), ARCHIVE_OK);
    for (int i = 0; i < 4 && items[i].path; i++) {
        const struct item *it = &items[i];
        struct archive_entry *e = archive_entry_new();
        archive_entry_copy_pathname(e, it->path);
        archive_entry_set_filetype(e, it->type);
        archive_entry_set_perm(e, it->perm);
        archive_entry_set_size(e, 0);
        if (it->hard)
            archive_entry_copy_hardlink(e, it->link);
        else if (it->type == AE_IFLNK)
            archive_entry_copy_symlink(e, it->link);
        else if (it->type == AE_IFREG)
            archive_entry_set_size(e, (la_int64_t)strlen(it->link));
        assert_true(archive_write_header(a, e) >= ARCHIVE_WARN);
        if (it->type == AE_IFREG && !it->hard)
            archive_write_data(a, it->link, strlen(it->link));
        archive_entry_free(e);
    }
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
}

static void hostile_archives_are_refused(void **state) {
    (void)state;
    char dir[] = "/tmp/pack-hostile-XXXXXX", file[64], in[64], target[80];
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/a", dir);
    snprintf(in, sizeof in, "%s/in", dir);
    snprintf(target, sizeof target, "%s/in/t", dir);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        write_archive(file, rows[i].items);
        assert_int_equal(mkdir(in, 0755), 0);
        int fd = open(file, O_RDONLY);
        struct pd_err err = {0};
        const struct pack_limits lim = {.max_files = 3, .max_bytes = 32};
        int rc = pack_extract(fd, target, &lim, NULL, &err);
        close(fd);
        if (!rows[i].says ? rc != 0 : rc != PD_EDATA || !strstr(err.msg, rows[i].says))
            fail_msg("%s: %d %s", rows[i].name, rc, err.msg);
        if (!access("/tmp/pack-escape", F_OK))
            fail_msg("%s: wrote outside", rows[i].name);
        if (rc && rmdir(in))
            fail_msg("%s: something was left in %s", rows[i].name, in);
        if (!rc)
            assert_int_equal(pd_rm_tree(in, &err), 0);
    }
    pd_rm_tree(dir, NULL);
}

static void existing_target_stays(void **state) {
    (void)state;
    char dir[] = "/tmp/pack-hostile-XXXXXX", file[64], target[64];
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/a", dir);
    snprintf(target, sizeof target, "%s/t", dir);
    write_archive(file, rows[0].items);
    assert_int_equal(mkdir(target, 0700), 0);
    int fd = open(file, O_RDONLY);
    struct pd_err err = {0};
    assert_int_equal(pack_extract(fd, target, NULL, NULL, &err), PD_EEXIST);
    close(fd);
    assert_int_equal(rmdir(target), 0); /* still empty */
    pd_rm_tree(dir, NULL);
}

static void failed_write_is_enospc_and_leaves_nothing(void **state) {
    (void)state;
    char dir[] = "/tmp/pack-hostile-XXXXXX", file[64], in[64], target[80];
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/a", dir);
    snprintf(in, sizeof in, "%s/in", dir);
    snprintf(target, sizeof target, "%s/in/t", dir);
    mkdir(in, 0755);
    write_archive(file, rows[0].items);
    int fd = open(file, O_RDONLY);
    struct pd_err err = {0};
    pd_fault_arm("pack.write:1");
    int rc = pack_extract(fd, target, NULL, NULL, &err);
    pd_fault_arm(NULL);
    close(fd);
    assert_int_equal(rc, PD_ENOSPC);
    assert_int_equal(rmdir(in), 0);
    struct pack_spool *s;
    err.code = 0;
    assert_int_equal(pack_spool_new(&s, dir, &err), 0);
    pd_fault_arm("pack.spool:1");
    assert_int_equal(pack_spool_write(s, "x", 1, &err), PD_ENOSPC);
    pd_fault_arm(NULL);
    pack_spool_free(s);
    pd_rm_tree(dir, NULL);
}

/* A file system of 256 KiB in a mount namespace of our own. Exit status: 0 good, 77 not possible
 * here. */
static int on_a_small_disk(const char *dir) {
    char file[80], target[80], text[4096];
    struct item big = {"big", AE_IFREG, 0644, text, 0};
    struct item items[4] = {DIR_("d"), big, DIR_("e"), DIR_("f")};
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", dir, "tmpfs", 0, "size=64k"))
        return 77;
    snprintf(file, sizeof file, "%s/a", dir);
    snprintf(target, sizeof target, "%s/t", dir);
    write_archive(file, items);
    char pad[80];
    snprintf(pad, sizeof pad, "%s/pad", dir);
    int fd = open(pad, O_WRONLY | O_CREAT, 0600);
    while (write(fd, text, sizeof text) > 0) /* the disk is now full */
        ;
    close(fd);
    fd = open(file, O_RDONLY);
    struct pd_err err = {0};
    int rc = pack_extract(fd, target, NULL, NULL, &err);
    fprintf(stderr, "full disk: %s\n", err.msg);
    if (rc != PD_ENOSPC)
        return 1;
    int n = 0;
    DIR *d = opendir(dir);
    while (readdir(d))
        n++;
    closedir(d);
    return n == 4 ? 0 : 2; /* ".", "..", "a", "pad" */
}

static void full_disk(void **state) {
    (void)state;
    char dir[] = "/tmp/pack-hostile-XXXXXX";
    assert_non_null(mkdtemp(dir));
    pid_t pid = fork();
    if (!pid)
        _exit(on_a_small_disk(dir));
    int st;
    waitpid(pid, &st, 0);
    pd_rm_tree(dir, NULL);
    if (WIFEXITED(st) && WEXITSTATUS(st) == 77) {
        print_message("skipped: full_disk needs a mount namespace\n");
        return;
    }
    assert_int_equal(st, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_archives_are_refused),
        cmocka_unit_test(existing_target_stays),
        cmocka_unit_test(failed_write_is_enospc_and_leaves_nothing),
        cmocka_unit_test(full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
