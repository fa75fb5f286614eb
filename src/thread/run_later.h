/* aside.h - what nobody needs to wait for: giving back much memory, or something that the kernel
 * takes its time over. */
#ifndef PD_BASE_ASIDE_H
#define PD_BASE_ASIDE_H

/* f(arg), soon, in a thread of its own that nobody joins and no signal's handler runs in; at once,
 * here, where none can be had. The process may end before it. Not in a child of fork. */
void pd_aside(void (*f)(void *arg), void *arg);

#endif
