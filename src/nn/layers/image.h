/* image.h - what layers over images have in common: shapes. */
#ifndef PD_NN_IMAGE_H
#define PD_NN_IMAGE_H

#include "nn/graph/graph_internal.h"

#define NN_IMAGE_KEYS "channels", "height", "width", "filter", "stride", "padding"

/* The image that the first input is: its own shape, or what the layer's channels, height, width
 * say. PD_ECONF. */
int nn_image_input(struct nn_build *b, struct nn_node *self, struct nn_image *out,
                   struct pd_err *err);
/* self->window from filter, stride (default: default_stride, 0: the filter's) and padding,
 * self->window.in given; self->image and self->size are what comes out, with so many channels. */
int nn_image_window(struct nn_build *b, struct nn_node *self, uint32_t channels,
                    uint32_t default_stride, struct pd_err *err);

#endif
