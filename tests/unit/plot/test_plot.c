/* SPDX-License-Identifier: Apache-2.0 */
/* test_plot.c - curves as text: every dot of a cell, lines, ticks of axes, whole pictures, and the
 * points of a record that grows, is restarted, and is made anew. */
#include <locale.h>
#include <setjmp.h>

#include <cmocka.h>

#include "launcher/plot/axis.h"
#include "launcher/plot/canvas.h"
#include "launcher/plot/curves.h"

static const char *row_of(struct canvas *c, int row) {
    static char text[400];
    struct pd_buf b = {0};
    canvas_put_row(c, row, &b);
    snprintf(text, sizeof text, "%.*s", (int)b.len, b.len ? (char *)b.data : "");
    pd_buf_release(&b);
    return text;
}

static void each_dot_of_a_cell(void **state) {
    (void)state;
    /* Unicode: dots 1-2-3-7 are the left column, 4-5-6-8 the right one. */
    static const char *const want[CANVAS_Y][CANVAS_X] = {
        {"⠁", "⠈"}, {"⠂", "⠐"}, {"⠄", "⠠"}, {"⡀", "⢀"}};
    for (int y = 0; y < CANVAS_Y; y++)
        for (int x = 0; x < CANVAS_X; x++) {
            struct canvas c;
            char text[20];
            assert_int_equal(canvas_init(&c, 3, 2), 0);
            c.utf8 = 1;
            canvas_line(&c, CANVAS_X + x, CANVAS_Y + y, CANVAS_X + x, CANVAS_Y + y, 0);
            snprintf(text, sizeof text, " %s", want[y][x]);
            assert_string_equal(row_of(&c, 0), "");
            assert_string_equal(row_of(&c, 1), text);
            c.utf8 = 0;
            assert_string_equal(row_of(&c, 1), y < 2 ? " '" : " .");
            canvas_release(&c);
        }
}

static void lines(void **state) {
    (void)state;
    struct canvas c;
    assert_int_equal(canvas_init(&c, 4, 2), 0);
    c.utf8 = 1;
    canvas_line(&c, 0, 7, 7, 0, 0); /* up to the right */
    assert_string_equal(row_of(&c, 0), "  ⡠⠊");
    assert_string_equal(row_of(&c, 1), "⡠⠊");
    canvas_line(&c, -100, -100, -1, 300, 0); /* outside */
    canvas_line(&c, 8, 0, 8, 7, 0);
    assert_string_equal(row_of(&c, 0), "  ⡠⠊");
    canvas_line(&c, 0, 0, 0, 7, 1);
    assert_string_equal(row_of(&c, 0), "⡇ ⡠⠊");
    c.colour = 1;
    assert_string_equal(row_of(&c, 0), "\033[33m⡇ \033[36m⡠⠊\033[m");
    c.colour = c.utf8 = 0;
    c.letters = 1;
    assert_string_equal(row_of(&c, 0), "b aa");
    canvas_letter(&c, 7, 0, 2);
    canvas_letter(&c, 8, 0, 2);
    assert_string_equal(row_of(&c, 0), "b ac");
    canvas_release(&c);
}

