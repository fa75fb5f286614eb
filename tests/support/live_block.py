#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""live_block.py PADDLECTL - tests the live block of `paddlectl run` on a terminal.

Runs in a folder with conf.ini (three local nodes) and a workspace. The trainers take a step
whenever the file `go` has grown (see launch_live.sh)."""
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from screen import Screen  # noqa: E402

ctl = sys.argv[1]

def step(n):
    with open("go.tmp", "w") as f:
        f.write(str(n))
    os.rename("go.tmp", "go")


def run(*more, **kw):
    step(0)
    return Screen([ctl, "run", "--conf=conf.ini", *more], **kw)


def block(s):
    """The lines of the block, which come after the last line of the log."""
    lines = s.shown()
    k = max([i for i, line in enumerate(lines) if " | " in line] + [-1])
    return lines[k + 1:]


def head(s):
    return (block(s) or [""])[0]  # the block may not be drawn yet


def no_leftovers(s):
    """Checks that only whole lines of the log and of paddlectl are above the block, each once."""
    seen = {}
    for i, line in enumerate(s.lines):
        if " | " not in line or i == s.y:  # the cursor's line may be incomplete
            continue
        line = line.rstrip()
        assert re.match(r"^(local\.\d/(trainer|pserver) \| (step \d+ of \d|serving .*)|paddlectl \| .*)$", line), line
        if "/trainer | step" in line:
            assert line not in seen, "twice: " + line
            seen[line] = 1
    return seen


# --- bar, figures, nodes; the log scrolls above it
s = run(cols=100, rows=24)
for n in range(1, 5):
    step(n)
    s.until(lambda: len(block(s)) == 2 and " %d %%" % (n * 20) in head(s), "step %d" % n)
first, nodes = block(s)
# The rates fall between these steps, which are far apart on a busy machine.
assert re.match(r"^pass 1/2 \[=+>-+\]  80 %.*  cost 1\.5  perplexity 4\.5  \d+ words/s$", first), first
assert len(first) <= 99 and re.match(r"^local\.0 \d+/s  local\.1 \d+/s  local\.2 \d+/s$", nodes), (first, nodes)
s.until(lambda: len(no_leftovers(s)) == 12, "four lines of each")
# --- narrower during the run: no part of the old block stays
s.resize(50, 24)
s.until(lambda: all(len(line) < 50 for line in block(s)) and head(s).startswith("pass 1/2"), "narrow")
step(5)
s.until(lambda: "100 %" in head(s), "step 5")
s.until(lambda: head(s) and "[" not in head(s) and len([x for x in s.lines if x.startswith("pass ")]) == 1, "no bar")
s.resize(100, 24)
s.until(lambda: "[" in head(s) and len([x for x in s.lines if x.startswith("pass ")]) == 1, "wide again")
# --- many lines: the block is drawn ten times a second, not for each line
before, began = s.draws, time.monotonic()
step(1000)
s.until(lambda: any("step 600 of 2" in x for x in s.lines), "many lines")
assert s.draws - before < 20 * (time.monotonic() - began) + 5, "%d times in %.1f s" % (s.draws - before, time.monotonic() - began)
no_leftovers(s)
# --- after ten seconds at this rate, the trainer for which the others wait has their share of waiting
step(1100)
s.until(lambda: re.search(r"local\.2 \d+/s, others wait for it 40 % of the time", "".join(block(s))), "the slow trainer")
assert b"\x1b[33mlocal.2 " in s.raw, "not yellow"
# --- the trainers wait, except for local.2: after five seconds the block says so, at any width
step(0)  # the trainers take no further step
open("go.wait", "w").close()
for cols in (100, 140, 80, 40):
    s.resize(cols, 24)
    s.until(lambda: any(re.search(r"stalled \d+ s, waiting for local\.2( |$)", x) for x in block(s))
            and any("local.0 0/s" in x for x in block(s)) and (cols == 40 or "  0 words/s" in head(s))
            and all(len(x) < cols for x in block(s)), "stalled, %d columns" % cols)
assert b"\x1b[33mstalled " in s.raw, "not yellow"
assert len([x for x in s.lines if x.startswith("pass ")]) == 1, s
os.remove("go.wait")
s.resize(100, 24)
s.until(lambda: len(block(s)) == 2, "wide again")
# --- Ctrl-C from the keyboard: the block is removed, and plain text remains
os.write(s.master, b"\x03")
assert s.wait() == 130, s
lines = s.shown()
assert lines[-1].startswith("paddlectl: JOB") and lines[-1].endswith("was stopped"), s
assert sum(x.startswith("pass ") for x in s.lines) == 1 and not any("local.1 0/s" in x for x in s.lines), s
assert not any("\x1b" in x for x in s.lines)

# --- TERM, and no colour
s = run(cols=80, rows=24, env={"NO_COLOR": "1"})
step(2)
s.until(lambda: len(block(s)) == 2 and " 40 %" in head(s), "step 2")
s.proc.send_signal(signal.SIGTERM)
assert s.wait() == 130, s
assert b"\x1b[3" not in s.raw and s.shown()[-1].endswith("was stopped"), s

# --- a terminal too small for nodes; a failed job: its banner is below the last state
s = run("--trainer_command=./fail.sh", cols=40, rows=5)
step(1)
s.until(lambda: len(block(s)) == 1 and " 20 %" in head(s), "step 1")
step(2)
assert s.wait() == 1, s
assert any("exit status 7" in x for x in "".join(s.lines).split("paddlectl: ")), s
assert sum(x.startswith("pass ") for x in s.lines) == 1 and s.lines.count("=" * 39) == 2, s
