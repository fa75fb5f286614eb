#!/usr/bin/python3
"""terminal.py PADDLECTL PART - tests what a person sees at a terminal. See launch_terminal.sh: it
runs in a folder with conf.ini (three local nodes) and the workspaces ws and large."""
import glob
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from screen import Screen  # noqa: E402

ctl = sys.argv[1]


def step(n):
    with open("go.tmp", "w") as f:
        f.write(str(n))
    os.rename("go.tmp", "go")


def end(status=0):
    with open("go.end.tmp", "w") as f:
        f.write(str(status))
    os.rename("go.end.tmp", "go.end")


def run(*more, command="run", **kw):
    step(0)
    if command == "run" and os.path.exists("go.end"):
        os.remove("go.end")
    return Screen([ctl, command, "--conf=conf.ini", *more], **kw)


def whole(s):
    """The lines as written, also if the terminal wrapped them."""
    return "".join(line if len(line) >= s.cols else line + "\n" for line in s.lines)


def lines():
    """Log lines: once for equal lines, without date and source, in colours."""
    for cols in 140, 80, 40:
        s = run(cols=cols)
        s.until(lambda: all("训\0练\0 %d" % i in whole(s) for i in range(3)), "the lines of all")
        s.until(lambda: "local.[0-2]/trainer | an error\n" in whole(s), "a folded line")
        for text in "an equal line", "a warning", "an error":
            assert whole(s).count(" | %s\n" % text) == 1, s
        assert "shard.c" not in whole(s), s
        assert b"\x1b[33ma warning\x1b[m" in s.raw and b"\x1b[31man error\x1b[m" in s.raw, s.raw
        colours = dict(re.findall(rb"\x1b\[(\d+)mlocal\.(\d)/trainer \|\x1b\[m \xe8", s.raw))
        assert len(colours) == 3 and not {b"31", b"33"} & set(colours), colours
        end()
        assert s.wait() == 0, s
    for path in glob.glob("root0/JOB*/log/train.log"):
        assert open(path).read().startswith("I1124 18:39:15.000000     0 shard.c:12] an equal line\n"), path
    s = run("--verbose", "--no-fold", cols=140)
    s.until(lambda: "local.1/trainer | E1124 18:39:15.000001    10 shard.c:12] an error\n" in whole(s), "verbose")
    end()
    assert s.wait() == 0, s
    s = run("--role=trainer", "latest", command="logs", cols=80)
    assert s.wait() == 0, s
    assert "local.[0-2]/trainer | an equal line\n" in whole(s) and "shard.c" not in whole(s), s


def dispatch():
    """The result is below the bar's place, not in it."""
    for cols in 140, 80, 40:
        for path in glob.glob("root?/.paddlectl/chunks") + glob.glob("root?/workspaces"):
            os.system("rm -rf " + path)
        s = run("--job_dispatch_package=large", "--relay=off", command="dispatch", cols=cols, rows=10)
        assert s.wait() == 0, s
        assert b"dispatch " in s.raw and s.draws > 1, s.raw
        text = whole(s)
        assert "dispatch " not in text.replace("paddlectl | dispatched", ""), s
        result = text.rstrip("\n").split("\n")[-1]
        assert result.startswith(os.getcwd() + "/root%n/workspaces/large-"), (result, s)


def ps():
    """ps and status fit the terminal; the name, the last metric and the duration stay to 80 columns."""
    step(2)
    if os.path.exists("go.end"):
        os.remove("go.end")
    job = subprocess.run([ctl, "run", "--conf=conf.ini", "--detach", "--name=nightly words"], check=True,
                         stdout=subprocess.PIPE, text=True).stdout.strip()
    end_of = time.monotonic() + 30
    while "40 %" not in subprocess.run([ctl, "ps"], stdout=subprocess.PIPE, text=True).stdout:
        assert time.monotonic() < end_of
        time.sleep(0.2)
    for cols in 140, 80, 40:
        s = Screen([ctl, "ps"], cols=cols)
        assert s.wait() == 0, s
        heads, row = s.lines[:2]
        assert row.startswith(job + "  ") and " running " in row and row.endswith("40 %" if cols == 40 else "4.5"), s
        assert (cols == 40) or re.search(r" nightly words .* \d+ s .* 1/2 +40 %  perplexity 4.5$", row), s
        assert ("MODE" in heads) == (cols == 140) and all(len(x) <= cols for x in s.lines), s
        s = Screen([ctl, "status"], cols=cols)
        assert s.wait() == 0, s
        assert s.lines[0].startswith(job + " (nightly words)"), s
        table = s.lines[s.lines.index("") + 1:]
        assert len(table) == 6 and all(len(x) <= cols for x in table), s
        assert ("PORT" in table[0]) == (cols == 140), s
        assert cols == 40 or (table[3].split()[:4] == ["1", "local.1", "trainers", "trainer"] and "300 words/s   10 %" in table[3]), s
    end()
    while "running" in subprocess.run([ctl, "ps"], stdout=subprocess.PIPE, text=True).stdout:
        assert time.monotonic() < end_of
        time.sleep(0.2)
    s = Screen([ctl, "ps"], cols=80)
    assert s.wait() == 0, s
    row = next(x for x in s.lines if x.startswith(job))
    assert re.search(r" done .* 2/2 +100 %  perplexity 4.5$", row), s


{"lines": lines, "dispatch": dispatch, "ps": ps}[sys.argv[2]]()
