/* SPDX-License-Identifier: Apache-2.0 */
/* model_folder.h - a saved model's folder for fuzz_model and fuzz_load, with the parameters of
 * tests/support/c/ps_frames.h.
 *
 * Input: a byte of flags, the number of parts, u16 bytes of each part and the parts; the rest is
 * manifest.json. Without OWN_MANIFEST the manifest is one that fits to the parts, with their
 * checksums. */
#pragma once

#include "model/model.h"
#include "tests/support/fuzz/fuzz.h"

enum { PARTS = 3, W = 40, DIM = 4 };
enum { OWN_MANIFEST = 1, NO_CHECKSUMS = 2, CHECKPOINT = 4, EXPORT = 8, LAYERS = 16 };

static const char *const files[PARTS] = {"dense-00000-of-00001.bin",
                                         "sparse-00000-of-00001.delta-00001.bin",
                                         "sparse-00000-of-00001.bin"};

static void put_manifest(struct pd_buf *b, unsigned flags, uint8_t *const part[], const size_t *n,
                         size_t n_parts) {
    pd_put_fmt(b,
               "{\"format\":\"paddle-model\",\"version\":1,\"step\":3,\"pass\":1,"
               "\"optimizer_state\":%s,\"parameters\":["
               "{\"name\":\"w\",\"kind\":\"dense\",\"shape\":[%d]},"
               "{\"name\":\"v\",\"kind\":\"dense\",\"shape\":[3]},"
               "{\"name\":\"t\",\"kind\":\"table\",\"dim\":%d,\"rows\":3,\"n_rows\":20}],"
               "\"parts\":[",
               flags & CHECKPOINT ? "true" : "false", W, DIM);
    for (size_t i = 0; i < n_parts; i++) {
        uint8_t hash[16];
        char hex[33];
        model_hash(part[i], n[i], hash);
        pd_hex(hex, hash, sizeof hash);
        pd_put_fmt(b, "%s{\"file\":\"%s\",\"bytes\":%zu,\"xxh3_128\":\"%s\",\"rows\":3%s}",
                   i ? "," : "", files[i], n[i], hex,
                   flags & LAYERS && i == 1 ? ",\"layer\":1" : "");
    }
    pd_put_fmt(b, "],\"resume\":{\"updates\":3,\"samples\":9,\"pass\":1,\"batch\":0,"
                  "\"streams\":[]},\"config\":\"\"}");
}

/* Writes the folder; its flags. */
static unsigned model_folder(struct pd_reader *in) {
    struct pd_buf manifest = {0};
    uint8_t *part[PARTS];
    size_t n[PARTS];
    const unsigned flags = fuzz_u8(in);
    const size_t n_parts = fuzz_u8(in) % (PARTS + 1);
    for (size_t i = 0; i < n_parts; i++) {
        n[i] = fuzz_u8(in);
        n[i] |= (size_t)fuzz_u8(in) << 8;
    }
    for (size_t i = 0; i < n_parts; i++) {
        part[i] = fuzz_bytes(in, n[i]);
        (void)fuzz_file(files[i], part[i], n[i]);
    }
    if (flags & OWN_MANIFEST)
        pd_put(&manifest, in->p, fuzz_left(in));
    else
        put_manifest(&manifest, flags, part, n, n_parts);
    (void)fuzz_file("manifest.json", manifest.data, manifest.len);
    pd_buf_release(&manifest);
    return flags;
}
