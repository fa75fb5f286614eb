/* SPDX-License-Identifier: Apache-2.0 */
/* package_taker.c - a node that takes a package from this node: messages to it, and its end. See
 * package.h. */
#include "agent/package/package.h"
#include "wire/msg.h"

void package_taker_gone(struct package_taker *t) {
    pd_buf_release(&t->out);
    free(t->ready);
    free(t->waiting);
    client_unref(t->all->c);
    free(t);
}

void package_taker_refuse(struct package_taker *t, const struct pd_err *e) {
    pd_warn(&client_core(t->all->c)->log, "%s, which takes a package from here: %s",
            net_peer_addr(t->conn), e->msg);
    net_send_error(t->conn, WIRE_DS_OBJECT, 0, e); /* the taker then closes the connection */
    t->refused = 1;
}

void package_taker_flush(struct package_taker *t) {
    if (t->out.len && t->conn && msg_send_payload(t->conn, WIRE_DS_OBJECT, t->out.data, t->out.len))
        net_close(t->conn);
    pd_buf_clear(&t->out);
    if (t->err.code && t->conn && !t->refused) {
        struct pd_err e = t->err;
        package_taker_refuse(t, &e);
        t->n_ready = t->n_waiting = 0;
    }
}
