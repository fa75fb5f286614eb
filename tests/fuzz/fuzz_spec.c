/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_spec.c - AG_JOB_SETUP's body and HD_START's variables as the agent of a node reads them, and
 * the environment that its processes get.
 *
 * Parts: the body, the object of HD_START. */
#include "agent/process/env.h"
#include "tests/support/fuzz/fuzz.h"

static void check_environ(char *const *env) {
    for (size_t i = 0; env[i]; i++) {
        const char *eq = strchr(env[i], '=');
        fuzz_check(eq && eq > env[i]);
        for (size_t k = 0; k < i; k++) /* no name twice */
            fuzz_check(strncmp(env[i], env[k], (size_t)(eq - env[i]) + 1));
    }
}

FUZZ(in) {
    static char path[] = "PATH=/bin", port[] = "PADDLE_PORT=1";
    static char *const inherited[] = {path, port, NULL};
    struct pd_err err = {0};
    struct spec s;
    struct node_paths p;
    size_t n, n_env;
    const char *text = fuzz_part(in, &n), *of_head = fuzz_part(in, &n_env);
    json_t *body = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    json_t *env = json_loadb(of_head, n_env, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(body) && !fuzz_rc(spec_parse(&s, body, "J", &err), &err)) {
        struct env_role r = {.role = ROLE_TRAINER, .n_trainers = s.roles.n[ROLE_TRAINER]};
        if (json_is_object(env) && !env_check(env, &err))
            r.job_env = env;
        for (int k = 0; k < N_ROLES; k++)
            for (int i = 0; i < s.roles.n[k]; i++)
                fuzz_check(s.roles.nodes[k][i] >= 0 && s.roles.nodes[k][i] < s.n_nodes);
        fuzz_check(!node_paths_init(&p, "/tmp/fuzz", "J", NULL));
        char **v = env_build(&p, &s, &r, inherited);
        if (v)
            check_environ(v);
        env_free(v);
        spec_release(&s);
    }
    json_decref(body);
    json_decref(env);
}
