/* SPDX-License-Identifier: Apache-2.0 */
/* params_admit.c - tables whose rows are admitted and age: decides which keys get a row in an
 * update, and ends a day.
 *
 * In such a table pulls create no rows. A push brings the shows and clicks of its keys. When all
 * contributions of an update are complete, each key is admitted or not. The gradient of a key that
 * is not admitted is dropped. */
#include "ps/shard/params.h"

int shard_list_keep_keys(struct row_list *l, const uint64_t *keys, size_t n) {
    if (pd_grow(l->keys, l->cap_keys, n))
        return PD_ENOMEM;
    memcpy(l->keys, keys, n * sizeof *keys);
    return 0;
}

int shard_list_look_again(const struct ps_table *t, struct row_list *l) {
    for (size_t i = 0; i < l->n; i++)
        if (l->rows[i] == PS_ROW_NONE)
            return ps_table_find((struct ps_table *)(uintptr_t)t, l->keys, l->n, 0, l->rows);
    return 0;
}

int ps_params_admit(struct ps_params *p, uint32_t id, uint32_t n_parts) {
    struct ps_table *t = p->tables[id];
    struct ps_row_policy *life = &p->policies[id];
    int rc = 0;
    for (uint32_t i = 0; i < n_parts && !rc; i++) {
        struct row_push *push = &p->scratch.parts[i]->tables[id];
        if (!push->pushed)
            continue;
        rc = shard_list_look_again(t, &push->list);
        for (size_t j = 0; j < push->list.n && !rc; j++)
            if (push->list.rows[j] == PS_ROW_NONE)
                rc = ps_row_policy_show(life, push->list.keys[j], push->seen[2 * j]);
    }
    for (uint32_t i = 0; i < n_parts && !rc; i++) {
        struct row_push *push = &p->scratch.parts[i]->tables[id];
        for (size_t j = 0; push->pushed && j < push->list.n && !rc; j++) {
            uint32_t *row = &push->list.rows[j];
            if (*row == PS_ROW_NONE) /* another contribution may have created it */
                rc = ps_table_find(t, &push->list.keys[j], 1, 0, row);
            if (!rc && *row == PS_ROW_NONE &&
                ps_row_policy_admit(life, push->list.keys[j], p->updates))
                rc = ps_table_find(t, &push->list.keys[j], 1, 1, row);
            if (!rc && *row != PS_ROW_NONE && life->conf.ageing > 0) {
                (void)ps_table_change(t, *row);
                ps_row_policy_seen(ps_table_seen(t, *row), push->seen[2 * j],
                                   push->seen[2 * j + 1]);
            }
        }
    }
    return rc;
}

int ps_params_day_end(struct ps_params *p, struct ps_row_policy_day *out, struct pd_err *err) {
    *out = (struct ps_row_policy_day){0};
    for (uint32_t i = 0; p->tables && i < p->decl.n_sparse; i++) {
        struct ps_row_policy_day one;
        if (!p->policies[i].active)
            continue;
        if (ps_row_policy_day(&p->policies[i], p->tables[i], &one))
            return pd_fail(err, PD_ENOMEM, "no memory for the end of a day of table '%s'",
                           p->decl.sparse[i].name);
        out->removed += one.removed;
        out->rows += one.rows;
        out->candidates += one.candidates;
    }
    return 0;
}
