/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch_ssh_way.c - ways to reach a host: ~/.ssh/config as ssh reads it, jump hosts, proxy
 * commands. */
#include "tests/support/c/ssh_run.h"

#include <sys/wait.h>

static char config_file[128], calls_file[128];

static void write_text(const char *path, const char *text, mode_t mode) {
    assert_int_equal(pd_write_file_atomic(path, text, strlen(text), mode, NULL), 0);
}

/* @0@ @1@ @2@: the port of that sshd; @D@: the folder; @U@: the user. */
static void write_config(const char *text) {
    static char out[20000];
    size_t n = 0;
    for (const char *s = text; *s; s++) {
        if (s[0] == '@' && s[2] == '@') {
            if (s[1] == 'D')
                n += (size_t)snprintf(out + n, sizeof out - n, "%s", dir);
            else if (s[1] == 'U')
                n += (size_t)snprintf(out + n, sizeof out - n, "%s", fixture.v[0].user);
            else
                n += (size_t)snprintf(out + n, sizeof out - n, "%d", fixture.v[s[1] - '0'].port);
            s += 2;
        } else {
            out[n++] = *s;
        }
    }
    out[n] = 0;
    write_text(config_file, out, 0600);
}

/* Puts a script `ssh` in front of the real ssh, which counts the queries; or sets a PATH without
 * ssh. */
static void set_path(const char *how) {
    char path[300], script[600];
    static char *old;
    if (!old)
        old = strdup(getenv("PATH"));
    snprintf(path, sizeof path, "%s/%s", dir, how);
    mkdir(path, 0755);
    if (!strcmp(how, "counting")) {
        char name[400];
        snprintf(name, sizeof name, "%s/ssh", path);
        snprintf(script, sizeof script, "#!/bin/sh\necho x >>%s\nPATH='%s' exec ssh \"$@\"\n",
                 calls_file, old);
        write_text(name, script, 0755);
        snprintf(script, sizeof script, "%s:%s", path, old);
        setenv("PATH", script, 1);
    } else {
        setenv("PATH", !strcmp(how, "nothing") ? path : old, 1);
    }
    unlink(calls_file);
}

static int n_calls(void) {
    struct stat st;
    return stat(calls_file, &st) ? 0 : (int)(st.st_size / 2);
}

static char warnings[4000];

static void on_warning(const char *text, void *arg) {
    (void)arg;
    size_t n = strlen(warnings);
    snprintf(warnings + n, sizeof warnings - n, "%s\n", text);
}

static struct ssh_opts by_config(void) {
    warnings[0] = 0;
    return (struct ssh_opts){
        .config = config_file, .connect_timeout_ms = 20000, .fanout = 64, .warn = on_warning};
}

static int setup_way(void **state) {
    int rc = setup(state);
    snprintf(config_file, sizeof config_file, "%s/config", dir);
    snprintf(calls_file, sizeof calls_file, "%s/calls", dir);
    setenv("HOME", dir, 1);
    return rc;
}

/* --- ~/.ssh/config --- */

#define KEY "IdentityFile @D@/fx/client_key\nUserKnownHostsFile @D@/fx/known_hosts\nUser @U@\n"

