#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares documents with their translations: same.py ORIGINAL TRANSLATION...

Both must have the same headings (their levels), blocks of code (but for comments), marks in front of
blocks, tables (rows, columns, and code in them), items of lists, and links.
"""
import os
import re
import sys

COMMENT = re.compile(r"\s+[#;](?= ).*")
LANGUAGES = {"README.md", "README_cn.md"}


def links(path, text):
    """Where the links lead, without the language."""
    found = []
    for target in re.findall(r"\]\(([^)]*)\)", text):
        if not re.match(r"[a-z]+:", target):
            target = os.path.normpath(os.path.join(os.path.dirname(path), target.partition("#")[0] or path))
            target = re.sub(r"(^|/)cn/", r"\1", target).replace("_cn.md", ".md")
        found.append(target)
    return found


def shape(path):
    """(line, what) of each part that has to be the same."""
    found, block, items = [], None, 0
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if line.startswith("```"):
            if block is None:
                block = [line]
            else:
                found.append((number, "\n".join(block)))
                block = None
        elif block is not None:
            block.append(COMMENT.sub("", line))
        elif line.startswith("#"):
            found.append((number, "a heading " + line.split(" ")[0]))
        elif line.startswith("<!--"):
            found.append((number, line))
        elif line.startswith("|"):
            cells = re.split(r" \| ", line.strip("| "))
            code = sorted(re.findall(r"`[^`]*`", line))
            found.append((number, "a row of %d: %s" % (len(cells), " ".join(code))))
        elif re.match(r" *(- |\d+\. )", line):
            found.append((number, "an item"))
        elif line.startswith("    "):
            found.append((number, line))
    text = open(path, encoding="utf-8").read()
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    return found, sorted(t for t in links(path, text) if os.path.basename(t) not in LANGUAGES)


def main():
    wrong = 0
    pairs = list(zip(sys.argv[1::2], sys.argv[2::2]))
    for original, translation in pairs:
        (a, a_links), (b, b_links) = shape(original), shape(translation)
        for (line, x), (other, y) in zip(a, b):
            if x != y:
                print("%s:%d and %s:%d differ:\n%s\n--\n%s" % (original, line, translation, other, x, y))
                break
        else:
            if len(a) != len(b):
                print("%s has %d parts, %s %d" % (original, len(a), translation, len(b)))
            elif a_links != b_links:
                print("%s: the links of %s are others: %s" % (translation, original, " ".join(
                    sorted(set(a_links) ^ set(b_links)) or ["a link is there more often"])))
            else:
                continue
        wrong += 1
    print("%d documents compared, %d differ" % (len(pairs), wrong))
    sys.exit(bool(wrong or not pairs))


if __name__ == "__main__":
    main()
