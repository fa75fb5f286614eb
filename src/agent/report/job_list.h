/* SPDX-License-Identifier: Apache-2.0 */
/* job_list.h - AG_LIST: the jobs under a root_dir. AG_STATUS: the state of this agent's job. */
#pragma once

#include "agent/client/client.h"
#include "agent/report/status.h"

/* Its context is a struct status_source. */
extern const struct client_service job_list_service;

struct status_source {
    void (*now)(void *arg, struct status_now *out); /* sets every field except `clients` */
    void *arg;
};
