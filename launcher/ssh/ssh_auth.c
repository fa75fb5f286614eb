/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_auth.c - the authentication steps.
 *
 *     none (only to learn the server's methods) -> key files -> ssh agent
 *         -> locked key files -> keyboard-interactive -> password
 *
 * The methods that need the user come last, and the user is asked for each secret once for all
 * hosts (ssh_secret.c). A session that waits for the user is in STEP_ASK. The server may end the
 * connection meanwhile (LoginGraceTime); then the session connects again.
 */
#include "launcher/ssh/ssh_internal.h"

enum { RECONNECTS_MAX = 3 };

void auth_note(struct session *s, const char *what, const char *why) {
    size_t n = strlen(s->tried);
    snprintf(s->tried + n, sizeof s->tried - n, "%s%s%s%s%s", n ? ", " : "", what, why ? " (" : "",
             why ? why : "", why ? ")" : "");
}

void auth_begin(struct session *s) {
    s->next_key = s->asked = s->kbd_rounds = s->kbd_prompt = s->kbd_info = s->offered = 0;
    s->password_sent = 0;
    s->tried[0] = s->no_answer[0] = 0;
}

enum ssh_step auth_in(const struct session *s) { return s->jump ? STEP_CARRY : STEP_CHANNEL; }

static const struct {
    unsigned bit;
    const char *name;
} methods[] = {
    {SSH_AUTH_METHOD_PUBLICKEY, "publickey"},
    {SSH_AUTH_METHOD_INTERACTIVE, "keyboard-interactive"},
    {SSH_AUTH_METHOD_PASSWORD, "password"},
    {SSH_AUTH_METHOD_HOSTBASED, "hostbased"},
    {SSH_AUTH_METHOD_GSSAPI_MIC, "gssapi-with-mic"},
};

/* The configuration allows the method, and the server offers it or has not said what it offers. */
static int method_allowed(const struct session *s, unsigned method) {
    unsigned offers = (unsigned)ssh_userauth_list(s->ssh, NULL);
    return (s->target.methods & method) && (!offers || (offers & method));
}

static enum ssh_step auth_denied(struct session *s) {
    char offers[200] = "";
    unsigned bits = (unsigned)ssh_userauth_list(s->ssh, NULL);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (bits & methods[i].bit) {
            size_t n = strlen(offers);
            snprintf(offers + n, sizeof offers - n, "%s%s", n ? ", " : "", methods[i].name);
        }
    return session_fail(s, PD_EAUTH, "authentication failed for user %s; tried: %s%s%s%s%s",
                        s->target.user,
                        s->tried[0] ? s->tried : "nothing (no key file, no ssh agent)",
                        offers[0] ? "; the server offers: " : "", offers,
                        s->no_answer[0] ? "; " : "", s->no_answer);
}

/* The result of a libssh call. libssh 0.11 reports a DISCONNECT ("too many failures") as denied. */
static int auth_answer(const struct session *s, int rc) {
    int closed = ssh_get_status(s->ssh) & (SSH_CLOSED | SSH_CLOSED_ERROR);
    return closed && rc == SSH_AUTH_DENIED ? SSH_AUTH_ERROR : rc;
}

/* The connection broke. If the session waited for the user, the server may have timed out. */
enum ssh_step auth_broken(struct session *s) {
    if (s->asked && s->reconnects < RECONNECTS_MAX) {
        s->reconnects++;
        s->disconnect[0] = 0; /* the reason of the connection that ends here */
        session_drop(s);
        return session_first_step(s);
    }
    const char *jump = jump_failure(s);
    return session_fail(s, PD_EAUTH, "authentication failed for user %s; tried: %s: %s",
                        s->target.user, s->tried[0] ? s->tried : "nothing yet",
                        jump               ? jump
                        : s->disconnect[0] ? s->disconnect
                                           : ssh_get_error(s->ssh));
}

/* --- the methods of the server --- */

enum ssh_step run_none(struct session *s) {
    for (int i = 0; i < s->target.n_keys; i++)
        if (s->target.keys[i]->key && (s->target.methods & SSH_AUTH_METHOD_PUBLICKEY))
            return STEP_KEY_AUTH; /* its refusal lists the methods as well */
    int rc = auth_answer(s, ssh_userauth_none(s->ssh, NULL));
    if (rc == SSH_AUTH_AGAIN)
        return STEP_NONE_AUTH;
    if (rc == SSH_AUTH_SUCCESS)
        return auth_in(s);
    return rc == SSH_AUTH_ERROR ? auth_broken(s) : STEP_KEY_AUTH;
}

/* --- key files --- */

/* Tries one key: returns the next step. STEP_FAILED without an error in `why`: try the next key. */
static enum ssh_step try_key(struct session *s, const struct ssh_key_file *k) {
    int rc = auth_answer(s, ssh_userauth_publickey(s->ssh, NULL, k->key));
    if (rc == SSH_AUTH_AGAIN)
        return s->step;
    if (rc == SSH_AUTH_SUCCESS)
        return auth_in(s);
    auth_note(s, k->path,
              rc == SSH_AUTH_PARTIAL ? "accepted, but the server wants more than a key" : NULL);
    return rc == SSH_AUTH_ERROR ? auth_broken(s) : STEP_FAILED;
}

enum ssh_step run_key(struct session *s) {
    for (; s->next_key < s->target.n_keys && method_allowed(s, SSH_AUTH_METHOD_PUBLICKEY);
         s->next_key++) {
        const struct ssh_key_file *k = s->target.keys[s->next_key];
        if (!k->key && !k->locked && (!k->missing || s->given_identity))
            auth_note(s, k->path, k->why);
        if (!k->key || k->locked)
            continue;
        enum ssh_step next = try_key(s, k);
        if (next != STEP_FAILED || s->why.code)
            return next;
    }
    s->next_key = 0;
    return STEP_AGENT_AUTH;
}

static enum ssh_step ask_user(struct session *s, struct ssh_secret *x, const char *prompt) {
    s->secret = x;
    s->ask_for = s->step;
    s->asked = 1;
    ssh_secret_ask(x, s, prompt);
    return STEP_ASK;
}

enum ssh_step run_ask(struct session *s) {
    if (s->secret->state != SECRET_QUEUED)
        return s->ask_for;
    wait_add(&s->secret->waiters,
             s); /* another session was faster, and the answer was wrong for it */
    return STEP_ASK;
}

/* Would the server take this locked key? 1: yes; 0: no; -1: wait; -2: the connection broke. */
static int offer_key(struct session *s, const struct ssh_key_file *k) {
    if (s->offered || !k->pub)
        return 1;
    int rc = auth_answer(s, ssh_userauth_try_publickey(s->ssh, NULL, k->pub));
    if (rc == SSH_AUTH_AGAIN)
        return -1;
    if (rc == SSH_AUTH_ERROR)
        return -2;
    s->offered = rc == SSH_AUTH_SUCCESS;
    return s->offered;
}

enum ssh_step run_locked_key(struct session *s) {
    for (; s->next_key < s->target.n_keys && method_allowed(s, SSH_AUTH_METHOD_PUBLICKEY);
         s->next_key++, s->offered = 0) {
        const struct ssh_key_file *k = s->target.keys[s->next_key];
        char prompt[400];
        if (!k->locked)
            continue;
        int server_takes = k->key ? 1 : offer_key(s, k);
        if (server_takes < 0)
            return server_takes == -1 ? STEP_LOCKED_KEY_AUTH : auth_broken(s);
        if (!server_takes || !s->target.ask || k->locked->state == SECRET_REFUSED) {
            auth_note(s, k->path,
                      !server_takes   ? NULL
                      : s->target.ask ? k->locked->why
                                      : "locked by a passphrase, and BatchMode is on");
            continue;
        }
        if (!k->key) {
            const char *home = s->pool->home;
            int below = pd_starts_with(k->path, home) && k->path[strlen(home)] == '/';
            snprintf(prompt, sizeof prompt, "Passphrase for %s%s: ", below ? "~" : "",
                     k->path + (below ? strlen(home) : 0));
            return ask_user(s, k->locked, prompt);
        }
        enum ssh_step next = try_key(s, k);
        if (next != STEP_FAILED || s->why.code)
            return next;
    }
    return STEP_KBDINT_AUTH;
}

/* --- passwords and questions --- */

/* A server's text for the user's terminal, without control codes. */
static void put_plain(char *out, size_t cap, const char *text) {
    size_t used = 0, bad;
    for (const char *end = text + strlen(text); text < end && used + 1 < cap; text += bad) {
        size_t ok = pd_printable(text, (size_t)(end - text), &bad);
        ok = ok < cap - 1 - used ? ok : cap - 1 - used;
        memcpy(out + used, text, ok);
        used += ok;
        text += ok;
    }
    out[used] = 0;
}

static struct ssh_secret *password_of(struct session *s) {
    char name[600];
    if (s->password)
        return s->password;
    /* All hosts of a list share a user's password; a jump host may belong to someone else. */
    int rc = s->jump ? pd_fmt(name, sizeof name, "password %s@%s:%d", s->target.user,
                              s->target.host, s->target.port)
                     : pd_fmt(name, sizeof name, "password %s", s->target.user);
    return s->password = rc ? NULL : ssh_secret_get(s->pool, name);
}

static int password_ready(const struct session *s) {
    return s->password->state == SECRET_HAVE && s->password->generation != s->password_tried;
}

/* There is no password yet, or it was wrong: asks, or fails. */
static enum ssh_step want_password(struct session *s) {
    struct ssh_secret *x = s->password;
    char prompt[500];
    if (!s->target.ask) {
        pd_fmt(s->no_answer, sizeof s->no_answer, "no password was asked for: BatchMode is on");
        return auth_denied(s);
    }
    if (x->state == SECRET_REFUSED) {
        pd_fmt(s->no_answer, sizeof s->no_answer, "%s", x->why);
        return auth_denied(s);
    }
    if (x->state == SECRET_HAVE && x->n_asked >= SSH_ASK_MAX)
        return auth_denied(s);
    if (s->jump)
        pd_fmt(prompt, sizeof prompt,
               "%sPassword for %s@%s: ", x->n_asked ? "That was wrong. " : "", s->target.user,
               s->target.host);
    else if (x->n_asked)
        pd_fmt(prompt, sizeof prompt, "%s says that is wrong. Password for %s: ", s->target.alias,
               s->target.user);
    else
        pd_fmt(prompt, sizeof prompt,
               "Password for %s (%s and others that want it): ", s->target.user, s->target.alias);
    return ask_user(s, x, prompt);
}

static void password_refused(struct session *s, const char *method) {
    if (s->password_sent && s->password_tried != (unsigned)s->password_sent)
        auth_note(s, method, NULL);
    if (s->password_sent)
        s->password_tried = (unsigned)s->password_sent;
    s->password_sent = 0;
}

/* Answers prompt i. STEP_KBDINT_AUTH: answered; else the next step. */
static enum ssh_step answer_prompt(struct session *s, unsigned i, int n) {
    char echo = 0, text[300], prompt[700], name[60];
    const char *said = ssh_userauth_kbdint_getprompt(s->ssh, i, &echo);
    put_plain(text, sizeof text, said ? said : "");
    if (n == 1 && !echo && strcasestr(text, "password") && !strcasestr(text, "new ")) {
        if (!password_of(s))
            return session_fail(s, PD_ENOMEM, "out of memory");
        if (!password_ready(s))
            return want_password(s);
        s->password_sent = (int)s->password->generation;
        return ssh_userauth_kbdint_setanswer(s->ssh, i, s->password->text) < 0 ? auth_broken(s)
                                                                               : STEP_KBDINT_AUTH;
    }
    pd_fmt(name, sizeof name, "answer %p", (void *)s);
    struct ssh_secret *x = ssh_secret_get(s->pool, name);
    if (!x)
        return session_fail(s, PD_ENOMEM, "out of memory");
    if (x->state == SECRET_REFUSED || !s->target.ask) {
        pd_fmt(s->no_answer, sizeof s->no_answer, "it asks '%.60s': %.100s", text,
               s->target.ask ? x->why : "BatchMode is on");
        return auth_denied(s);
    }
    if (x->state != SECRET_HAVE) {
        pd_fmt(prompt, sizeof prompt, "(%s@%s) %s", s->target.user, s->target.alias, text);
        x->echo = echo;
        return ask_user(s, x, prompt);
    }
    int rc = ssh_userauth_kbdint_setanswer(s->ssh, i, x->text);
    ssh_secret_forget(x);
    return rc < 0 ? auth_broken(s) : STEP_KBDINT_AUTH;
}

enum ssh_step run_kbdint(struct session *s) {
    while (method_allowed(s, SSH_AUTH_METHOD_INTERACTIVE) && s->kbd_rounds < SSH_ASK_MAX) {
        if (!s->kbd_info) {
            int rc = auth_answer(s, ssh_userauth_kbdint(s->ssh, NULL, NULL));
            if (rc == SSH_AUTH_AGAIN)
                return STEP_KBDINT_AUTH;
            if (rc == SSH_AUTH_SUCCESS)
                return auth_in(s);
            if (rc == SSH_AUTH_ERROR)
                return auth_broken(s);
            if (rc != SSH_AUTH_INFO) {
                int asked = s->kbd_prompt > 0;
                if (asked && !s->password_sent)
                    auth_note(s, "keyboard-interactive", NULL);
                password_refused(s, "keyboard-interactive");
                s->kbd_rounds++;
                s->kbd_prompt = 0;
                if (!asked || rc == SSH_AUTH_PARTIAL) /* the server has no more prompts */
                    break;
                continue;
            }
            s->kbd_info = 1;
            s->kbd_prompt = 0;
        }
        int n = ssh_userauth_kbdint_getnprompts(s->ssh);
        for (; s->kbd_prompt < n; s->kbd_prompt++) {
            enum ssh_step next = answer_prompt(s, (unsigned)s->kbd_prompt, n);
            if (next != STEP_KBDINT_AUTH)
                return next;
        }
        s->kbd_info = 0; /* a request without prompts gets an empty answer */
    }
    return STEP_PASSWORD_AUTH;
}

enum ssh_step run_password(struct session *s) {
    while (method_allowed(s, SSH_AUTH_METHOD_PASSWORD) &&
           (ssh_userauth_list(s->ssh, NULL) & SSH_AUTH_METHOD_PASSWORD)) {
        if (!password_of(s))
            return session_fail(s, PD_ENOMEM, "out of memory");
        if (!s->password_sent && !password_ready(s))
            return want_password(s);
        if (!s->password_sent)
            s->password_sent = (int)s->password->generation;
        int rc = auth_answer(s, ssh_userauth_password(s->ssh, NULL, s->password->text));
        if (rc == SSH_AUTH_AGAIN)
            return STEP_PASSWORD_AUTH;
        if (rc == SSH_AUTH_SUCCESS)
            return auth_in(s);
        if (rc == SSH_AUTH_ERROR)
            return auth_broken(s);
        password_refused(s, "password");
        if (rc == SSH_AUTH_PARTIAL)
            break;
    }
    return auth_denied(s);
}
