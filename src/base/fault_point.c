/* fault_point.c - see fault_point.h. The armed points are process-wide: a fault belongs to a test
 * run and is set once, before threads start. Counters are atomic because any thread may reach a
 * point. */
#include "base/fault_point.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_POINTS = 8, GROW_LEAST = 8 /* elements of a new array */ };

static struct {
    char name[48];
    int kill, slow;
    atomic_long left; /* the point fails when this goes from 1 to 0; slow: constant, milliseconds */
} points[MAX_POINTS];
static atomic_int n_points;

void pd_fault_arm(const char *spec) {
    atomic_store(&n_points, 0);
    int n = 0;
    while (spec && *spec && n < MAX_POINTS) {
        const char *colon = strchr(spec, ':');
        if (!colon)
            return;
        int kill = !strncmp(spec, "kill.", 5), slow = !strncmp(spec, "slow.", 5);
        const char *name = spec + (kill || slow ? 5 : 0);
        snprintf(points[n].name, sizeof points[n].name, "%.*s", (int)(colon - name), name);
        points[n].kill = kill;
        points[n].slow = slow;
        char *end;
        atomic_store(&points[n].left, strtol(colon + 1, &end, 10));
        n++;
        spec = *end == ',' ? end + 1 : "";
    }
    atomic_store(&n_points, n);
}

int pd_fault(const char *name) {
    int n = atomic_load_explicit(&n_points, memory_order_relaxed);
    for (int i = 0; i < n; i++) {
        if (strcmp(points[i].name, name))
            continue;
        if (points[i].slow) {
            long ms = atomic_load(&points[i].left);
            nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
            continue;
        }
        if (atomic_fetch_sub(&points[i].left, 1) != 1)
            continue;
        if (points[i].kill)
            kill(getpid(), SIGKILL);
        return 1;
    }
    return 0;
}