static const struct {
    const char *name, *config, *alias, *say; /* say: the message; NULL: the session works */
} config_rows[] = {
    {"names, ports, keys", "Host n?\nHostName 127.0.0.1\nPort @0@\n" KEY, "n1", NULL},
    {"the first value counts", "Host n1\nPort @0@\nHost *\nPort 1\nHostName 127.0.0.1\n" KEY, "n1",
     NULL},
    {"equal signs and quotes", "host=n1\n  hostname = \"127.0.0.1\"\nPort=@0@\n" KEY, "n1", NULL},
    {"negated patterns", "Host !n1 n*\nPort 1\nHost *\nHostName 127.0.0.1\nPort @0@\n" KEY, "n1",
     NULL},
    {"another host's lines", "Host m1\nPort 1\nHost n1\nHostName 127.0.0.1\nPort @0@\n" KEY, "n1",
     NULL},
    {"%h", "Host 0.1\nHostName 127.0.%h\nPort @0@\n" KEY, "0.1", NULL},
    {"Match host", "Host n1\nHostName 127.0.0.1\nMatch host 127.0.0.*\nPort @0@\n" KEY, "n1", NULL},
    {"Match originalhost and user",
     "Match originalhost n* user nobody\nPort 1\nMatch originalhost n1,m1\nHostName "
     "127.0.0.1\nPort @0@\n" KEY,
     "n1", NULL},
    {"Include", "Include @D@/included.*\nPort @0@\n" KEY, "n1", NULL},
    {"several key files",
     "Host *\nHostName 127.0.0.1\nPort @0@\nIdentityFile @D@/none\nIdentityFile @D@/other\n" KEY,
     "n1", NULL},
    {"tokens in key files",
     "Host client\nHostName 127.0.0.1\nPort @0@\nIdentityFile ~/fx/%n_key\nUserKnownHostsFile "
     "@D@/fx/known_hosts\nUser @U@\n",
     "client", NULL},
    {"several lists of host keys",
     "Host *\nHostName 127.0.0.1\nPort @0@\nUserKnownHostsFile @D@/none @D@/fx/known_hosts\n" KEY,
     "n1", NULL},
    {"GlobalKnownHostsFile",
     "Host *\nHostName 127.0.0.1\nPort @0@\nUserKnownHostsFile @D@/none\nGlobalKnownHostsFile "
     "@D@/fx/known_hosts\n" KEY,
     "n1", NULL},
    {"HostKeyAlias",
     "Host *\nHostName 127.0.0.1\nPort @0@\nHostKeyAlias known\nUserKnownHostsFile "
     "@D@/aliases\n" KEY,
     "n1", NULL},
    {"StrictHostKeyChecking",
     "Host *\nHostName 127.0.0.1\nPort @0@\nStrictHostKeyChecking accept-new\nUserKnownHostsFile "
     "@D@/new1 @D@/new2\n" KEY,
     "n1", NULL},
    {"an unknown host key says what to do",
     "Host *\nHostName 127.0.0.1\nPort @0@\nUserKnownHostsFile @D@/none\n" KEY, "n1",
     "/none; compare it and log in once: ssh -p @0@ @U@@127.0.0.1, or take the keys of all new "
     "hosts: --host_key_policy=accept-new"},
    {"AddressFamily", "Host *\nHostName 127.0.0.1\nPort @0@\nAddressFamily inet6\n" KEY, "n1",
     "cannot resolve the name"},
    {"BindAddress", "Host *\nHostName 127.0.0.1\nPort @0@\nBindAddress 127.0.0.9\n" KEY, "n1",
     NULL},
    {"PubkeyAuthentication no",
     "Host *\nHostName 127.0.0.1\nPort @0@\nPubkeyAuthentication no\n" KEY, "n1",
     "authentication failed"},
    {"ProxyCommand",
     "Host *\nHostName 127.0.0.1\nPort @0@\nProxyCommand bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 "
     "& exec cat >&3'\n" KEY,
     "n1", NULL},
    {"a ProxyCommand that fails",
     "Host *\nHostName 127.0.0.1\nPort @0@\nProxyCommand false %h\n" KEY, "n1",
     "ssh by the ProxyCommand 'false 127.0.0.1': "},
    {"ProxyJump",
     "Host j\nPort @1@\nHostName 127.0.0.2\nHost n1\nHostName 127.0.0.1\nPort @0@\nProxyJump "
     "j\nHost *\n" KEY,
     "n1", NULL},
    {"ProxyJump for all covers the jump host, too",
     "Host j\nPort @1@\nHostName 127.0.0.2\nHost n1\nHostName 127.0.0.1\nPort @0@\nHost "
     "*\nProxyJump j\n" KEY,
     "n1", NULL},
    {"ProxyJump for all, to a jump host without a name of its own",
     "Host n1\nHostName 127.0.0.1\nPort @0@\nHost *\nPort @1@\nProxyJump 127.0.0.2:@1@\n" KEY, "n1",
     NULL},
    {"jump hosts in a circle",
     "Host n1\nProxyJump j\nHost j\nProxyJump k\nHost k\nProxyJump j\nHost *\n" KEY, "n1",
     "jump hosts in a circle: j is reached by way of itself"},
};

