/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h - the reference of train.ini's network as text (Markdown). */
#pragma once

/* Appends the whole reference, or the part `name`: a layer, activation, cost, evaluator, optimizer,
 * schedule, key or heading. PD_EUSAGE: there is no such part. */
int reference_print(const char *name, struct pd_buf *out, struct pd_err *err);

/* The example of the reference: fields and layers that each layer's example uses, and the rest of a
 * whole train.ini. */
extern const char reference_frame[], reference_rest[];
