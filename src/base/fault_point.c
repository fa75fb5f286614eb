/* SPDX-License-Identifier: Apache-2.0 */
/* fault_point.c - see fault_point.h. The armed points are process-wide. A test may arm other points
 * while threads run, so the table is read and written under a lock. Only an armed program takes the
 * lock. fork takes it too: the child has no thread that would give it back. */
#include <pthread.h>

enum { MAX_POINTS = 8 };

static struct {
    char name[48];
    int kill, slow;
    long left; /* the point fails when this goes from 1 to 0; slow: constant, milliseconds */
} points[MAX_POINTS];
static atomic_int n_points; /* written under the lock; 0 is also read without it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Reads "[kill.|slow.]NAME:COUNT[,...]" into the table. Returns the number of points; what follows
 * a point without a colon is left out. */
static int read_points(const char *spec) {
    int n = 0;
    while (spec && *spec && n < MAX_POINTS) {
        const char *colon = strchr(spec, ':');
        if (!colon)
            break;
        int kill = !strncmp(spec, "kill.", 5), slow = !strncmp(spec, "slow.", 5);
        const char *name = spec + (kill || slow ? 5 : 0);
        snprintf(points[n].name, sizeof points[n].name, "%.*s", (int)(colon - name), name);
        points[n].kill = kill;
        points[n].slow = slow;
        char *end;
        points[n].left = strtol(colon + 1, &end, 10);
        n++;
        spec = *end == ',' ? end + 1 : "";
    }
    return n;
}

static void take_lock(void) { pthread_mutex_lock(&lock); }
static void give_lock(void) { pthread_mutex_unlock(&lock); }
static void watch_fork(void) { pthread_atfork(take_lock, give_lock, give_lock); }

void pd_fault_arm(const char *spec) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_fork);
    pthread_mutex_lock(&lock);
    atomic_store(&n_points, read_points(spec));
    pthread_mutex_unlock(&lock);
}

int pd_fault(const char *name) {
    int failing = 0, killed = 0;
    long sleep_ms = 0;
    if (!atomic_load_explicit(&n_points, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < atomic_load(&n_points); i++) {
        if (strcmp(points[i].name, name))
            continue;
        if (points[i].slow)
            sleep_ms += points[i].left;
        else if (points[i].left-- == 1) {
            failing = 1;
            killed |= points[i].kill;
        }
    }
    pthread_mutex_unlock(&lock);
    if (sleep_ms)
        nanosleep(&(struct timespec){sleep_ms / 1000, sleep_ms % 1000 * 1000000}, NULL);
    if (killed)
        kill(getpid(), SIGKILL);
    return failing;
}
