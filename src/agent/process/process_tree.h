/* process_tree.h - the processes below this one, by /proc. What ends a job is found by descent,
 * never by name.
 *
 * A sub-reaper's orphaned descendants become its children, so when it has no child left, none of
 * them is left.
 */
#ifndef PD_AGENT_PROCESS_TREE_H
#define PD_AGENT_PROCESS_TREE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Send `sig` to every descendant of `top` that is not a zombie; `top` itself is spared, and so are
 * `spare` (0: nobody) and what descends from it. Returns how many were signalled, or -1 when /proc
 * can't be read. A process that ends meanwhile is not confused with a later one of the same number.
 */
int process_tree_signal_below(pid_t top, pid_t spare, int sig);

/* What `top` and all below it use now; cpu_ms also counts children that ended and were waited for.
 * -1: it is gone. */
struct process_tree_usage {
    uint64_t rss_bytes, cpu_ms;
    unsigned threads;
    char cpus[512]; /* that `top` may run on: "0-3,8" */
};
int process_tree_usage(pid_t top, struct process_tree_usage *u);

/* 1: stopped by a signal (SIGSTOP, SIGTSTP), not by a debugger. */
int process_tree_stopped(pid_t pid);

/* When it started, in ticks since boot: with the pid it names one process. 0: there is none, or
 * only its exit status, for which a container's first process may never ask. */
uint64_t process_tree_start_ticks(pid_t pid);

/* End every process of this user's, wherever it descends from, that started at `since` (ticks) or
 * later and has all of these entries ("NAME=value") in its environment: what outlived all
 * sub-reapers above it. The caller is spared. TERM, KILL after grace_ms, again until none is left
 * or 2 s later. Blocks. Returns how many there were. */
int process_tree_end_marked(const char *const *marks, int n_marks, uint64_t since,
                            unsigned grace_ms);

/* Make this process the one that orphans below it come to. 0 or -1 with errno. */
int process_tree_become_subreaper(void);

/* End every descendant of the calling sub-reaper and reap it: TERM, then KILL after grace_ms, again
 * and again until none is left. Blocks; for processes without a loop. SIGCHLD must be blocked. */
void process_tree_end_all(unsigned grace_ms);

#endif
