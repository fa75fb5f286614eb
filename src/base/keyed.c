/* keyed.c - bytes from the lowest; one that is the same in all keys is left out. */
#include "base/keyed.h"

void pd_sort_keyed(struct pd_keyed **v, struct pd_keyed **spare, size_t n) {
    for (int shift = 0; shift < 64 && n; shift += 8) {
        size_t count[257] = {0};
        struct pd_keyed *from = *v, *to = *spare;
        for (size_t i = 0; i < n; i++)
            count[(from[i].key >> shift & 255) + 1]++;
        if (count[(from[0].key >> shift & 255) + 1] == n)
            continue;
        for (int d = 0; d < 256; d++)
            count[d + 1] += count[d];
        for (size_t i = 0; i < n; i++)
            to[count[from[i].key >> shift & 255]++] = from[i];
        *v = to;
        *spare = from;
    }
}