static void expand(char *out, size_t cap, const char *text) {
    size_t n = 0;
    for (const char *s = text; *s && n + 40 < cap; s++) {
        if (s[0] == '@' && s[1] == '0' && s[2] == '@')
            n += (size_t)snprintf(out + n, cap - n, "%d", fixture.v[0].port), s += 2;
        else if (s[0] == '@' && s[1] == 'U' && s[2] == '@')
            n += (size_t)snprintf(out + n, cap - n, "%s", fixture.v[0].user), s += 2;
        else
            out[n++] = *s;
    }
    out[n] = 0;
}

static void prepare_files(void) {
    char cmd[1000];
    snprintf(cmd, sizeof cmd,
             "cd %s && printf 'Host n1\\nHostName 127.0.0.1\\n' >included.1 && printf 'Host "
             "x\\nPort 1\\n' >included.2 && "
             "[ -f other ] || ssh-keygen -q -t ed25519 -N '' -f other; sed 1q fx/known_hosts | sed "
             "'s/^[^ ]*/known/' >aliases; rm -f new1",
             dir);
    assert_int_equal(system(cmd), 0);
}

static void test_config_by_ssh(void **state) {
    (void)state;
    need_sshd();
    set_path("counting");
    prepare_files();
    for (size_t i = 0; i < sizeof config_rows / sizeof config_rows[0]; i++) {
        struct run r = {0};
        struct host h = {.addr = (char *)(uintptr_t)config_rows[i].alias};
        struct ssh_opts o = by_config();
        char say[400] = "exit status 0";
        if (config_rows[i].say)
            expand(say, sizeof say, config_rows[i].say);
        write_config(config_rows[i].config);
        run_with(&r, &o, &h, "echo hi");
        if (!strstr(r.why.msg, say) || (!config_rows[i].say && strcmp(r.text, "hi\n")) ||
            warnings[0])
            fail_msg("%s: %d '%s', not '%s' %s", config_rows[i].name, r.why.code, r.why.msg, say,
                     warnings);
    }
    assert_true(n_calls() >= (int)(sizeof config_rows / sizeof config_rows[0]));
    set_path("all");
}

/* Without an ssh program the file is not read, one warning reports that, and sessions work. */
static void test_config_without_ssh(void **state) {
    (void)state;
    need_sshd();
    struct run runs[3] = {0};
    struct ssh_opts o = by_config();
    char expected[300];
    o.identity_file = key_file;
    o.known_hosts = known_file;
    set_path("all");
    write_config("# a comment\nHost 127.0.0.2\nPort 1\nHost *\nUser nobody\nMACs x\n");
    set_path("nothing");
    run_many(runs, 3, &o, fixture.v, 3, "echo hi", 0);
    snprintf(expected, sizeof expected,
             "%s is not read: there is no ssh program (the OpenSSH client) to interpret it\n",
             config_file);
    assert_string_equal(warnings, expected);
    set_path("all");
    write_config("# a comment\nHost *\nSendEnv LANG\n");
    o = by_config();
    o.identity_file = key_file;
    o.known_hosts = known_file;
    struct run r = {0};
    set_path("nothing");
    run_with(&r, &o, &fixture.v[1], "echo hi");
    set_path("all");
    assert_string_equal(warnings, "");
    assert_string_equal(r.text, "hi\n");
    for (int i = 0; i < 3; i++)
        assert_string_equal(runs[i].text, "hi\n");
}

