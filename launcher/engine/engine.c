/* SPDX-License-Identifier: Apache-2.0 */
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

/* paddlectl init writes hosts = local*2, which would hide that the engine is not used. */
static int check_hosts(const struct pd_options *o, struct pd_err *err) {
    const struct pd_origin *from = &o->origin[pd_options_find("hosts", PD_LAUNCHER)];
    const int is_local = !strncmp(o->hosts, "local", 5) && strchr("* ,", o->hosts[5]);
    if (!is_local || from->level == PD_FROM_DEFAULT ||
        (o->engine != PD_ENGINE_SLURM && o->engine != PD_ENGINE_MPI))
        return 0;
    return pd_fail(err, PD_ECONF,
                   "%s: hosts = %s is this machine, but engine = %s: remove hosts, or use engine = "
                   "local",
                   from->where, o->hosts, engine_table[o->engine]->name);
}

static int check_nodes(const struct pd_options *o, struct pd_err *err) {
    if (!o->nodes || o->engine == PD_ENGINE_SLURM || o->engine == PD_ENGINE_KUBERNETES)
        return 0;
    return pd_fail(err, PD_ECONF,
                   "%s: nodes is for engine = slurm and kubernetes; with engine = %s, hosts names "
                   "the nodes",
                   o->origin[pd_options_find("nodes", PD_LAUNCHER)].where,
                   engine_table[o->engine]->name);
}

int engine_options(struct pd_options *o, struct pd_err *err) {
    const struct engine *e = engine_table[o->engine];
    int rc = check_hosts(o, err);
    rc = rc ? rc : check_nodes(o, err);
    return rc || !e->options ? rc : e->options(o, err);
}

int engine_outside(const struct pd_options *o, const struct engine_call *call, int *status,
                   struct pd_err *err) {
    const struct engine *e = engine_table[o->engine];
    return e->outside ? e->outside(o, call, status, err) : 0;
}

void engine_ended(const struct pd_options *o, int status) {
    if (engine_table[o->engine]->ended)
        engine_table[o->engine]->ended(status);
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

int engine_is_up(const struct engine_run *run, size_t i) {
    return !run->engine->is_up || run->engine->is_up(run, i);
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
    const int row = pd_options_find(option, PD_LAUNCHER);
    struct pd_buf now = {0};
    char where[64];
    pd_options_text(o, (size_t)row, &now);
    if (!now.len) /* also `connect =` in conf.ini */
        o->origin[row].level = PD_FROM_DEFAULT;
    pd_buf_release(&now);
    snprintf(where, sizeof where, "engine = %s", engine_table[o->engine]->name);
    return pd_options_set(o, PD_LAUNCHER, NULL, option, value, PD_FROM_DEFAULT, where, NULL, err);
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
