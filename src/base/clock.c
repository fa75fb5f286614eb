/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - see clock.h. */

void pd_boot_id(char out[PD_BOOT_ID]) {
    struct pd_buf b = {0};
    pd_fmt(out, PD_BOOT_ID, "%s", "?");
    if (!pd_read_file("/proc/sys/kernel/random/boot_id", PD_BOOT_ID, &b, NULL) && b.len)
        snprintf(out, PD_BOOT_ID, "%.*s", (int)strcspn((char *)b.data, "\n"), (char *)b.data);
    pd_buf_release(&b);
}
