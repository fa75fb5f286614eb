/* shard_life.c - tables whose rows are admitted and age: who gets a row in an update, and a day's end.
 *
 * In such a table pulls make no rows: a push brings the shows and clicks of its keys, and when all contributions of an update are
 * there it is decided which of them get a row. A key that gets none has no gradient applied.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "ps/shard/shard_int.h"

int shard_keep_keys(struct row_list *l, const uint64_t *keys, size_t n) {
    if (shard_room(&l->keys, &l->cap_keys, n, sizeof *l->keys))
        return PD_ENOMEM;
    memcpy(l->keys, keys, n * sizeof *keys);
    return 0;
}

/* Rows may have been made since the list was looked up. 0 or PD_ENOMEM. */
int shard_look_again(const struct ps_table *t, struct row_list *l) {
    for (size_t i = 0; i < l->n; i++)
        if (l->rows[i] == PS_ROW_NONE)
            return ps_table_find((struct ps_table *)(uintptr_t)t, l->keys, l->n, 0, l->rows);
    return 0;
}

/* u32 shows and u32 clicks of each key. */
int shard_check_seen(const uint32_t *seen, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (seen[2 * i + 1] > seen[2 * i])
            return PD_EPROTO;
    return 0;
}

int shard_admit(struct ps_shard *s, uint32_t id, uint32_t n_parts) {
    struct ps_table *t = s->tables[id];
    struct ps_life *life = &s->lives[id];
    int rc = 0;
    for (uint32_t i = 0; i < n_parts && !rc; i++) {
        struct row_push *p = &s->parts[i]->tables[id];
        if (!p->here)
            continue;
        rc = shard_look_again(t, &p->list);
        for (size_t j = 0; j < p->list.n && !rc; j++)
            if (p->list.rows[j] == PS_ROW_NONE)
                rc = ps_life_show(life, p->list.keys[j], p->seen[2 * j]);
    }
    for (uint32_t i = 0; i < n_parts && !rc; i++) {
        struct row_push *p = &s->parts[i]->tables[id];
        for (size_t j = 0; p->here && j < p->list.n && !rc; j++) {
            uint32_t *row = &p->list.rows[j];
            if (*row == PS_ROW_NONE) /* another contribution may have brought it in */
                rc = ps_table_find(t, &p->list.keys[j], 1, 0, row);
            if (!rc && *row == PS_ROW_NONE && ps_life_admit(life, p->list.keys[j], s->updates))
                rc = ps_table_find(t, &p->list.keys[j], 1, 1, row);
            if (!rc && *row != PS_ROW_NONE && life->conf.ageing > 0) {
                (void)ps_table_change(t, *row);
                ps_life_seen(ps_table_seen(t, *row), p->seen[2 * j], p->seen[2 * j + 1]);
            }
        }
    }
    return rc;
}

int shard_day_end(struct ps_shard *s, const struct wire_frame *f, struct ps_body *out, struct pd_err *err) {
    struct ps_msg_day_ended all = {0};
    struct ps_life_day one;
    const struct ps_body b = ps_body_of(f);
    struct ps_msg_day_end m;
    if (ps_get_day_end(&b, &m, err))
        return PD_EPROTO;
    if (shard_steps_under_way(s))
        return pd_fail(err, PD_EPROTO, "PS_DAY_END while a step is under way");
    for (uint32_t i = 0; s->tables && i < s->job.n_sparse; i++) {
        if (!s->lives[i].active)
            continue;
        if (ps_life_day(&s->lives[i], s->tables[i], &one))
            return pd_fail(err, PD_ENOMEM, "no memory for the end of a day of table '%s'", s->job.sparse[i].name);
        all.removed += one.removed;
        all.rows += one.rows;
        all.candidates += one.candidates;
    }
    shard_forget_rows(s);
    shard_chain_drop(s); /* what is gone cannot be said by a save of changes */
    ps_put_day_ended(out, &all);
    return 0;
}
