/* fetch.h - AG_FETCH: sends a folder of the job to a client. */
#ifndef PD_AGENT_FETCH_H
#define PD_AGENT_FETCH_H

#include "agent/client/client.h"

extern const struct client_service fetch_service; /* needs no context */

#endif
