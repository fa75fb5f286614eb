/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_target.c - the host of a session and how to reach it: conf.ini first, then ~/.ssh/config,
 * then the defaults of ssh. */
#include <pwd.h>
#include <sys/socket.h>

#include "launcher/ssh/ssh_internal.h"

void ssh_target_release(struct ssh_target *t) {
    free(t->alias);
    free(t->host);
    free(t->user);
    free(t->key_name);
    free(t->agent_path);
    free(t->jump);
    free(t->proxy);
    free(t->bind);
    memset(t, 0, sizeof *t);
}

static int is_no(const char *value) {
    return value && (!strcasecmp(value, "no") || !strcasecmp(value, "false"));
}
static int is_yes(const char *value) {
    return value && (!strcasecmp(value, "yes") || !strcasecmp(value, "true"));
}

/* NULL and "none" are copied as NULL. */
static int copy_value(char **to, const char *from) {
    *to = NULL;
    return from && strcasecmp(from, "none") && !(*to = pd_strdup(from)) ? PD_ENOMEM : 0;
}

static const char *local_user(void) {
    struct passwd *pw = getpwuid(getuid());
    const char *user = pw ? pw->pw_name : getenv("USER");
    return user ? user : "root";
}

/* Expands the tokens of ssh_config(5), TOKENS. malloc'ed; NULL: out of memory. */
static char *expand_tokens(const struct ssh_pool *pool, const struct ssh_target *t,
                           const char *text) {
    char name[300], number[24], *out;
    struct pd_buf b = {0};
    if (gethostname(name, sizeof name))
        name[0] = 0;
    name[sizeof name - 1] = 0;
    for (const char *s = text; *s; s++) {
        const char *put = NULL;
        pd_fmt(number, sizeof number, "%d", s[0] == '%' && s[1] == 'i' ? (int)getuid() : t->port);
        if (s[0] == '%')
            switch (s[1]) {
            case 'd':
                put = pool->home;
                break;
            case 'h':
                put = t->host;
                break;
            case 'k':
                put = t->key_name ? t->key_name : t->alias;
                break;
            case 'n':
                put = t->alias;
                break;
            case 'r':
                put = t->user;
                break;
            case 'u':
                put = local_user();
                break;
            case 'l':
                put = name;
                break;
            case 'L':
                name[strcspn(name, ".")] = 0, put = name;
                break;
            case 'i':
            case 'p':
                put = number;
                break;
            case 'j':
                put = t->jump ? t->jump : "";
                break;
            case '%':
                put = "%";
                break;
            }
        if (s[0] == '$' && s[1] == '{' && strchr(s, '}')) {
            char variable[100];
            const char *end = strchr(s, '}');
            pd_fmt(variable, sizeof variable, "%.*s", (int)(end - s - 2), s + 2);
            put = getenv(variable);
            pd_put_fmt(&b, "%s", put ? put : "");
            s = end;
        } else if (put) {
            pd_put_fmt(&b, "%s", put);
            s++;
        } else {
            pd_put_u8(&b, (uint8_t)*s);
        }
    }
    pd_put_u8(&b, 0);
    out = b.failed ? NULL : pd_strdup((char *)b.data);
    pd_buf_release(&b);
    return out;
}

static int add_key(struct ssh_pool *pool, struct ssh_target *t, const char *text) {
    char *tokens = expand_tokens(pool, t, text),
         *path = tokens ? ssh_pool_expand(pool, tokens) : NULL;
    struct ssh_key_file *k = path ? ssh_pool_key(pool, path) : NULL;
    free(tokens);
    free(path);
    if (!k)
        return PD_ENOMEM;
    for (int i = 0; i < t->n_keys; i++)
        if (t->keys[i] == k)
            return 0;
    if (t->n_keys < SSH_KEYS_MAX)
        t->keys[t->n_keys++] = k;
    return 0;
}

static int add_keys(struct session *s, const struct ssh_settings *conf) {
    static const char *const usual[] = {"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"};
    struct ssh_target *t = &s->target;
    int rc = 0;
    if (s->given_identity || *s->pool->identity_file)
        return add_key(s->pool, t, s->given_identity ? s->given_identity : s->pool->identity_file);
    for (int i = 0; !rc && i < conf->n_identities; i++)
        if (strcasecmp(conf->identities[i], "none"))
            rc = add_key(s->pool, t, conf->identities[i]);
    for (size_t i = 0; !rc && !conf->n_identities && i < sizeof usual / sizeof usual[0]; i++)
        rc = add_key(s->pool, t, usual[i]);
    return rc;
}

