#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""find_key.py PID KEYFILE - the memory of a process that holds the key.

Prints, for each copy: its mapping, and whether the page is left out of core dumps (dd) and locked
(lo). Exit status 0: copies were found; 1: none; 2: the process cannot be read."""
import re
import sys

pid, key = sys.argv[1], open(sys.argv[2], "rb").read()
assert len(key) == 32
found = 0
try:
    smaps = open(f"/proc/{pid}/smaps").read()
    mem = open(f"/proc/{pid}/mem", "rb", 0)
except PermissionError:
    sys.exit(2)
areas = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) (r\S*) .*?(\S*)\n(?:(?![0-9a-f]+-).*\n)*?VmFlags: (.*)$",
                   smaps, re.M)
for first, end, _, name, flags in areas:
    at, end = int(first, 16), int(end, 16)
    if name in ("[vvar]", "[vsyscall]", "[vdso]"):
        continue
    try:
        mem.seek(at)
        data = mem.read(end - at)
    except OSError:
        continue
    pos = data.find(key)
    while pos >= 0:
        found += 1
        has = flags.split()
        print(f"{at + pos:x} {name or 'anonymous'} {'dd' if 'dd' in has else 'DUMPED'} "
              f"{'lo' if 'lo' in has else 'not-locked'}")
        pos = data.find(key, pos + 1)
sys.exit(0 if found else 1)
