/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_kept.c - files of a job's folder, which the processes of the job may have changed, as an
 * agent reads them: result.json, passes, nodefile; the events of a trainer; the file with the key.
 *
 * Parts: result.json, passes (one event a line), nodefile, the key. */
#include "agent/core/passes.h"
#include "agent/core/result.h"
#include "tests/support/fuzz/fuzz.h"
#include "wire/handshake.h"

static void take_events(const char *text, json_t *result) {
    struct passes s = {0};
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = text + strcspn(text, "\n");
        json_t *event = json_loadb(text, (size_t)(end - text), JSON_REJECT_DUPLICATES, NULL);
        if (json_is_object(event))
            passes_take(&s, event);
        json_decref(event);
    }
    if (json_is_object(result))
        passes_describe(&s, result);
    (void)passes_saved_state(&s);
    passes_release(&s);
}

static void read_key(const char *bytes, size_t n) {
    struct pd_err err = {0};
    uint8_t key[WIRE_KEY_BYTES];
    if (!fuzz_rc(wire_key_read(fuzz_file("key", bytes, n), key, &err), &err))
        fuzz_check(n == WIRE_KEY_BYTES ? !memcmp(key, bytes, n) : n >= 2 * WIRE_KEY_BYTES);
}

FUZZ(in) {
    struct node_paths p;
    char by[80], better[8], status[16];
    size_t n, n_passes, n_node, n_key;
    const char *text = fuzz_part(in, &n), *passes = fuzz_part(in, &n_passes);
    const char *node = fuzz_part(in, &n_node);
    const char *key = fuzz_part(in, &n_key);
    read_key(key, n_key);
    fuzz_check(!node_paths_init(&p, fuzz_folder(), "J", NULL));
    (void)mkdir(p.dir, 0700);
    (void)fuzz_file("J/result.json", text, n);
    (void)fuzz_file("J/passes", passes, n_passes);
    (void)fuzz_file("J/nodefile", node, n_node);
    json_t *result = result_read(&p), *values = passes_values(&p, by, better);
    node_paths_read_status(&p, status);
    fuzz_check(node_paths_read_node(&p) >= -1);
    take_events(passes, result);
    json_decref(result);
    json_decref(values);
}
