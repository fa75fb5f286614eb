#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of documents, and compares their output with the shown one.

    run.py FOLDER DOCUMENT...

A block of a document is one of these:

    ```sh         commands; each must succeed; an indented line belongs to the one before
    ```console    "$ COMMAND", and the output that follows; a line "..." is any number of lines, and
                  "..." in a line any text; numbers, ids of jobs, widths of columns and the name
                  of the user do not count

and a comment in the line before it changes that:

    <!-- file: NAME -->       the block is written to this file
    <!-- status: 2 -->        the last command of the block ends with this status
    <!-- needs: MODULE -->    the block is left out if python3 has no such module
    <!-- not run: REASON -->  the block is not run; the reasons are printed

The blocks of a document run in order in one shell, in a folder of their own below FOLDER, which has
links to all files of FOLDER/given. A command in any other block is an error.
"""
import getpass
import os
import re
import shutil
import subprocess
import sys
import time

LIMIT_S = 600
COMMAND = re.compile(r"(\$ |(paddlectl|paddle_worker|make|mpirun|kubectl|sudo|apt-get|git|cmake|pip) "
                     r"|(workspace|bench|tests|build)/[^ ]+( |$))")
PICTURE = re.compile("[─▶◀│├└]|----")
MASKS = [(re.compile(p), r) for p, r in (
    (r"JOB\d{14}-[0-9a-f]{4}", "JOB"),
    (r"\d+(?:[.,:]\d+)*(?:e[-+]?\d+)?", "N"),
    (r"\bN (?:ms|s|min|h|d)\b", "N s"),
    (r"\bN (?:bytes|B|[kKMG]i?B)\b", "N B"),
    (r"\s+", " "))]


class Block:
    def __init__(self, line, kind, mark):
        self.line, self.kind, self.mark, self.text = line, kind, mark, []

    def commands(self):
        """(command, shown output or None) of each command."""
        found, rest = [], False
        for line in self.text:
            if self.kind == "sh":
                if found and (rest or line.startswith(" ")):
                    found[-1][0] += "\n" + line
                elif line.strip() and not line.startswith("#"):
                    found.append([line, None])
                rest = line.endswith("\\")
            elif rest:
                found[-1][0] += "\n" + line
                rest = line.endswith("\\")
            elif line.startswith("$ "):
                found.append([line[2:], []])
                rest = line.endswith("\\")
            elif found:
                found[-1][1].append(line)
        return found


def blocks(path):
    """The fenced blocks of a document. Exits if another block has a command."""
    found, block, before = [], None, ""
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        fence = re.fullmatch(r"```(\w*)", line)
        if fence and block is None:
            mark = re.fullmatch(r"<!-- (file|status|needs|not run): (.*) -->", before)
            block = Block(number, fence[1], mark.groups() if mark else ("", ""))
        elif fence:
            found.append(block)
            block = None
        elif block:
            block.text.append(line)
            other = block.kind not in ("sh", "console") and not block.mark[0]
            if other and COMMAND.match(line):
                sys.exit("%s:%d: a command in a block that is not sh or console" % (path, number))
        elif line.startswith("    ") and COMMAND.match(line.strip()) and not PICTURE.search(line):
            sys.exit("%s:%d: a command in an indented block" % (path, number))
        before = line
    return found


def masked(line):
    line = re.sub(r"\b%s\b" % re.escape(getpass.getuser()), "root", line)
    for pattern, text in MASKS:
        line = pattern.sub(text, line)
    return line.strip()


def same(shown, got, left):
    """Whether the output is the shown one. Lines "..." stand for any number of lines. left[0] becomes
    the least number of shown lines that were left over by any way to compare."""
    left[0] = min(left[0], len(shown))
    if not shown:
        return not got
    if shown[0].strip() == "...":
        return any(same(shown[1:], got[i:], left) for i in range(len(got) + 1))
    if not got:
        return False
    pattern = ".*".join(re.escape(part.strip()) for part in masked(shown[0]).split("..."))
    is_line = re.fullmatch(pattern.replace(".*", "[ ]?.*"), masked(got[0]))
    return bool(is_line) and same(shown[1:], got[1:], left)


def run(path, folder, given):
    # docs/folders/hosts.md is not to work in FOLDER/hosts, where the fixture is.
    work = os.path.join(folder, path[:-3].removeprefix("docs/").lstrip("/").replace("/", "-"))
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work + "/.out")
    for name in os.listdir(given):
        os.symlink(os.path.join(given, name), os.path.join(work, name))
    script, checks, left_out = ["cd %s" % work], [], []
    for block in blocks(path):
        what, value = block.mark
        if what == "not run":
            left_out.append("not run: %s:%d: %s" % (path, block.line, value))
        elif what == "needs" and subprocess.run(["python3", "-c", "import " + value],
                                                stderr=subprocess.DEVNULL, check=False).returncode:
            left_out.append("skipped: %s:%d: python3 has no %s" % (path, block.line, value))
        elif what == "file":
            script.append("cat >%s <<'END_OF_BLOCK'\n%s\nEND_OF_BLOCK" % (value, "\n".join(block.text)))
        elif block.kind in ("sh", "console"):
            commands = block.commands()
            for i, (command, shown) in enumerate(commands):
                out = "%s/.out/%d" % (work, len(checks))
                script.append("{ %s\n} >%s 2>&1 </dev/null\necho $? >%s.status" % (command, out, out))
                last = what == "status" and i + 1 == len(commands)
                checks.append((block.line, command, shown, out, value if last else "0"))
    if checks:
        subprocess.run(["bash", "-c", "\n".join(script) + "\nwait\n"], timeout=LIMIT_S, check=False)
    wrong = 0
    for line, command, shown, out, status in checks:
        if not os.path.exists(out + ".status"):
            print("%s:%d: not reached, or no correct shell command: %s" % (path, line, command))
            return len(checks), left_out, 1
        got = open(out, encoding="utf-8").read().splitlines()
        is_status = open(out + ".status").read().strip()
        while shown and not shown[-1].strip():
            shown.pop()
        left = [len(shown or [])]
        if is_status != status or shown is not None and not same(shown, got, left):
            print("%s:%d: %s\n-- exit status %s, wanted %s" % (path, line, command, is_status, status))
            if left[0]:
                print("-- not in the output, or not there: %s" % shown[-left[0]])
            print("\n".join(["-- output:"] + got))
            wrong = 1
    return len(checks), left_out, wrong


def main():
    folder, documents = os.path.abspath(sys.argv[1]), sys.argv[2:]
    n, bad, left_out = 0, 0, []
    for path in documents:
        shutil.rmtree(folder + "/paddle", ignore_errors=True)
        for node in os.listdir(folder + "/hosts") if os.path.isdir(folder + "/hosts") else []:
            shutil.rmtree("%s/hosts/%s/home/paddle" % (folder, node), ignore_errors=True)
        began = time.monotonic()
        count, out, wrong = run(path, folder, folder + "/given")
        if count:
            print("%s: %d commands, %.0f s" % (path, count, time.monotonic() - began))
        n, bad, left_out = n + count, bad + wrong, left_out + out
    for text in left_out:
        print(text)
    print("%d commands, %d blocks not run, %d documents wrong" % (n, len(left_out), bad))
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
