/* SPDX-License-Identifier: Apache-2.0 */
/* pservers.c - completes the list of servers that a user wrote. */
#include "conf/options.h"

int pd_options_complete_pservers(struct pd_options *o, struct pd_err *err) {
    struct pd_buf b = {0};
    for (const char *s = o->pserver_list; *s;) {
        size_t n = strcspn(s, ", ");
        if (n) {
            const char *close = memchr(s, ']', n), *from = close ? close : s,
                       *colon = memchr(from, ':', (size_t)(s + n - from));
            int bare_v6 = colon && !close && memchr(colon + 1, ':', (size_t)(s + n - colon - 1));
            pd_put_fmt(&b, "%s%s%.*s%s", b.len ? "," : "", bare_v6 ? "[" : "", (int)n, s,
                       bare_v6 ? "]" : "");
            if (!colon || bare_v6)
                pd_put_fmt(&b, ":%lld", (long long)o->port);
        }
        s += n + (s[n] != 0);
    }
    pd_put_u8(&b, 0);
    char *list = b.failed ? NULL : pd_strdup((char *)b.data);
    pd_buf_release(&b);
    if (!list)
        return pd_oom(err, "the list of pservers");
    free(o->pserver_list);
    o->pserver_list = list;
    return 0;
}
