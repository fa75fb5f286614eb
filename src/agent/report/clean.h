/* clean.h - what earlier jobs left under a root_dir, found and removed; AG_CLEAN.
 *
 *     ROOT/JOB...            kept: what runs, what was made within the last minute, the `keep`
 * newest of the others ROOT/.paddlectl/bin/   kept: all while a job runs here; else the executables
 * of a day, this agent's, the newest of each kind (uploads that broke off: removed after a day)
 *     ROOT/.paddlectl/chunks/   what the store knows of trees that are there; more than
 * store_limit: the least recently used go (pack/store/store.h) ROOT/workspaces/       only when
 * asked: kept: those that a kept job works in, and those of a day
 *
 * A job's folder is one that has our .agent folder inside; nothing else is looked at, links are
 * never followed.
 */
#ifndef PD_AGENT_CLEAN_H
#define PD_AGENT_CLEAN_H

#include "agent/client/client.h"

extern const struct client_service clean_service; /* AG_CLEAN; without a context */

#endif