/* A setting that is not followed causes a warning with its line, if it applies to a used host. */
static void test_not_followed(void **state) {
    (void)state;
    need_sshd();
    static const struct {
        const char *name, *config;
        int line; /* 0: no warning */
        const char *keyword;
    } rows[] = {
        {"for all", "Ciphers aes128-ctr\nHost *\n", 1, "ciphers"},
        {"its own", "Host node-1\nMACs +hmac-sha2-256\nHost *\n", 2, "macs"},
        {"a pattern", "Host node-?\nCertificateFile ~/x-cert.pub\nHost *\n", 2, "certificatefile"},
        {"another host's", "Host node-2\nCiphers aes128-ctr\nHost *\n", 0, ""},
        {"a negated pattern", "Host !node-1 *\nCiphers aes128-ctr\nHost *\n", 0, ""},
        {"a Match that applies", "Match exec true\nCertificateFile ~/x-cert.pub\nHost *\n", 2,
         "certificatefile"},
        {"a Match that does not apply", "Match exec false\nCertificateFile ~/x-cert.pub\nHost *\n",
         0, ""},
        {"Match all", "Match all\nCiphers +aes128-cbc\nHost *\n", 2, "ciphers"},
        {"a policy of the system", "Match final all\nCiphers aes128-ctr\nHost *\n", 0, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run r = {0};
        struct host h = {.addr = (char *)(uintptr_t) "node-1"};
        struct ssh_opts o = by_config();
        char text[1000], expected[300] = "";
        snprintf(text, sizeof text, "%sHostName 127.0.0.1\nPort @0@\n" KEY, rows[i].config);
        if (rows[i].line)
            snprintf(expected, sizeof expected, "%s:%d: %s is not followed\n", config_file,
                     rows[i].line, rows[i].keyword);
        write_config(text);
        run_with(&r, &o, &h, "echo hi");
        if (strcmp(r.text, "hi\n") || strcmp(warnings, expected))
            fail_msg("%s: '%s', not '%s'; %s", rows[i].name, warnings, expected, r.why.msg);
    }
}

/* ssh is asked once for all names with the same configuration, else once for each name. */
static void test_queries(void **state) {
    (void)state;
    need_sshd();
    enum { N = 8 };
    static const struct {
        const char *name, *config;
        int calls;
        const char *refused; /* the host that can't be reached */
    } rows[] = {
        {"nothing that concerns us", "# a comment\nHost *\nSendEnv LANG\nForwardAgent yes\n", 0,
         NULL},
        {"all names", "Host *\nHostName 127.0.0.1\nPort @0@\n" KEY, 1, NULL},
        {"no Host line", "HostName 127.0.0.1\nPort @0@\n" KEY, 1, NULL},
        {"Match all", "Match all\nHostName 127.0.0.1\nPort @0@\n" KEY, 1, NULL},
        {"other names", "Host elsewhere.* x?\nPort 1\nHost *\nHostName 127.0.0.1\nPort @0@\n" KEY,
         1, NULL},
        {"two names", "Host node-1 node-2\nPort @0@\nHost *\nHostName 127.0.0.1\nPort @0@\n" KEY, 3,
         NULL},
        {"a negated pattern", "Host x* !node-3\nPort 1\nHost *\nHostName 127.0.0.1\nPort @0@\n" KEY,
         2, NULL},
        {"a name that is a value",
         "Host *\nHostName 127.0.0.1\nPort @0@\nHostKeyAlias node-4\nUserKnownHostsFile "
         "@D@/known-4\n" KEY,
         2, NULL},
        {"Match", "Match originalhost node-3\nPort 1\nHost *\nHostName 127.0.0.1\nPort @0@\n" KEY,
         N, "node-3"},
        {"a token", "Host *\nHostName 127.0.0.1\nPort @0@\nIdentityFile @D@/none-%h\n" KEY, N,
         NULL},
        {"a command decides",
         "Match exec \"test %n = node-7\"\nPort 1\nHost *\nHostName 127.0.0.1\nPort @0@\n" KEY, N,
         "node-7"},
        {"an Include that only ssh expands",
         "Include ${FOLDER_OF_SSH_TEST}/none\nHost *\nHostName 127.0.0.1\nPort @0@\n" KEY, N, NULL},
    };
    static struct run runs[N];
    struct host hosts[N];
    char names[N][8], cmd[300];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "node-%d", i);
        hosts[i] = (struct host){.addr = names[i]};
    }
    snprintf(cmd, sizeof cmd, "sed '1q' %s/fx/known_hosts | sed 's/^[^ ]*/node-4/' >%s/known-4",
             dir, dir);
    assert_int_equal(system(cmd), 0);
    set_path("counting");
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct ssh_opts o = by_config();
        memset(runs, 0, sizeof runs);
        unlink(calls_file);
        write_config(rows[k].config);
        run_many(runs, N, &o, hosts, N, "echo hi", 0);
        if (n_calls() != rows[k].calls)
            fail_msg("%s: %d calls of ssh, not %d", rows[k].name, n_calls(), rows[k].calls);
        for (int i = 0; i < N && rows[k].calls; i++) {
            int refused = rows[k].refused && !strcmp(rows[k].refused, names[i]);
            if (strcmp(runs[i].text, refused ? "" : "hi\n"))
                fail_msg("%s: host %d: '%s' %s", rows[k].name, i, runs[i].text, runs[i].why.msg);
        }
    }
    set_path("all");
}

