/* models.h - AG_MODELS: the saved models in the job's output folder, and on node 0 the tests that
 * compare passes. */
#ifndef PD_AGENT_MODELS_H
#define PD_AGENT_MODELS_H

#include "agent/client/client.h"

extern const struct client_service models_service; /* needs no context */

#endif
