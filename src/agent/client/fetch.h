/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.h - AG_FETCH: sends a folder of the job to a client. */
#pragma once

#include "agent/client/client.h"

extern const struct client_service fetch_service; /* needs no context */
