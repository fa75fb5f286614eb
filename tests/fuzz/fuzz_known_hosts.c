/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_known_hosts.c - known_hosts files. A key that was added for a host is known for it, unless
 * the file revokes it.
 *
 * Parts: a host's name, then the file. */
#include "launcher/ssh/known_hosts.h"
#include "tests/support/fuzz/fuzz.h"

static const char type[] = "ssh-ed25519", key[] = "AAAAC3NzaC1lZDI1NTE5AAAAIA";

FUZZ(in) {
    struct pd_err err = {0};
    struct known_hosts *kh = NULL;
    struct kh_answer a;
    size_t n;
    const char *name = fuzz_text(in), *text = fuzz_part(in, &n);
    const char *path = fuzz_file("known_hosts", text, n), *const files[] = {path, "/missing"};
    if (!*name || strlen(name) > 250 ||
        name[strspn(name, "ABCDEFGHabcdefgh0123456789.:-_")] /* as in a list of hosts */)
        name = "gpu-01";
    if (fuzz_rc(known_hosts_load(&kh, files, 2, &err), &err))
        return;
    for (int port = 22; port < 24; port++) {
        known_hosts_check(kh, name, port, type, key, &a);
        fuzz_check((a.verdict == KH_UNKNOWN) == !*a.where);
        fuzz_check(a.verdict != KH_OTHER_TYPES || *a.types);
    }
    fuzz_check(!known_hosts_add(kh, path, name, 22, type, key, &err));
    known_hosts_check(kh, name, 22, type, key, &a);
    fuzz_check(a.verdict == KH_OK || a.verdict == KH_REVOKED);
    const enum kh_verdict before = a.verdict;
    known_hosts_free(kh);
    fuzz_check(!known_hosts_load(&kh, files, 1, &err)); /* the file says the same */
    known_hosts_check(kh, name, 22, type, key, &a);
    fuzz_check(a.verdict == before);
    known_hosts_free(kh);
}
