/* SPDX-License-Identifier: Apache-2.0 */
/* image.h - shapes, for the layers over images. */
#pragma once

#include "nn/graph/graph_internal.h"

#define NN_IMAGE_KEYS "channels", "height", "width", "filter", "stride", "padding"

/* The image shape of the first input: its own, or the layer's channels, height, width. PD_ECONF. */
int nn_image_input(struct nn_build *b, struct nn_node *self, struct nn_image *out,
                   struct pd_err *err);
/* Set self->window from filter, stride and padding, and self->image and self->size to the output,
 * which has `channels` channels. The caller has set self->window.in. The default stride is
 * default_stride; 0: the filter's size. */
int nn_image_window(struct nn_build *b, struct nn_node *self, uint32_t channels,
                    uint32_t default_stride, struct pd_err *err);
