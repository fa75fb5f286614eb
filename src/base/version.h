/* version.h - the version of the project, the same in all programs. */
#ifndef PD_BASE_VERSION_H
#define PD_BASE_VERSION_H

#define PD_VERSION "0.1.0"

#endif
