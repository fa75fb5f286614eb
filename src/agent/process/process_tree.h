/* SPDX-License-Identifier: Apache-2.0 */
/* process_tree.h - the descendants of a process, read from /proc. The processes of a job are found
 * by descent, never by name.
 *
 * Orphaned descendants of a sub-reaper become its children. A sub-reaper without children therefore
 * has no descendants. */
#pragma once

/* Sends `sig` to every descendant of `top` that is not a zombie. `top` itself, `spare` (0: none)
 * and the descendants of `spare` get no signal. Returns the number of signalled processes, or -1 if
 * /proc can't be read. A process that ends meanwhile is not confused with a later process of the
 * same pid. */
int process_tree_signal_below(pid_t top, pid_t spare, int sig);

/* The resources that `top` and its descendants use now. cpu_ms includes children that ended and
 * were waited for. Returns 0, or -1 if `top` does not exist. */
struct process_tree_usage {
    uint64_t rss_bytes, cpu_ms;
    unsigned threads;
    char cpus[512]; /* the CPUs that `top` may use: "0-3,8" */
};
int process_tree_usage(pid_t top, struct process_tree_usage *u);

/* 1: the process is stopped by a signal (SIGSTOP, SIGTSTP), not by a debugger. */
int process_tree_stopped(pid_t pid);

/* The start time of a process in ticks since boot; start time and pid identify a process. 0: the
 * process does not exist, or is a zombie. In a container, a zombie may stay for ever. */
uint64_t process_tree_start_ticks(pid_t pid);

/* Ends the marked processes of this user, which may have outlived every sub-reaper above them. A
 * marked process started at `since` (ticks) or later and has all of these entries ("NAME=value") in
 * its environment. The caller itself is spared. Sends TERM, and KILL after grace_ms, repeated until
 * no process is left or 2 s have passed. Blocks. Returns the number of processes found. */
int process_tree_end_marked(const char *const *marks, int n_marks, uint64_t since,
                            unsigned grace_ms);

/* Makes this process a sub-reaper: its orphaned descendants become its children. 0, or -1 with
 * errno. */
int process_tree_become_subreaper(void);

/* Ends and reaps every descendant of the calling sub-reaper: TERM, then KILL after grace_ms,
 * repeated until no child is left. Blocks. For processes without a loop. SIGCHLD must be masked. */
void process_tree_end_all(unsigned grace_ms);
