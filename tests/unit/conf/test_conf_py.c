/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_py.c - a conf.py of the original system becomes a conf.ini; wrong lines are named. */
#include <setjmp.h>
#include <cmocka.h>

#include "conf/conf_py.h"

static struct pd_buf out, warnings;

static int read_conf(const char *text, struct pd_err *err) {
    pd_buf_release(&out);
    pd_buf_release(&warnings);
    int rc = pd_conf_py_read("conf.py", text, &out, &warnings, err);
    pd_put_u8(&out, 0);
    pd_put_u8(&warnings, 0);
    return rc;
}

static void becomes(const char *text, const char *ini, const char *warned) {
    struct pd_err err = {0};
    if (read_conf(text, &err))
        fail_msg("%s", err.msg);
    const char *body = strchr((char *)out.data, '\n') + 1; /* behind the comment */
    assert_string_equal(body, ini);
    assert_string_equal((char *)warnings.data, warned);
}

static void fails(const char *text, const char *msg) {
    struct pd_err err = {0};
    assert_int_equal(read_conf(text, &err), PD_ECONF);
    if (!strstr(err.msg, msg))
        fail_msg("'%s' is not in '%s'", msg, err.msg);
}

static void test_all_names(void **state) {
    (void)state;
    becomes("# hosts\n"
            "HOSTS = [\n"
            "    \"root@10.1.9.7\",\n"
            "    'root@10.1.18.7:2222', # the second\n"
            "]\n"
            "'''\nPADDLE_PORT = 1\n'''\n"
            "ROOT_DIR = \"/home/it's\"\n"
            "PADDLE_NIC = 'eth0'\n"
            "PADDLE_PORT = 7000\n"
            "PADDLE_PORT = 7164\n"
            "PADDLE_PORTS_NUM=2\n"
            "PADDLE_PORTS_NUM_FOR_SPARSE = 3\n"
            "PADDLE_USE_GPU=\"False\"\n"
            "LD_LIBRARY_PATH = \"/usr/local/cuda/lib64\" \\\n    ':/usr/lib64'",
            "\n[cluster]\nhosts = root@10.1.9.7,\n    root@10.1.18.7:2222\nroot_dir = /home/it's\n"
            "nic = eth0\nport = 7164\nports_num = 2\nports_num_for_sparse = 3\n"
            "\n[job]\njob_dispatch_package = ./workspace\n"
            "\n[env]\nLD_LIBRARY_PATH = /usr/local/cuda/lib64:/usr/lib64\n",
            "");
}

static void test_left_out(void **state) {
    (void)state;
    becomes("HOSTS = ('a', 'b')\nOTHER = ['x y', 3]\nPATH = os.getenv('P') + 'x'\n"
            "PADDLE_USE_GPU = True\n",
            "\n[cluster]\nhosts = a,\n    b\n\n[job]\njob_dispatch_package = ./workspace\n",
            "conf.py:2: OTHER is not known and left out\n"
            "conf.py:3: PATH is not known and left out\n"
            "conf.py:4: PADDLE_USE_GPU has no counterpart: training runs on CPUs\n");
}

static void test_errors(void **state) {
    (void)state;
    fails("ROOT_DIR = '/x'\n", "conf.py has no HOSTS");
    fails("HOSTS = 'a'\n", "conf.py:1: HOSTS is a list");
    fails("HOSTS = []\n", "conf.py:1: the value is empty");
    fails("HOSTS = ['a',\n 'b\n", "conf.py:2: the text has no end");
    fails("HOSTS = ['a = b']\n", "conf.py:1: an element of the list is no host");
    fails("HOSTS = ['@file']\n", "no host");
    fails("HOSTS = ['$(id)']\n", "no host");
    fails("HOSTS = ['a', x]\n", "conf.py:1: only a text, a number, or a list");
    fails("import os\n", "conf.py:1: only lines NAME = VALUE");
    fails("HOSTS = ['a']\n\nROOT_DIR = '/a' + b\n", "conf.py:3: only a text");
    fails("HOSTS = ['a']\nROOT_DIR = '/a ;b'\n", "conf.py:2: conf.ini cannot hold");
    fails("HOSTS = ['a']\nROOT_DIR = '/a\\n[env]'\n", "conf.py:2: the text has a backslash");
    fails("HOSTS = ['a']\nROOT_DIR = '''/a\n[env]'''\n", "control character");
    fails("HOSTS = ['a']\nPADDLE_PORT = ['7164']\n", "conf.py:2: a list is not expected");
    fails("HOSTS = ['a']\nPADDLE_PORT = 99999\n", "conf.py:2: port");
}

static int release(void **state) {
    (void)state;
    pd_buf_release(&out);
    pd_buf_release(&warnings);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_names),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
