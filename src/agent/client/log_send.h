/* log_send.h - log subscriptions: what is in the log files goes to each client that asked for it,
 * from the place it asked for. */
#ifndef PD_AGENT_LOG_SEND_H
#define PD_AGENT_LOG_SEND_H

#include "agent/client/client.h"
#include "agent/logs/logs.h"

/* AG_LOG_SUBSCRIBE, AG_LOG_ACK. Its context is a struct log_source. */
extern const struct client_service log_send_service;

struct log_source {
    struct logs *logs; /* NULL before the set-up of a job */
    int node;          /* whose logs they are */
};

/* Sends each client what it has not got yet, as far as the client keeps up. */
void log_send_all(struct clients *all);

#endif
