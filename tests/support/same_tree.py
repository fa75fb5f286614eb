# SPDX-License-Identifier: Apache-2.0
"""same_tree.py TREE OTHER...: compares names, kinds, modes, times, links and contents of folders.

Prints the differences; the exit status is 1 if there are any."""
import hashlib
import os
import stat
import sys


def tree(top):
    out = {}
    for folder, dirs, files in os.walk(os.fsencode(top)):
        for n in dirs + files:
            p = os.path.join(folder, n)
            s = os.lstat(p)
            kind = stat.S_IFMT(s.st_mode)
            what = os.readlink(p) if kind == stat.S_IFLNK else hashlib.sha256(open(p, "rb").read()).hexdigest() if kind == stat.S_IFREG else ""
            out[os.path.relpath(p, os.fsencode(top))] = (kind, kind != stat.S_IFLNK and s.st_mode & 0o1777, s.st_mtime_ns, what)
    return out


a = tree(sys.argv[1])
for t in sys.argv[2:]:
    b = tree(t)
    bad = [k for k in a.keys() | b.keys() if a.get(k) != b.get(k)]
    for k in bad[:5]:
        print(t, k, a.get(k), b.get(k))
    if bad:
        sys.exit(1)
