/* start.h - what start.c calls. */
#ifndef PD_SEED_START_H
#define PD_SEED_START_H

/* The program, behind its two arguments: its exit status. */
int seed_main(const char *path, const char *marker);

#endif
