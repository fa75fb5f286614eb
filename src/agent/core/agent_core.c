/* SPDX-License-Identifier: Apache-2.0 */
/* agent_core.c - see agent_core.h. */
#include "agent/core/agent_core.h"

#include "pack/object/object.h"

int agent_core_init(struct agent_core *a, const struct node_paths *p, enum agent_mode mode,
                    const char *build, struct pd_err *err) {
    *a = (struct agent_core){.mode = mode, .paths = *p};
    pd_log_init(&a->log, -1, -1, PD_INFO);
    if (uv_loop_init(&a->loop))
        return pd_fail(err, PD_ENOMEM, "no memory for an event loop");
    if (build) {
        snprintf(a->build, sizeof a->build, "%s", build);
        return 0;
    }
    int rc = object_hex_of_file("/proc/self/exe", a->build, err);
    if (rc)
        uv_loop_close(&a->loop);
    return rc;
}

int agent_node_id(const struct agent_core *a) {
    return *a->paths.job ? node_paths_read_node(&a->paths) : -1;
}
