/* SPDX-License-Identifier: Apache-2.0 */
/* host_source.h - where the list of hosts comes from, if conf.ini does not write it out:
 *
 *     hosts = $(COMMAND)      the output of a command of /bin/sh: host expressions, # comments
 *     hosts = slurm           the nodes of the Slurm allocation that paddlectl runs in
 *     hosts = mpi             the ranks of `launch`
 */
#pragma once

#include "launcher/hosts/hosts.h"

enum { HOST_SOURCE_MS = 60000, HOST_SOURCE_MAX = 4 << 20 };

/* 1: hosts = mpi, the ranks of `launch`, which are known only when they run. */
int host_source_is_launch(const struct pd_options *opts);

/* Append what a command of /bin/sh prints. Messages begin with `where`. PD_ECONF: it fails, takes
 * longer than HOST_SOURCE_MS, or prints too much or a NUL. */
int host_source_run(const char *command, const char *where, struct pd_buf *out, struct pd_err *err);

/* As hosts_load, which takes these for names of hosts. Standard error of a command is that of this
 * process. PD_ECONF also: the command fails (host_source_run) or prints no host; there is no
 * allocation. */
int host_source_load(struct hosts *out, const struct pd_options *opts, struct pd_err *err);
