/* SPDX-License-Identifier: Apache-2.0 */
/* no_kerberos.c - for the static release: libssh.a calls GSSAPI, of which Debian has no static
 * library. Every call fails, and libssh goes on with the next method of authentication. */
enum { GSS_S_UNAVAILABLE = 16 << 16 };
#define UNAVAILABLE(name) \
    unsigned name(void);  \
    unsigned name(void) { return GSS_S_UNAVAILABLE; }
UNAVAILABLE(gss_accept_sec_context)
UNAVAILABLE(gss_acquire_cred)
UNAVAILABLE(gss_add_oid_set_member)
UNAVAILABLE(gss_create_empty_oid_set)
UNAVAILABLE(gss_display_name)
UNAVAILABLE(gss_display_status)
UNAVAILABLE(gss_get_mic)
UNAVAILABLE(gss_import_name)
UNAVAILABLE(gss_indicate_mechs)
UNAVAILABLE(gss_init_sec_context)
UNAVAILABLE(gss_inquire_cred)
UNAVAILABLE(gss_inquire_cred_by_mech)
UNAVAILABLE(gss_release_buffer)
UNAVAILABLE(gss_release_cred)
UNAVAILABLE(gss_release_name)
UNAVAILABLE(gss_release_oid_set)
UNAVAILABLE(gss_test_oid_set_member)
UNAVAILABLE(gss_verify_mic)

extern void *GSS_C_NT_HOSTBASED_SERVICE, *GSS_C_NT_USER_NAME;
void *GSS_C_NT_HOSTBASED_SERVICE, *GSS_C_NT_USER_NAME;
