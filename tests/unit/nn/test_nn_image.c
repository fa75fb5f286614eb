/* SPDX-License-Identifier: Apache-2.0 */
/* test_nn_image.c - conv and pool over every small shape: windows across the border, strides that
 * do not divide the size, windows larger than the image, images of one pixel. Values and gradients
 * are compared with plain loops in double. Impossible shapes are refused. */
#include <setjmp.h>

#include <cmocka.h>

#include "math/rng.h"
#include "nn/graph/graph_internal.h"
#include "tests/support/c/near.h"

enum kind { CONV, MAX, MEAN };
static const char *const kind_name[] = {"conv", "max", "mean"};
enum { B = 2, MOST = 3 * 7 * 8 };

struct shape { /* the shape of a layer over images */
    enum kind kind;
    int c, h, w, k, stride, pad, f; /* channels, height, width, filter, ..., output channels */
    int oh, ow;
};

static const struct pd_rng_key rng = {{5, 9}};

/* A dense field -> fc "h" (the image; its bias has the image's gradient) -> the layer "it" -> one
 * value -> its square. */
static int load(struct nn_graph **g, const struct shape *s, struct pd_err *err) {
    char text[1000];
    int n = snprintf(text, sizeof text,
                     "[data]\nformat = csv\ncolumns = a t\nfields = a:dense "
                     "t:dense\n[optimizer]\ntype = sgd\nlearning_rate = 1\n"
                     "[layer h]\ntype = fc\ninputs = a\nsize = %d\n[layer last]\ntype = fc\ninputs "
                     "= it\nsize = 1\n"
                     "[cost c]\ntype = square_error\ninput = last\nlabel = t\n"
                     "[layer it]\ninputs = h\nchannels = %d\nheight = %d\nwidth = %d\nfilter = "
                     "%d\nstride = %d\npadding = %d\n",
                     s->c * s->h * s->w, s->c, s->h, s->w, s->k, s->stride, s->pad);
    if (s->kind == CONV)
        snprintf(text + n, sizeof text - (size_t)n, "type = conv\nsize = %d\n", s->f);
    else
        snprintf(text + n, sizeof text - (size_t)n, "type = pool\npooling = %s\n",
                 kind_name[s->kind]);
    return nn_graph_load_text(g, "train.ini", text, err);
}

static uint32_t param(const struct nn_graph *g, const char *name) {
    int p = nn_graph_find_param(g, name);
    assert_true(p >= 0);
    return (uint32_t)p;
}

/* The reference: the output y for an image x, and the gradients for dy, which are added to dx, dw
 * and db. */
static void plain(const struct shape *s, const float *x, const float *w, const float *b,
                  const float *dy, struct num_sum *y, struct num_sum *dx, struct num_sum *dw,
                  struct num_sum *db) {
    for (int f = 0; f < s->f; f++)
        for (int r = 0; r < s->oh; r++)
            for (int q = 0; q < s->ow; q++) {
                const int o = (f * s->oh + r) * s->ow + q;
                const struct num d = num_f(num_of(dy[o]), (double)dy[o], 0, 2); /* two products */
                int best = -1, inside = 0;
                struct num_sum sum = {0};
                if (s->kind == CONV)
                    num_add(&sum, num_of(b[f]));
                for (int pass = 0; pass < 2; pass++) /* values, then gradients */
                    for (int c = s->kind == CONV ? 0 : f; c < (s->kind == CONV ? s->c : f + 1); c++)
                        for (int i = 0; i < s->k; i++)
                            for (int j = 0; j < s->k; j++) {
                                const int row = r * s->stride + i - s->pad,
                                          col = q * s->stride + j - s->pad;
                                if (row < 0 || col < 0 || row >= s->h || col >= s->w)
                                    continue;
                                const int at = (c * s->h + row) * s->w + col,
                                          wat = ((c * s->k + i) * s->k + j) * s->f + f;
                                const struct num weight = num_of(s->kind == CONV ? w[wat] : 1);
                                if (pass == 0) {
                                    inside++;
                                    best = best < 0 || x[at] > x[best] ? at : best;
                                    num_add_product(&sum, num_of(x[at]), weight);
                                } else if (s->kind == CONV) {
                                    num_add_product(&dx[at], d, weight);
                                    num_add_product(&dw[wat], d, num_of(x[at]));
                                } else if (s->kind == MEAN) {
                                    num_add(&dx[at], num_f(d, d.v / inside, 1.0 / inside, 1));
                                } else if (at == best) {
                                    num_add(&dx[at], d);
                                }
                            }
                assert_true(inside > 0 || s->kind == CONV);
                y[o] = (struct num_sum){0};
                if (s->kind == MAX)
                    num_add(&y[o], num_of(x[best]));
                else if (s->kind == MEAN)
                    num_add(&y[o], num_f(num_total(&sum), sum.v / inside, 1.0 / inside, 1));
                else
                    y[o] = sum;
                if (s->kind == CONV)
                    num_add(&db[f], d);
            }
}

static void same(const struct shape *s, const char *what, const float *got,
                 const struct num_sum *sum, int n) {
    char text[200];
    double want[MOST * 16], error[MOST * 16];
    for (int i = 0; i < n; i++) {
        struct num a = num_total(&sum[i]);
        want[i] = a.v;
        error[i] = a.e;
    }
    snprintf(text, sizeof text, "%s of %d x %d x %d, filter %d, stride %d, padding %d: %s",
             kind_name[s->kind], s->c, s->h, s->w, s->k, s->stride, s->pad, what);
    assert_within(text, got, want, error, (size_t)n);
}

