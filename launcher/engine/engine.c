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
    [PD_ENGINE_KUBERNETES] = &engine_kubernetes,
    [PD_ENGINE_MPI] = &engine_mpi,
};

int engine_options(struct pd_options *o, struct pd_err *err) {
    const struct engine *e = engine_table[o->engine];
    return e->options ? e->options(o, err) : 0;
}

int engine_prepare(struct engine_run *run, const struct pd_options *o, int begins,
                   struct pd_err *err) {
    const struct engine *e = engine_table[o->engine];
    *run = (struct engine_run){.engine = e, .begins = begins};
    int rc = e->prepare ? e->prepare(run, o, err) : 0;
    if (rc)
        engine_release(run);
    return rc;
}

int engine_start(struct engine_run *run, struct pd_err *err) {
    return run->engine->start ? run->engine->start(run, err) : 0;
}

int engine_makes_nodes(const struct pd_options *o) {
    return engine_table[o->engine]->start != NULL;
}

const char *engine_address(const struct engine_run *run, size_t i) {
    return run->engine->address ? run->engine->address(run, i) : NULL;
}

int engine_manifest(struct pd_buf *out, const struct pd_options *o, struct pd_err *err) {
    const struct engine *e = engine_table[o->engine];
    return e->manifest
               ? e->manifest(out, o, err)
               : pd_fail(err, PD_EUSAGE, "engine = %s has no manifests: use --dry-run", e->name);
}

void engine_release(struct engine_run *run) {
    if (run->engine && run->engine->release)
        run->engine->release(run);
    free(run->hosts);
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
