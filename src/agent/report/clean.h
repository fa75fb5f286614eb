/* SPDX-License-Identifier: Apache-2.0 */
/* clean.h - AG_CLEAN removes the remains of earlier jobs under a root_dir.
 *
 *     ROOT/JOB...              kept: running jobs, jobs of the last minute, and the `keep` newest
 *                              of the others
 *     ROOT/.paddlectl/bin/     kept: everything while a job runs here. Otherwise this agent's
 *                              executable, those of the last day, and the newest of each kind
 *     ROOT/.paddlectl/chunks/  kept: catalogs of existing trees, up to store_limit
 *     ROOT/workspaces/         kept: everything, unless the client asks for their removal. Then
 *                              those that a kept job works in, and those of the last day
 *
 * A job's folder is a folder that contains an .agent folder. No other files are touched, and no
 * link is followed. */
#pragma once

#include "agent/client/client.h"

extern const struct client_service clean_service; /* AG_CLEAN; needs no context */