static void try(const struct shape *s, struct nn_graph *g) {
    enum { PARAMS = 6 };
    struct nn_feed *feed = NULL;
    struct nn_exec *exec = NULL;
    struct pd_batch b;
    struct nn_cost cost;
    float *w[PARAMS] = {0}, *grad[PARAMS] = {0}, dy[MOST * 16];
    struct num_sum y[MOST * 16], dx[MOST] = {0}, dw[MOST * 16] = {0}, db[8] = {0};
    const uint32_t n_params = nn_graph_n_params(g), size = nn_graph_layer_size(g, "it"),
                   image = nn_graph_layer_size(g, "h");
    uint32_t n;
    assert_true(n_params <= PARAMS && size == (uint32_t)(s->f * s->oh * s->ow) &&
                size <= MOST * 16);
    assert_int_equal(pd_batch_init(&b, nn_graph_field(g, 0), nn_graph_n_fields(g), B), 0);
    for (uint32_t k = 0; k < nn_graph_n_fields(g); k++)
        pd_rng_normal(rng, k, b.values[k], B * nn_graph_field(g, k)->width);
    b.n = B;
    assert_int_equal(nn_feed_new(&feed, g, B, NULL), 0);
    assert_int_equal(nn_exec_new(&exec, g, B, NULL), 0);
    assert_int_equal(nn_feed_set(feed, &b, NULL), 0);
    for (uint32_t p = 0; p < n_params; p++) {
        const struct nn_param *q = nn_graph_param(g, p);
        w[p] = calloc(q->rows * q->cols, sizeof(float));
        grad[p] = calloc(q->rows * q->cols, sizeof(float));
        pd_rng_normal(rng, 100 + p, w[p], q->rows * q->cols);
        nn_exec_bind(exec, p, w[p], grad[p]);
    }
    nn_exec_forward(exec, feed, 0, B, NN_TRAIN, 1, 0, &cost);
    const float *x = nn_exec_output(exec, "h", &n), *got = nn_exec_output(exec, "it", &n),
                *last = nn_exec_output(exec, "last", &n);
    const float *out = w[param(g, "last.w")], *cw = s->kind == CONV ? w[param(g, "it.w")] : NULL,
                *cb = s->kind == CONV ? w[param(g, "it.b")] : NULL;
    for (uint32_t i = 0; i < B; i++) {
        for (uint32_t j = 0; j < size; j++)
            dy[j] = 2 * (last[i] - b.values[1][i]) * out[j];
        plain(s, x + i * image, cw, cb, dy, y, dx, dw, db);
        same(s, "value", got + i * size, y, (int)size);
    }
    nn_exec_backward(exec);
    same(s, "gradient of the image", grad[param(g, "h.b")], dx, (int)image);
    if (s->kind == CONV) {
        same(s, "gradient of the filters", grad[param(g, "it.w")], dw, s->c * s->k * s->k * s->f);
        same(s, "gradient of the bias", grad[param(g, "it.b")], db, s->f);
    }
    for (uint32_t p = 0; p < n_params; p++) {
        free(w[p]);
        free(grad[p]);
    }
    pd_batch_release(&b);
    nn_exec_free(exec);
    nn_feed_free(feed);
}

/* Tries all strides and paddings of a filter over an image. Returns the number of possible shapes.
 */
static int sweep(struct shape s) {
    int fit = 0;
    for (s.stride = 1; s.stride <= 4; s.stride++)
        for (s.pad = 0; s.pad <= s.k; s.pad++) {
            struct nn_graph *g = NULL;
            struct pd_err err = {0};
            int fits = s.k <= s.h + 2 * s.pad && s.k <= s.w + 2 * s.pad && s.pad < s.k,
                rc = load(&g, &s, &err);
            if (fits ? rc : rc != PD_ECONF || !strstr(err.msg, "does not fit an image of"))
                fail_msg("%s of %d x %d, filter %d, padding %d: %d %s", kind_name[s.kind], s.h, s.w,
                         s.k, s.pad, rc, err.msg);
            s.oh = (s.h + 2 * s.pad - s.k) / s.stride + 1;
            s.ow = (s.w + 2 * s.pad - s.k) / s.stride + 1;
            if (fits)
                try(&s, g);
            fit += fits;
            nn_graph_free(g);
        }
    return fit;
}

static void all_shapes(enum kind kind) {
    static const int heights[] = {1, 2, 4, 7}, widths[] = {1, 3, 8};
    int fit = 0;
    for (int c = 1; c <= 3; c += 2)
        for (size_t h = 0; h < sizeof heights / sizeof heights[0]; h++)
            for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
                for (int k = 1; k <= 5; k++)
                    fit += sweep((struct shape){.kind = kind,
                                                .c = c,
                                                .h = heights[h],
                                                .w = widths[w],
                                                .k = k,
                                                .f = kind == CONV ? 2 : c});
    print_message("   %d shapes\n", fit);
    assert_true(fit > 500);
}

static void conv_agrees_with_plain_loops(void **state) {
    (void)state;
    all_shapes(CONV);
}
static void max_pooling_agrees_with_plain_loops(void **state) {
    (void)state;
    all_shapes(MAX);
}
static void mean_pooling_agrees_with_plain_loops(void **state) {
    (void)state;
    all_shapes(MEAN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_agrees_with_plain_loops),
        cmocka_unit_test(max_pooling_agrees_with_plain_loops),
        cmocka_unit_test(mean_pooling_agrees_with_plain_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
