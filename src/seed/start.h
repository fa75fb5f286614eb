/* start.h - the function that start.c calls. */
#ifndef PD_SEED_START_H
#define PD_SEED_START_H

/* The program with its two arguments; returns the exit status. */
int seed_main(const char *path, const char *marker);

#endif
