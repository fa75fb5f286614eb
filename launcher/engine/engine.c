/* engine.c - see engine.h. */
#include "launcher/engine/engine.h"

static int local_options(struct pd_options *o, struct pd_err *err) {
    return engine_set(o, "hosts", "local", err);
}

static const struct engine ssh = {.name = "ssh"};
static const struct engine local = {.name = "local", .options = local_options};

const struct engine *const engine_table[PD_N_ENGINES] = {
    [PD_ENGINE_SSH] = &ssh,
    [PD_ENGINE_LOCAL] = &local,
    [PD_ENGINE_SLURM] = &engine_slurm,
};

int engine_options(struct pd_options *o, struct pd_err *err) {
    const struct engine *e = engine_table[o->engine];
    return e->options ? e->options(o, err) : 0;
}

int engine_prepare(struct engine_run *run, const struct pd_options *o, struct pd_err *err) {
    const struct engine *e = engine_table[o->engine];
    *run = (struct engine_run){0};
    int rc = e->prepare ? e->prepare(run, o, err) : 0;
    if (!rc)
        run->engine = e;
    return rc;
}

void engine_release(struct engine_run *run) {
    if (run->engine && run->engine->release)
        run->engine->release(run);
    *run = (struct engine_run){0};
}

int engine_set(struct pd_options *o, const char *option, const char *value, struct pd_err *err) {
    char where[64];
    snprintf(where, sizeof where, "engine = %s", engine_table[o->engine]->name);
    return pd_options_set(o, PD_LAUNCHER, "cluster", option, value, PD_FROM_DEFAULT, where, NULL,
                          err);
}

int engine_needs(const struct pd_options *o, const char *program, struct pd_err *err) {
    const char *path = getenv("PATH");
    char file[PATH_MAX];
    for (const char *s = path; s && *s; s += strspn(s, ":")) {
        int n = (int)strcspn(s, ":");
        if (!pd_fmt(file, sizeof file, "%.*s/%s", n, s, program) && !access(file, X_OK))
            return 0;
        s += n;
    }
    return pd_fail(err, PD_ENOENT, "%s: engine = %s needs %s, which is not installed here",
                   o->origin[pd_options_find("engine", PD_LAUNCHER)].where,
                   engine_table[o->engine]->name, program);
}