/* An ssh that does not answer, an ssh that reports an error, and a session that is closed during
 * the query. */
static void test_ssh_that_does_not_answer(void **state) {
    (void)state;
    need_sshd();
    struct host h = {.addr = (char *)(uintptr_t) "n1"};
    struct ssh_opts o = by_config();
    struct run runs[3] = {0}, r = {0};
    write_config("Host *\nBadness yes\nPort 2\n");
    set_path("all");
    run_with(&r, &o, &h, "true");
    assert_int_equal(r.why.code, PD_ECONF);
    assert_non_null(strstr(r.why.msg, "line 2: Bad configuration option: badness"));
    char name[300];
    set_path("counting");
    snprintf(name, sizeof name, "%s/counting/ssh", dir);
    write_text(name, "#!/bin/sh\nexec sleep 100\n", 0755);
    run_many(runs, 3, &o, &h, 1, "true", 100);
    for (int i = 0; i < 3; i++)
        assert_int_equal(runs[i].why.code, 0);
    set_path("all");
}

/* conf.ini wins: user, port, address, key file, jump hosts. */
static void test_conf_ini_wins(void **state) {
    (void)state;
    need_sshd();
    struct ssh_opts o = by_config();
    struct run r = {0}, without = {0};
    struct host h = {.addr = (char *)(uintptr_t) "n1",
                     .user = fixture.v[0].user,
                     .port = fixture.v[0].port,
                     .address = (char *)(uintptr_t) "127.0.0.1",
                     .identity_file = key_file};
    write_config("Host *\nHostName nowhere.invalid\nPort 1\nUser nobody\nIdentityFile "
                 "@D@/none\nUserKnownHostsFile @D@/none\nProxyJump nowhere.invalid\n");
    o.known_hosts = known_file;
    o.proxy_jump = "none";
    run_with(&r, &o, &h, "echo hi");
    if (strcmp(r.text, "hi\n"))
        fail_msg("%s", r.why.msg);
    o.proxy_jump = "";
    run_with(&without, &o, &h, "echo hi");
    assert_non_null(strstr(without.why.msg, "jump host nowhere.invalid: cannot resolve the name"));
}

/* --- jump hosts --- */

static int n_logins(int i) {
    char cmd[300];
    snprintf(cmd, sizeof cmd, "exit $(grep -c 'Accepted publickey' %s/fx/sshd.%d/log)", dir, i);
    return WEXITSTATUS(system(cmd));
}

