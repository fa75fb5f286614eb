/* SPDX-License-Identifier: Apache-2.0 */
/* version.h - the version of the project, the same in all programs. */
#pragma once

#define PD_VERSION "0.1.0"
