/* memory_use.c - see memory_use.h. */
#include "base/memory_use.h"

uint64_t pd_peak_memory(void) {
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    unsigned long long kb = 0;
    while (f && fgets(line, sizeof line, f) && sscanf(line, "VmHWM: %llu kB", &kb) != 1)
        ;
    if (f)
        fclose(f);
    return kb * 1024;
}
