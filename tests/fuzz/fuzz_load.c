/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_load.c - a server thread loads a saved model or a checkpoint (PS_LOAD), and trains a step
 * with what it has then.
 *
 * Input: u8: 1 full, with the optimizer's state; 2 geo; 4 rows that come and go; what a missing
 * parameter means. Then model_folder.h. */
#include "tests/support/fuzz/model_folder.h"
#include "tests/support/c/ps_frames.h"

FUZZ(in) {
    static const uint64_t keys[] = {1, 3, 7, 19};
    static const float g[4 * FR_DIM] = {1, -1, 0.5f};
    static const double stats[4] = {1, 2};
    struct pd_row_life life;
    struct recorder r;
    const unsigned how = fuzz_u8(in);
    (void)model_folder(in);
    pd_row_life_init(&life);
    life.admit_count = 2;
    life.admit_candidates = 1024;
    life.ageing = 1;
    fr_update = how & 2 ? "geo" : "sync";
    fr_life = how & 4 && !(how & 2) ? &life : NULL;
    struct ps_shard *s = rec_shard(&r, 1);
    const uint32_t ids[] = {0, 1};
    fuzz_check(!ps_shard_frame(s, 0, "fuzz", f_declare(1, 0), NULL));
    for (int i = 0; i < 2; i++) /* another time over the first one */
        (void)ps_shard_frame(
            s, 0, "fuzz",
            FRAME(PS_LOAD, load, .folder = fuzz_folder(), .missing = how >> 3 & 3, .full = how & 1),
            NULL);
    (void)ps_shard_frame(s, 0, "fuzz", f_pull_rows(0, 0, 0, 0, keys, 4), NULL);
    (void)ps_shard_frame(s, 0, "fuzz", f_push_dense(0, 0, 0, (float[FR_VALUES]){1}, FR_VALUES),
                         NULL);
    (void)ps_shard_frame(s, 0, "fuzz", f_push_rows(0, 0, 0, 0, keys, 4, g), NULL);
    (void)ps_shard_frame(s, 0, "fuzz", f_step_end(0, 0, 1, stats, 2), NULL);
    (void)ps_shard_frame(s, 0, "fuzz", f_pull_dense(1, 2, ids), NULL);
    (void)ps_shard_frame(s, 0, "fuzz", f_pull_rows(1, 0, 0, 0, keys, 4), NULL);
    ps_shard_free(s);
}
