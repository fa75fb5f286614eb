/* SPDX-License-Identifier: Apache-2.0 */
/* models.h - AG_MODELS: the saved models in the job's output folder, and on node 0 the tests that
 * compare passes. */
#pragma once

#include "agent/client/client.h"

extern const struct client_service models_service; /* needs no context */
