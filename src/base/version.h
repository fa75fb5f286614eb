/* version.h - the project's version, the same in all three programs. */
#ifndef PD_BASE_VERSION_H
#define PD_BASE_VERSION_H

#define PD_VERSION "0.1.0"

#endif