static int set_agent(struct session *s, const struct ssh_settings *conf) {
    const char *path = conf->agent;
    if (!path || !strcmp(path, "SSH_AUTH_SOCK"))
        path = getenv("SSH_AUTH_SOCK");
    else if (path[0] == '$')
        path = getenv(path + 1);
    if (!path || !*path || !strcasecmp(path, "none"))
        return 0;
    char *tokens = expand_tokens(s->pool, &s->target, path);
    s->target.agent_path = tokens ? ssh_pool_expand(s->pool, tokens) : NULL;
    free(tokens);
    return s->target.agent_path ? 0 : PD_ENOMEM;
}

/* [ssh] proxy_jump holds for the nodes only. ProxyJump and ProxyCommand of ~/.ssh/config hold for
 * nodes and jump hosts. */
static int set_jump(struct session *s, const struct ssh_settings *conf) {
    struct ssh_target *t = &s->target;
    if (s->given_jump)
        return copy_value(&t->jump, s->given_jump);
    if (!s->jump && *s->pool->proxy_jump)
        return copy_value(&t->jump, s->pool->proxy_jump);
    if (conf->proxy_jump &&
        strcmp(conf->proxy_jump, s->alias)) /* `Host *` covers the jump host as well */
        return copy_value(&t->jump, conf->proxy_jump);
    if (!conf->proxy_command || !strcasecmp(conf->proxy_command, "none"))
        return 0;
    return (t->proxy = expand_tokens(s->pool, t, conf->proxy_command)) ? 0 : PD_ENOMEM;
}

static int set_slot(struct session *s) {
    const struct ssh_target *t = &s->target;
    struct pd_buf name = {0};
    pd_put_fmt(&name, "%s:%d", t->host, t->port);
    if (t->jump)
        pd_put_fmt(&name, " %s", t->jump);
    pd_put_u8(&name, 0);
    s->slot = name.failed ? NULL : ssh_pool_slot(s->pool, (char *)name.data);
    pd_buf_release(&name);
    return s->slot ? 0 : PD_ENOMEM;
}

int ssh_target_make(struct session *s, const struct ssh_settings *conf, struct pd_err *err) {
    struct ssh_target *t = &s->target;
    struct ssh_pool *pool = s->pool;
    int64_t port = 22;
    int rc = 0;
    if (conf->port && pd_parse_i64(conf->port, 1, 65535, &port))
        return pd_fail(err, PD_ECONF, "ssh_config: port is 1..65535, not '%s'", conf->port);
    t->port = s->given_port ? s->given_port : (int)port;
    const char *host = s->given_address ? s->given_address
                       : conf->hostname ? conf->hostname
                                        : s->alias;
    const char *user = s->given_user ? s->given_user : conf->user ? conf->user : local_user();
    const char *family = conf->family ? conf->family : "any",
               *strict = conf->strict ? conf->strict : "ask";
    t->family = !strcasecmp(family, "inet")    ? AF_INET
                : !strcasecmp(family, "inet6") ? AF_INET6
                                               : AF_UNSPEC;
    t->accept_new = pool->accept_new;
    if (!pool->policy_named &&
        (!strcasecmp(strict, "accept-new") || !strcasecmp(strict, "off") || is_no(strict)))
        t->accept_new = 1;
    t->only_named_keys = is_yes(conf->identities_only);
    t->ask = !is_yes(conf->batch);
    t->methods = (is_no(conf->publickey) ? 0 : SSH_AUTH_METHOD_PUBLICKEY) |
                 (is_no(conf->password) ? 0 : SSH_AUTH_METHOD_PASSWORD) |
                 (is_no(conf->kbdint) ? 0 : SSH_AUTH_METHOD_INTERACTIVE);
    if (copy_value(&t->alias, s->alias) || !t->alias || !(t->host = pd_strdup(host)) ||
        !(t->user = pd_strdup(user)) || copy_value(&t->bind, conf->bind_address) ||
        set_jump(s, conf) ||
        (conf->key_alias && !(t->key_name = expand_tokens(pool, t, conf->key_alias))) ||
        add_keys(s, conf) || set_agent(s, conf) || set_slot(s))
        rc = pd_oom(err, "an ssh session");
    if (!rc && !(t->known = ssh_pool_known(pool, conf->known_hosts, conf->global_known_hosts, err)))
        rc = err->code;
    return rc;
}
