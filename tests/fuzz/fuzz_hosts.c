/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_hosts.c - lists of hosts, groups, [host ...] sections, `hosts = @file`, roles and --node.
 * Hosts that are accepted are distinct, and each is read again as it is written.
 *
 * Parts: the list, conf.ini with [groups] and [host ...], the file f, pservers, --node. */
#include "conf/settings.h"
#include "launcher/hosts/hosts.h"
#include "tests/support/fuzz/fuzz.h"

enum { READ_AGAIN = 20 };

static void check_hosts(const struct hosts *h) {
    fuzz_check(h->n >= 1 && h->n <= HOSTS_MAX);
    for (size_t i = 0; i < h->n && i < READ_AGAIN; i++) {
        const struct host *x = &h->v[i];
        struct hosts one = {0};
        fuzz_check(x->spec && x->label && (x->local ? !x->addr : x->addr && *x->addr));
        fuzz_check(x->port >= 0 && x->port <= 65535);
        for (size_t k = 0; k < i; k++)
            fuzz_check(strcmp(x->label, h->v[k].label));
        if (x->local)
            continue;
        fuzz_check(!hosts_parse(&one, x->spec, "again", NULL));
        fuzz_check(one.n == 1 && !strcmp(one.v[0].spec, x->spec) &&
                   !strcmp(one.v[0].addr, x->addr));
        hosts_release(&one);
    }
}

static void check_roles(const struct hosts *h, const char *text) {
    struct pd_err err = {0};
    int *ids = NULL;
    size_t n = 0;
    if (fuzz_rc(hosts_parse_roles(&ids, &n, text, h->n, "pservers", "conf.ini:2", &err), &err))
        return;
    fuzz_check(n <= h->n);
    for (size_t i = 0; i < n; i++)
        fuzz_check(ids[i] >= 0 && (size_t)ids[i] < h->n);
    free(ids);
}

static void check_filter(const struct hosts *h, const struct pd_options *o, const char *list) {
    struct pd_err err = {0};
    char *chosen = calloc(1, h->n);
    (void)fuzz_rc(hosts_filter(h, list, o, chosen, &err), &err);
    free(chosen);
}

FUZZ(in) {
    struct pd_options o;
    struct pd_err err = {0};
    struct hosts h = {0};
    size_t n_conf, n_file;
    const char *list = fuzz_text(in), *conf = fuzz_part(in, &n_conf);
    const char *file = fuzz_part(in, &n_file), *roles = fuzz_text(in), *filter = fuzz_text(in);
    (void)fuzz_file("f", file, n_file);
    const char *path = fuzz_file("conf.ini", conf, n_conf);
    if (!fuzz_rc(hosts_parse(&h, list, "a list", &err), &err)) {
        check_hosts(&h);
        hosts_release(&h);
    }
    pd_err_clear(&err);
    fuzz_check(!pd_options_init(&o, NULL));
    int rc = pd_options_read_conf(&o, path, &err);
    if (!rc)
        rc = pd_options_set(&o, PD_LAUNCHER, "cluster", "hosts", list, PD_FROM_CONF_INI,
                            "conf.ini:1", NULL, &err);
    if (!rc)
        rc = hosts_load(&h, &o, &err);
    if (!fuzz_rc(rc, &err)) {
        check_hosts(&h);
        check_roles(&h, roles);
        check_filter(&h, &o, filter);
        hosts_release(&h);
    }
    pd_options_release(&o);
}