static void test_jumps(void **state) {
    (void)state;
    need_sshd();
    char one[200], two[300], dead[100], three[300];
    const struct host *v = fixture.v;
    snprintf(one, sizeof one, "%s@127.0.0.1:%d", v[0].user, v[0].port);
    snprintf(two, sizeof two, "%s@127.0.0.1:%d, ssh://%s@[127.0.0.2]:%d", v[0].user, v[0].port,
             v[0].user, v[1].port);
    snprintf(dead, sizeof dead, "127.0.0.1:1");
    snprintf(three, sizeof three, "%s,127.0.0.3:1", one);
    const struct host gone = {.addr = v[2].addr, .port = 1, .user = v[2].user};
    const struct {
        const char *name, *jump, *say;
        const struct host *host;
        size_t send;
        int code;
    } rows[] = {
        {"one", one, NULL, &v[1], 0, PD_ECLOSED},
        {"two", two, NULL, &v[2], 0, PD_ECLOSED},
        {"much data both ways", two, NULL, &v[2], 6000000, PD_ECLOSED},
        {"one that refuses", dead,
         "jump host 127.0.0.1:1: cannot connect to port 1: Connection refused", &v[1], 0, PD_EHOST},
        {"the second refuses", three, "jump host 127.0.0.3:1: jump host ", &v[1], 0, PD_EHOST},
        {"the host behind it refuses", one,
         "cannot connect to 127.0.0.3, port 1: Connection refused", &gone, 0, PD_EHOST},
        {"too many", "a,b,c,d,e,f,g,h,i", "more than 8 jump hosts behind each other", &v[1], 0,
         PD_ECONF},
        {"nonsense", "a:b", "proxy_jump: port is 1..65535, not 'b'", &v[1], 0, PD_ECONF},
        {"nothing", "a,", "proxy_jump: a host is missing", &v[1], 0, PD_ECONF},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run r = {.to_send = rows[i].send, .eof = 1};
        struct ssh_opts o = options();
        o.proxy_jump = rows[i].jump;
        run_with(&r, &o, rows[i].host, rows[i].send ? "cat" : "echo hi");
        if (r.why.code != rows[i].code || (rows[i].say && !strstr(r.why.msg, rows[i].say)) ||
            r.got != (rows[i].say    ? 0
                      : rows[i].send ? rows[i].send
                                     : 3))
            fail_msg("%s: %d '%s', %zu bytes", rows[i].name, r.why.code, r.why.msg, r.got);
    }
}

/* 30 hosts behind one jump host whose MaxSessions is 1: one login there, and every session reaches
 * its own host. */
static void test_jump_is_shared(void **state) {
    (void)state;
    need_sshd();
    enum { N = 30 };
    static struct run runs[N];
    char jump[200];
    struct ssh_opts o = options();
    o.fanout = 5;
    snprintf(jump, sizeof jump, "%s@127.0.0.1:%d", fixture.v[0].user, fixture.v[0].port);
    o.proxy_jump = jump;
    o.connect_timeout_ms = 60000;
    int before = n_logins(0);
    memset(runs, 0, sizeof runs);
    run_many(runs, N, &o, fixture.v + 1, 2, "echo hi", 0);
    for (int i = 0; i < N; i++)
        if (strcmp(runs[i].text, "hi\n"))
            fail_msg("host %d: '%s' %s", i, runs[i].text, runs[i].why.msg);
    assert_int_equal(n_logins(0), before + 1);
}

static void on_kill(uv_timer_t *t) {
    char cmd[300];
    snprintf(cmd, sizeof cmd, "kill $(ps -o pid= --ppid $(cat %s/fx/sshd.0/pid))", dir);
    assert_int_equal(system(cmd), 0);
    uv_close((uv_handle_t *)t, NULL);
}

/* The jump host's connection breaks: every session behind it reports that. A later session connects
 * again. */
