/* fetch.h - AG_FETCH: a folder of the job goes to a client. */
#ifndef PD_AGENT_FETCH_H
#define PD_AGENT_FETCH_H

#include "agent/client/client.h"

extern const struct client_service fetch_service; /* without a context */

#endif