static void ticks_of_axes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double low, high;
        size_t most;
        const char *want;
    } rows[] = {
        {"passes", 0, 5, 6, "0 1 2 3 4 5"},
        {"less room", 0, 5, 3, "0 2 4"},
        {"a cost", 0.13, 0.61, 5, "0.2 0.3 0.4 0.5 0.6"},
        {"small", 0.00011, 0.00019, 4, "0.00012 0.00014 0.00016 0.00018"},
        {"smaller", 1.1e-9, 3.9e-9, 4, "2e-09 3e-09"},
        {"below zero", -1, 1, 5, "-1.0 -0.5 0.0 0.5 1.0"},
        {"large", 0, 3e9, 4, "0 1e+09 2e+09 3e+09"},
        {"thousands", 12000, 14500, 4, "12000 13000 14000"},
        {"one value", 2, 2, 5, "1.8 1.9 2.0 2.1 2.2"},
        {"zero", 0, 0, 3, "-1 0 1"},
        {"rounding", 1, 1 + 1e-15, 3, "0.9 1.0 1.1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct axis a;
        char got[2000] = "";
        axis_init(&a, rows[i].low, rows[i].high, rows[i].most);
        for (size_t k = 0; k < a.n; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", k ? " " : "", a.text[k]);
        if (strcmp(got, rows[i].want))
            fail_msg("%s: '%s', not '%s'", rows[i].name, got, rows[i].want);
        assert_int_equal(axis_dot(&a, a.low, 100), 0);
        assert_int_equal(axis_dot(&a, a.high, 100), 99);
        axis_dot(&a, 1e300, 100);
        axis_dot(&a, -1e300, 100);
    }
    for (int e = -300; e <= 300; e += 3) { /* every size has two ticks or more, and ends */
        struct axis a;
        axis_init(&a, 1.07 * pow(10, e), 9.3 * pow(10, e), 7);
        assert_in_range(a.n, 2, 7);
    }
}

static const struct plot_point falling[] = {{0, 4}, {1, 2}, {2, 1}, {3, .5}, {4, .25}};
static const struct plot_point rising[] = {{0, 0}, {4, 3}};

static char *picture(const struct plot_curve *v, size_t n, int width, int height, int utf8) {
    struct pd_buf b = {0};
    const struct plot_style s = {width, height, utf8, 0, "cost", "pass"};
    assert_int_equal(plot_draw(&b, v, n, &s), 0);
    pd_put_u8(&b, 0);
    return (char *)b.data;
}

static void check_picture(const struct plot_curve *v, size_t n, int width, int height, int utf8,
                          const char *want) {
    char *got = picture(v, n, width, height, utf8);
    if (strcmp(got, want))
        fail_msg("\n%snot\n%s", got, want);
    free(got);
}

static void whole_pictures(void **state) {
    (void)state;
    const struct plot_curve v[] = {{"one", falling, 5}, {"two", rising, 2}, {"none", NULL, 0}};
    check_picture(v, 1, 24, 10, 1,
                  "  cost by pass\n"
                  "4 ┤⠑⢄\n"
                  "3 ┤ ⠈⠢⡀\n"
                  "  │   ⠈⢆\n"
                  "2 ┤     ⠑⠢⢄⡀\n"
                  "1 ┤        ⠈⠑⠢⢄⣀\n"
                  "  │             ⠉⠉⠒⠒⠤⠤⢄⣀\n"
                  "  └┬─────────┬─────────┬\n"
                  "   0         2         4\n"
                  "   one  0.25\n");
    check_picture(v, 3, 24, 12, 1,
                  "  cost by pass\n"
                  "4 ┤⠑⢄\n"
                  "  │  ⠱⡀               ⣀b\n"
                  "2 ┤   ⠈⠢⡀        ⣀⡠⠔⠊⠉\n"
                  "  │     ⠈⠑⠢⢄⣀⡠⠔⠒⠉\n"
                  "  │    ⢀⡠⠤⠒⠉⠉⠑⠢⠤⣀⣀\n"
                  "0 ┤⣀⠤⠒⠊⠁          ⠉⠉⠒⠒⠢a\n"
                  "  └┬─────────┬─────────┬\n"
                  "   0         2         4\n"
                  "a  one  0.25\n"
                  "b  two  3\n"
                  "c  none  no values\n");
    check_picture(v, 3, 24, 12, 0,
                  "  cost by pass\n"
                  "4 +aa\n"
                  "  |  aa               bb\n"
                  "2 +   aaa        bbbbb\n"
                  "  |     aaaabbbbb\n"
                  "  |    bbbbbbaaaaa\n"
                  "0 +bbbbb          aaaaaa\n"
                  "  ++---------+---------+\n"
                  "   0         2         4\n"
                  "a  one  0.25\n"
                  "b  two  3\n"
                  "c  none  no values\n");
    check_picture(v, 1, 24, 10, 0,
                  "  cost by pass\n"
                  "4 +'.\n"
                  "3 + ':.\n"
                  "  |   ':\n"
                  "2 +     ':..\n"
                  "1 +        '':..\n"
                  "  |             ''''....\n"
                  "  ++---------+---------+\n"
                  "   0         2         4\n"
                  "   one  0.25\n");
    /* Hardly any room, and none: it is drawn in the least size. */
    for (int width = 0; width < 30; width++)
        for (int height = 0; height < 12; height += 3)
            free(picture(v, 3, width, height, 1));
}

/* --- points of a record --- */

static char top[] = "/tmp/test_plot-XXXXXX";

static int make_top(void **state) {
    (void)state;
    return !mkdtemp(top);
}

static int remove_top(void **state) {
    (void)state;
    return pd_rm_tree(top, NULL);
}

static void put(const char *mode, const char *text) {
    char path[100];
    snprintf(path, sizeof path, "%s/metrics.jsonl", top);
    FILE *f = fopen(path, mode);
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void check_points(struct curves *c, size_t i, int by_pass, const char *want) {
    char got[500] = "";
    size_t n;
    const struct plot_point *v = curves_points(c, i, by_pass, &n);
    assert_non_null(v);
    for (size_t k = 0; k < n; k++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%g,%g ", v[k].x, v[k].y);
    assert_string_equal(got, want);
}

static void points_of_a_record(void **state) {
    (void)state;
    static const char *const metrics[] = {"cost", "test.auc", "test", "err"};
    struct curves *c;
    struct pd_err err = {0};
    int more;
    assert_int_equal(curves_new(&c, top, metrics, 4, &err), 0);
    assert_int_equal(curves_read(c, &more, &err), 0); /* no such file yet */
    assert_false(more);
    put("w",
        "{\"version\":1}\n"
        "{\"t\":1000,\"ev\":\"progress\",\"rank\":0,\"pass\":0,\"fraction\":0.5,\"cost\":4,"
        "\"metrics\":{\"err\":0.5,\"test.auc\":0.1}}\n"
        "{\"t\":1500,\"ev\":\"progress\",\"rank\":1,\"pass\":0,\"fraction\":0.5,\"cost\":9}\n"
        "{\"t\":2000,\"ev\":\"pass\",\"rank\":0,\"pass\":0,\"cost\":3,\"metrics\":{\"err\":0.4}}\n"
        "{\"t\":2500,\"ev\":\"pass\",\"rank\":1,\"pass\":0}\n");
    assert_int_equal(curves_read(c, &more, &err), 0);
    assert_true(more);
    check_points(c, 0, 1, "1,3 "); /* one progress is no curve: the ends of passes */
    check_points(c, 3, 0, "1,0.4 ");
    check_points(c, 1, 1, "");
    put("a", "{\"t\":3000,\"ev\":\"test\",\"pass\":0,\"by\":\"auc\",\"value\":0.7,\"cost\":1,"
             "\"metrics\":{\"test.auc\":0.7}}\n"
             "{\"t\":3000,\"ev\":\"progress\",\"rank\":0,\"pass\":1,\"fraction\":0.5,\"cost\":2}\n"
             "{\"t\":4000,\"ev\":\"progress\",\"rank\":0,\"pass\":1,\"fraction\":0.9,\"co");
    assert_int_equal(curves_read(c, &more, &err), 0);
    check_points(c, 0, 1, "0.5,4 1.5,2 ");
    check_points(c, 0, 0, "0,4 2,2 ");
    check_points(c, 1, 1, "1,0.7 ");
    check_points(c, 2, 1, "1,0.7 ");
    assert_string_equal(curves_judge(c), "auc");
    put("a", "\n{\"t\":4500,\"ev\":\"test\",\"when\":\"before pass 3/4\",\"value\":0.75}\n");
    assert_int_equal(curves_read(c, &more, &err), 0);
    check_points(c, 2, 1, "1,0.7 2,0.75 ");
    assert_true(curves_have_passes(c));
    assert_int_equal(curves_read(c, &more, &err), 0);
    assert_false(more);
    /* The line is completed; then the job restarts from the end of the first pass. */
    put("a",
        "st\":1.5}\n"
        "{\"t\":9000,\"ev\":\"progress\",\"rank\":0,\"pass\":1,\"fraction\":0.7,\"cost\":1.75}\n");
    assert_int_equal(curves_read(c, &more, &err), 0);
    check_points(c, 0, 1, "0.5,4 1.5,2 1.7,1.75 ");
    /* A trainer of the user without passes: by time. */
    put("a", "{\"t\":9500,\"ev\":\"progress\",\"cost\":1}\n");
    assert_int_equal(curves_read(c, &more, &err), 0);
    assert_false(curves_have_passes(c));
    check_points(c, 0, 0, "0,4 2,2 8,1.75 8.5,1 ");
    assert_non_null(json_object_get(curves_known(c), "test.cost"));
    /* fetch --log makes the file anew. */
    put("w", "{\"version\":1}\n{\"t\":1,\"ev\":\"pass\",\"pass\":0,\"cost\":7}\n");
    assert_int_equal(curves_read(c, &more, &err), 0);
    assert_true(more);
    check_points(c, 0, 1, "1,7 ");
    curves_free(c);
}

int main(void) {
    setlocale(LC_CTYPE, "C.UTF-8"); /* widths of characters, as main of paddlectl */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_dot_of_a_cell), cmocka_unit_test(lines),
        cmocka_unit_test(ticks_of_axes),      cmocka_unit_test(whole_pictures),
        cmocka_unit_test(points_of_a_record),
    };
    return cmocka_run_group_tests(tests, make_top, remove_top);
}
