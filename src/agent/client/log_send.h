/* SPDX-License-Identifier: Apache-2.0 */
/* log_send.h - log subscriptions: sends the bytes of log files to each subscribed client, from the
 * offset that the client asked for. */
#pragma once

#include "agent/client/client.h"
#include "agent/logs/logs.h"

/* Handles AG_LOG_SUBSCRIBE and AG_LOG_ACK. Its context is a struct log_source. */
extern const struct client_service log_send_service;

struct log_source {
    struct logs *logs; /* NULL before the set-up of a job */
    int node;          /* the node that wrote the logs */
};

/* Sends each client its next bytes, as far as the client keeps up. */
void log_send_all(struct clients *all);
