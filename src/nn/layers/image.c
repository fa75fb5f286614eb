/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - the shapes of images: a layer's values of a sample are channels x height x width,
 * row-major. If a layer's input has no image shape (a dense field, an fc), the layer's keys
 * channels, height, width give it. */
#include "nn/layers/image.h"

int nn_image_input(struct nn_build *b, struct nn_node *self, struct nn_image *out,
                   struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    const struct nn_node *in = &b->g->node[self->in[0]];
    *out = in->image;
    if (ini->channels.line)
        out->channels = (uint32_t)ini->channels.value;
    if (ini->height.line)
        out->height = (uint32_t)ini->height.value;
    if (ini->width.line)
        out->width = (uint32_t)ini->width.value;
    if (!out->channels)
        out->channels = 1;
    if (!out->height || !out->width)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s': its input '%s' is [batch x %u], no image: say its "
                       "channels, height and width",
                       b->file, self->line, self->name, in->name, in->size);
    if ((uint64_t)out->channels * out->height * out->width != in->size)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s': an image of %u x %u x %u (channels, height, width) has "
                       "%llu values, but its input '%s' is [batch x %u]",
                       b->file, self->line, self->name, out->channels, out->height, out->width,
                       (unsigned long long)out->channels * out->height * out->width, in->name,
                       in->size);
    return 0;
}

int nn_image_window(struct nn_build *b, struct nn_node *self, uint32_t channels,
                    uint32_t default_stride, struct pd_err *err) {
    const struct layer_ini *ini = self->ini;
    struct nn_window *w = &self->window;
    if (!ini->filter.line)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s' needs a filter, the height and width of its window",
                       b->file, self->line, self->name);
    w->filter = (uint32_t)ini->filter.value;
    w->stride = ini->stride.line ? (uint32_t)ini->stride.value
                : default_stride ? default_stride
                                 : w->filter;
    w->padding = (uint32_t)ini->padding.value;
    uint32_t h = w->in.height + 2 * w->padding, wd = w->in.width + 2 * w->padding;
    if (w->filter > h || w->filter > wd || w->padding >= w->filter)
        return pd_fail(err, PD_ECONF,
                       "%s:%d: layer '%s': a window of %u x %u with padding %u does not fit an "
                       "image of %u x %u",
                       b->file, self->line, self->name, w->filter, w->filter, w->padding,
                       w->in.height, w->in.width);
    self->image = (struct nn_image){channels, (h - w->filter) / w->stride + 1,
                                    (wd - w->filter) / w->stride + 1};
    uint64_t size = (uint64_t)channels * self->image.height * self->image.width;
    if (size > 1 << 24)
        return pd_fail(err, PD_ECONF, "%s:%d: layer '%s' would be %llu wide; the limit is %d",
                       b->file, self->line, self->name, (unsigned long long)size, 1 << 24);
    self->size = (uint32_t)size;
    return 0;
}