static void test_jump_is_lost(void **state) {
    (void)state;
    need_sshd();
    enum { N = 4 };
    static struct run runs[N], after;
    uv_loop_t loop;
    uv_timer_t timer;
    struct ssh_pool *pool;
    struct pd_err err = {0};
    struct ssh_opts o = options();
    char jump[200];
    snprintf(jump, sizeof jump, "%s@127.0.0.1:%d", fixture.v[0].user, fixture.v[0].port);
    o.proxy_jump = jump;
    memset(runs, 0, sizeof runs);
    uv_loop_init(&loop);
    assert_int_equal(ssh_pool_new(&pool, &loop, &o, &err), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(ssh_pool_open(&runs[i].t, pool, &fixture.v[1 + i % 2],
                                       "echo hi; sleep 100", &events, &runs[i], &err),
                         0);
    for (int open = 0; open < N;) {
        open = 0;
        uv_run(&loop, UV_RUN_ONCE);
        for (int i = 0; i < N; i++)
            open += runs[i].got > 0;
    }
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_kill, 0, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < N; i++)
        if (runs[i].why.code != PD_ECLOSED || !pd_starts_with(runs[i].why.msg, "jump host ") ||
            runs[i].status != -1)
            fail_msg("host %d: %d '%s'", i, runs[i].why.code, runs[i].why.msg);
    assert_int_equal(ssh_pool_open(&after.t, pool, &fixture.v[1], "echo hi", &events, &after, &err),
                     0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_string_equal(after.text, "hi\n");
    ssh_pool_free(pool);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* Sessions behind two jump hosts are closed at random times. No session hangs, and no process is
 * left. */
static void test_jump_closed_at_any_time(void **state) {
    (void)state;
    need_sshd();
    enum { N = 24 };
    static struct run runs[N];
    char jump[300];
    struct ssh_opts o = options();
    const char *given = getenv("TEST_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)randombytes_random();
    print_message("TEST_SEED=%u\n", seed);
    close_seed = seed;
    snprintf(jump, sizeof jump, "%s@127.0.0.1:%d,%s@127.0.0.2:%d", fixture.v[0].user,
             fixture.v[0].port, fixture.v[0].user, fixture.v[1].port);
    o.proxy_jump = jump;
    for (int round = 0; round < 3; round++) {
        memset(runs, 0, sizeof runs);
        run_many(runs, N, &o, fixture.v + 2, 1, "cat /dev/zero", round == 0 ? 60 : 600);
        for (int i = 0; i < N; i++)
            if (runs[i].why.code)
                fail_msg("session %d: %s", i, runs[i].why.msg);
    }
}

/* Every allocation fails in turn, with ~/.ssh/config and a jump host. Each session fails or works;
 * none hangs or leaks. */
static void test_out_of_memory(void **state) {
    (void)state;
    need_sshd();
    if (!UNDER_ASAN && not_here("under AddressSanitizer, which sees what is left"))
        skip();
    struct ssh_opts o = by_config();
    struct host h = {.addr = (char *)(uintptr_t) "n1"};
    int failed = 0, worked = 0;
    write_config("Host j\nPort @1@\nHostName 127.0.0.2\nHost n1\nHostName 127.0.0.1\nPort "
                 "@0@\nProxyJump j\nHost *\n" KEY);
    const char *given = getenv("TEST_SEED");
    unsigned odd = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)randombytes_uniform(2);
    print_message("TEST_SEED=%u\n", odd);
    for (unsigned n = 1 + odd % 2; worked < 8 && n < 1000;
         n += 2) { /* every second allocation; some failures have no effect */
        struct run r = {0};
        char spec[40];
        uv_loop_t loop;
        struct ssh_pool *pool;
        struct pd_err err = {0};
        snprintf(spec, sizeof spec, "alloc:%u", n);
        uv_loop_init(&loop);
        pd_fault_arm(spec);
        int rc = ssh_pool_new(&pool, &loop, &o, &err);
        if (!rc && !ssh_pool_open(&r.t, pool, &h, "echo hi", &events, &r, &err)) {
            uv_run(&loop, UV_RUN_DEFAULT);
            if (r.closed != 1 || (strcmp(r.text, "hi\n") && !r.why.code))
                fail_msg("alloc:%u: closed %d, '%s' '%s'", n, r.closed, r.text, r.why.msg);
        }
        failed += strcmp(r.text, "hi\n") != 0;
        worked = strcmp(r.text, "hi\n") ? 0 : worked + 1;
        pd_fault_arm(NULL);
        if (!rc)
            ssh_pool_free(pool);
        assert_int_equal(uv_loop_close(&loop), 0);
    }
    assert_true(worked && failed > 20);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    if (sodium_init() < 0)
        return 1;
    if (UNDER_TSAN && not_here("in the other flavours: there are no threads in it"))
        return 77;
    setenv("SSHD_FIXTURE_CONFIG", "MaxSessions 1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_by_ssh),
        cmocka_unit_test(test_config_without_ssh),
        cmocka_unit_test(test_not_followed),
        cmocka_unit_test(test_queries),
        cmocka_unit_test(test_ssh_that_does_not_answer),
        cmocka_unit_test(test_conf_ini_wins),
        cmocka_unit_test(test_jumps),
        cmocka_unit_test(test_jump_is_shared),
        cmocka_unit_test(test_jump_is_lost),
        cmocka_unit_test(test_jump_closed_at_any_time),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, setup_way, teardown);
}
