#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""apply_examples.py FILE DIR - applies the examples of FILE (CONTRIBUTING.md) to the tree DIR: code blocks
below "New file `PATH`:" and below "In `PATH`, after|before the line with `TEXT`:". Prints each path."""
import os
import re
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    page = f.read()
top = sys.argv[2]
new = r"New file `(?P<new>[^`]+)`"
edit = r"In\s+`(?P<old>[^`]+)`,\s+(?P<side>after|before)\s+the\s+line\s+with\s+`(?P<text>[^`]+)`"
blocks = list(re.finditer(rf"^(?:{new}|{edit}):\n\n```\w*\n(?P<code>.*?)^```\n", page, re.M | re.S))
if len(blocks) != page.count("\n```") // 2:
    sys.exit(f"{len(blocks)} of {page.count(chr(10) + '```') // 2} code blocks say where they belong")
for b in blocks:
    path = os.path.join(top, b["new"] or b["old"])
    if b["new"]:
        if os.path.exists(path):
            sys.exit(f"{path} exists already")
        text = b["code"]
    else:
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines(keepends=True)
        text = " ".join(b["text"].split())
        at = [i for i, line in enumerate(lines) if text in line]
        if len(at) != 1:
            sys.exit(f"{path}: {len(at)} lines have the text: {text}")
        where = at[0] + (b["side"] == "after")
        text = "".join(lines[:where]) + b["code"] + "".join(lines[where:])
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    print(path)
