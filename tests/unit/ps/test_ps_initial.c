/* test_ps_initial.c - initial values of parameters: independent of how the parameter is cut, and
 * with the requested distribution. */
#include <setjmp.h>

#include <cmocka.h>

#include "ps/plan/initial.h"

enum { N = 20011 };

static void slices_are_those_of_the_whole(void **state) {
    (void)state;
    static float whole[N], parts[N];
    static const float std[] = {0.5f, 0, -0.25f};
    for (size_t k = 0; k < sizeof std / sizeof std[0]; k++) {
        double sum = 0, squares = 0, most = 0;
        struct pd_rng_key key = pd_rng_key(9, PD_RNG_INIT, k, 0);
        ps_initial(key, 1, 0, 2, std[k], whole, N);
        for (uint64_t at = 0, n = 1; at < N; at += n, n = n % 97 + 1)
            ps_initial(key, 1, at, 2, std[k], parts + at, at + n < N ? n : N - at);
        assert_memory_equal(whole, parts, sizeof whole);
        for (size_t i = 0; i < N; i++) {
            double d = (double)whole[i] - 2;
            sum += d;
            squares += d * d;
            most = fmax(most, fabs(d));
        }
        double want = std[k] > 0 ? 0.5 : std[k] < 0 ? 0.25 / sqrt(3) : 0;
        assert_true(fabs(sum / N) < 0.02 && fabs(sqrt(squares / N) - want) < 0.01);
        assert_true(std[k] > 0 ? most > 1
                               : most <= -(double)std[k] && most >= -0.99 * (double)std[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(slices_are_those_of_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
