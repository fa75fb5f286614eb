/* SPDX-License-Identifier: Apache-2.0 */
/* msg.c - names of the message types. */
#include "wire/msg.h"

const char *wire_msg_name(unsigned type) {
    static const struct {
        unsigned type;
        const char *name;
    } names[] = {
#define X(name, number, text) {number, #name},
        WIRE_MSG_TABLE(X)
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].type == type)
            return names[i].name;
    return "?";
}
