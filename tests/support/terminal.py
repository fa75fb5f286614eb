#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""terminal.py PADDLECTL PART - tests what a person sees at a terminal. See launch_terminal.sh: it
runs in a folder with conf.ini (three local nodes) and the workspaces ws and large."""
import glob
import json
import os
import re
import shutil
import signal
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
        first = "I1124 18:39:15.000000     0 shard.c:12] an equal line\n"
        assert open(path).read().startswith(first), path
    s = run("--verbose", "--no-fold", cols=140)
    error = "local.1/trainer | E1124 18:39:15.000001    10 shard.c:12] an error\n"
    s.until(lambda: error in whole(s), "verbose")
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
        s = run("--job_dispatch_package=large", "--relay=off", command="dispatch", cols=cols,
                rows=10, env={"PADDLE_AGENT_FAULT": "slow.assemble.put:4"})
        assert s.wait() == 0, s
        assert b"dispatch " in s.raw and s.draws > 1, s.raw
        text = whole(s)
        assert "dispatch " not in text.replace("paddlectl | dispatched", ""), s
        result = text.rstrip("\n").split("\n")[-1]
        assert result.startswith(os.getcwd() + "/root%n/workspaces/large-"), (result, s)


def ps():
    """ps and status fit the terminal; the name, the last metric and the duration stay to 80
    columns."""
    step(2)
    if os.path.exists("go.end"):
        os.remove("go.end")
    job = subprocess.run([ctl, "run", "--conf=conf.ini", "--detach", "--name=nightly words"],
                         check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    end_of = time.monotonic() + 30
    while "40 %" not in subprocess.run([ctl, "ps"], stdout=subprocess.PIPE, text=True).stdout:
        assert time.monotonic() < end_of
        time.sleep(0.2)
    for cols in 140, 80, 40:
        s = Screen([ctl, "ps"], cols=cols)
        assert s.wait() == 0, s
        heads, row = s.lines[:2]
        assert row.startswith(job + "  ") and " running " in row, s
        assert row.endswith("40 %" if cols == 40 else "4.5"), s
        long = r" nightly words .* \d+ s .* 1/2 +40 %  perplexity 4.5$"
        assert cols == 40 or re.search(long, row), s
        assert ("MODE" in heads) == (cols == 140) and all(len(x) <= cols for x in s.lines), s
        s = Screen([ctl, "status"], cols=cols)
        assert s.wait() == 0, s
        assert s.lines[0].startswith(job + " (nightly words)"), s
        table = s.lines[s.lines.index("") + 1:]
        assert len(table) == 6 and all(len(x) <= cols for x in table), s
        assert ("PORT" in table[0]) == (cols == 140), s
        assert cols == 40 or (table[3].split()[:4] == ["1", "local.1", "trainers", "trainer"]
                              and "300 words/s   10 %" in table[3]), s
    end()
    while "running" in subprocess.run([ctl, "ps"], stdout=subprocess.PIPE, text=True).stdout:
        assert time.monotonic() < end_of
        time.sleep(0.2)
    s = Screen([ctl, "ps"], cols=80)
    assert s.wait() == 0, s
    row = next(x for x in s.lines if x.startswith(job))
    assert re.search(r" done .* 2/2 +100 %  perplexity 4.5$", row), s


COOKED, KEYS = (True, True, True), (False, False, True)
LEASE = 5  # attach_lease in conf.ini


def ctl_text(*words):
    return subprocess.run([ctl, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True).stdout


def state():
    return json.loads(ctl_text("ps", "--json"))["jobs"][0]


def wait_state(**want):
    """Waits until the newest job has these values."""
    end_of = time.monotonic() + 60
    while True:
        now = state()
        if all(now[name] == value for name, value in want.items()):
            return
        assert time.monotonic() < end_of, (want, now)
        time.sleep(0.2)


def block(s):
    """The lines below the last line of the log."""
    lines = s.shown()
    k = max([i for i, line in enumerate(lines) if " | " in line] + [-1])
    return lines[k + 1:]


def is_live(s):
    return any(" 40 %" in x for x in block(s)) and s.modes() == KEYS


def n_blocks(s, shown=False):
    return sum(x.startswith("pass 1/2") for x in (s.shown() if shown else s.lines))


def started(*more, command="run", **kw):
    """A job with a live block, and the terminal in the modes for keys."""
    s = run(*more, command=command, **kw)
    step(2)
    s.until(lambda: is_live(s) and "keys: d detach" in whole(s), "the live block")
    s.until(lambda: command != "run" or all("step 2 of %d" % i in whole(s) for i in range(3)),
            "the trainers' lines")
    return s


def press(s, key):
    """A key counts if no other one comes shortly before it."""
    s.until(lambda: not s.untaken(), "the keys before it are read")
    time.sleep(0.4)
    s.type(key)


def keys():
    for cols in 140, 80, 40:
        s = started("--attach_lease=60", cols=cols)
        assert "paddlectl | keys: d detach, q stop, ? help" in whole(s), s
        # typing leaves no trace, and a command typed ahead for the shell neither stops nor detaches
        before = [x for x in s.shown() if " | " in x], n_blocks(s)
        for c in "cd dq?\r\n" + "d" * 20:
            s.type(c)
            time.sleep(0.02)
        s.type("dq\033[A")
        end_of = time.monotonic() + 1.5
        while time.monotonic() < end_of:
            s.read(0.1)
        after = [x for x in s.shown() if " | " in x], n_blocks(s)
        assert after == before and after[1] == 1, (before, after)
        assert all(re.match(r"pass 1/2|local\.\d|l?p$", x) for x in block(s)), block(s)
        # help, below the block
        press(s, "?")
        help_line = "d detach  q stop  Ctrl-L redraw  Ctrl-Z suspend"
        s.until(lambda: block(s)[-1:] == [help_line[:cols - 1]], "help")
        # Ctrl-L: the block once, at the top
        press(s, "\f")
        s.until(lambda: s.shown() and s.shown()[0].startswith("pass 1/2"), "a cleared screen")
        assert n_blocks(s, shown=True) == 1, s
        # q asks; another key goes on
        press(s, "q")
        question = "stop the job? y: stop it, any other key: go on"
        s.until(lambda: block(s)[-1:] == [question[:cols - 1]], "a question")
        s.type("n")
        s.until(lambda: not any("stop the job" in x for x in block(s)), "no question")
        assert state()["state"] == "running"
        press(s, "q")
        s.until(lambda: any("stop the job" in x for x in block(s)), "a question")
        s.type("y")
        assert s.wait() == 130, s
        assert "paddlectl | q: stopping JOB" in whole(s) and s.modes() == COOKED, (s, s.modes())
        assert state()["state"] == "stopped"
    # d detaches: the job goes on beyond its lease; attach has the same keys
    s = started()
    assert state()["attached"] is True
    press(s, "d")
    assert s.wait() == 0, s
    assert "paddlectl | the job runs; 'paddlectl attach' shows it" in whole(s), s
    assert s.modes() == COOKED, s
    assert not any(x.startswith("stop") for x in s.shown())
    wait_state(attached=False)
    time.sleep(LEASE + 2)
    wait_state(state="running", attached=False)
    s = started(command="attach")
    press(s, "d")
    assert s.wait() == 0 and "the job runs" in whole(s), s
    s = started(command="attach")
    s.type("\x03")
    assert s.wait() == 130 and " continues; " in whole(s), s
    assert state()["state"] == "running", state()
    s = started(command="attach")
    press(s, "q")
    s.until(lambda: any("stop the job" in x for x in block(s)), "a question")
    s.type("y")
    assert s.wait() == 130, s
    assert state()["state"] == "stopped", state()


def shell(script, command="run", env=None, **kw):
    """A shell with job control, which runs a script on the terminal."""
    step(0)
    if os.path.exists("go.end"):
        os.remove("go.end")
    env = {"CTL": "%s %s --conf=conf.ini" % (ctl, command), **(env or {})}
    return Screen(["bash", "--norc", "-c", "set -m; " + script], env=env, **kw)


def launcher(s):
    """The process id of paddlectl, a child of the shell."""
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            name, rest = open(path).read().rsplit(")", 1)
        except OSError:
            continue
        if name.endswith("(paddlectl") and int(rest.split()[1]) == s.proc.pid:
            return int(path.split("/")[2])
    raise AssertionError("no paddlectl below the shell\n%s" % s)  # kill(0) would end the test


def stopped_for(s, least, lease):
    """paddlectl says for how long it was stopped: at least `least` seconds."""
    form = r"paddlectl was stopped for (\d+) s; the job's lease is %d s\n" % lease
    s.until(lambda: re.search(form, whole(s)), "it says so")
    assert int(re.search(form, whole(s)).group(1)) >= least, s


def suspend():
    """Ctrl-Z, and fg within the lease; a stop that is longer; SIGSTOP from elsewhere."""
    for cols in 140, 80, 40:
        s = shell("$CTL --attach_lease=60; echo; echo STOPPED $?; "
                  "stty -a | tr ' ' '\\n' | grep -xE -- '-?(icanon|echo);?'; "
                  "sleep 2; fg >/dev/null; echo END $?", cols=cols)
        step(2)
        s.until(lambda: is_live(s), "the live block")
        s.type("\x1a")
        s.until(lambda: "STOPPED" in whole(s), "a stop")
        s.until(lambda: "\nicanon\n" in whole(s) and "\necho\n" in whole(s), "the shell's modes")
        assert n_blocks(s) == 0, s  # the block was wiped
        assert "Ctrl-Z: without paddlectl the nodes end the job after 60 s" in whole(s), s
        stopped_for(s, 2, 60)
        s.until(lambda: "paddlectl | the job still runs\n" in whole(s), "what became of the job")
        s.until(lambda: s.modes() == KEYS and n_blocks(s) == 1, "the block again")
        end()
        s.until(lambda: "END 0" in whole(s), "the end")
        assert s.wait() == 0 and s.modes() == COOKED, s
    # longer than the lease: the job has ended, and that is said
    s = shell("$CTL; sleep %d; fg >/dev/null; echo END $?" % (LEASE + 4))
    step(2)
    s.until(lambda: is_live(s), "the live block")
    s.type("\x1a")
    stopped_for(s, LEASE, LEASE)
    s.until(lambda: "paddlectl | the job has ended meanwhile" in whole(s), "what became of the job")
    s.until(lambda: "END 1" in whole(s), "the end")
    lost = re.search(r"connection to node \d was lost for", whole(s).replace("\n", ""))
    assert "failed" in whole(s) and lost, s
    # SIGSTOP
    s = started("--attach_lease=60")
    s.proc.send_signal(signal.SIGSTOP)
    time.sleep(4)
    s.proc.send_signal(signal.SIGCONT)
    stopped_for(s, 3, 60)
    s.until(lambda: "paddlectl | the job still runs\n" in whole(s), "what became of the job")
    s.until(lambda: s.modes() == KEYS and n_blocks(s) == 1, "the block once")
    end()
    assert s.wait() == 0, s


def bar_keys():
    """q, ? and Ctrl-Z in the bar of dispatch."""
    slow = {"PADDLE_AGENT_FAULT": "slow.assemble.put:30"}
    words = "dispatch --job_dispatch_package=large --relay=off"

    def forget():
        for path in glob.glob("root?/.paddlectl/chunks") + glob.glob("root?/workspaces"):
            shutil.rmtree(path)

    def has_bar(s):
        return any(x.startswith("dispatch ") for x in s.shown())

    for cols in 140, 80, 40:
        forget()
        s = Screen([ctl, *words.split(), "--conf=conf.ini"], cols=cols, rows=10, env=slow)
        hint = "keys: q stop, ? help"
        s.until(lambda: has_bar(s) and s.modes() == KEYS and s.shown()[-1:] == [hint], "a hint")
        for c in "ls -l\r":
            s.type(c)
            time.sleep(0.02)
        press(s, "?")
        help_line = "q stop  Ctrl-L redraw  Ctrl-Z suspend"
        s.until(lambda: s.shown()[-1:] == [help_line[:cols - 1]], "help")
        assert has_bar(s) and "ls" not in whole(s).replace("rel", ""), s
        press(s, "d")
        told = "a dispatch needs paddlectl; after q the next one goes on"
        s.until(lambda: s.shown()[-1:] == [told[:cols - 1]], "what d does")
        press(s, "q")
        question = "stop the dispatch? y: stop it, any other key: go on"
        s.until(lambda: s.shown()[-1:] == [question[:cols - 1]], "a question")
        s.type("n")
        s.until(lambda: len(s.shown()) == 1 and has_bar(s), "no question")
        press(s, "q")
        s.until(lambda: s.shown()[-1:] == [question[:cols - 1]], "a question")
        s.type("y")
        assert s.wait() == 130 and s.modes() == COOKED, (s, s.modes())
        said = "paddlectl | the dispatch was interrupted; what has arrived is not sent again"
        assert whole(s).rstrip() == said, s
    forget()
    s = shell("$CTL; echo; echo STOPPED $?; sleep 2; fg >/dev/null; echo END $?", command=words,
              env={"PADDLE_AGENT_FAULT": "slow.assemble.put:4"}, rows=10)
    s.until(lambda: has_bar(s) and s.modes() == KEYS, "the bar")
    s.type("\x1a")
    s.until(lambda: "STOPPED" in whole(s) and s.modes() == COOKED, "a stop")
    assert not has_bar(s), s
    s.until(lambda: has_bar(s) and s.modes() == KEYS, "the bar again")
    s.until(lambda: "END 0" in whole(s), "the end")
    assert s.wait() == 0 and s.modes() == COOKED and not has_bar(s), s


def background():
    """In the background: no block, no stop by the terminal (stty tostop), the terminal's modes
    untouched."""
    s = shell("stty tostop; $CTL & until [ -e seen ]; do sleep 0.1; done; echo; echo BACK; "
              "jobs -s; sleep 3; fg %1 >/dev/null; echo END $?", cols=80)
    s.until(lambda: "STARTED" in whole(s) or "trainers: " in whole(s), "it runs")
    step(2)
    s.until(lambda: "step 2 of 0" in whole(s), "a line in the background")
    open("seen", "w").close()
    s.until(lambda: "BACK" in whole(s), "the shell")
    assert s.modes() == COOKED and n_blocks(s) == 0 and "Stopped" not in whole(s), s
    s.until(lambda: s.modes() == KEYS and any(x.startswith("pass 1/2") for x in block(s)),
            "the foreground")
    s.type("\x1a")  # and back again with bg
    s.until(lambda: "END 148" in whole(s), "a stop")
    s.wait()
    assert s.modes() == COOKED, s


def killed():
    """The modes are restored however paddlectl ends."""
    for signum in signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT:
        s = shell("$CTL; echo; echo END $?; sleep 0.3; read -r line; echo got $line")
        step(2)
        s.until(lambda: is_live(s), "the live block")
        os.kill(launcher(s), signum)
        s.until(lambda: "END" in whole(s), "the end")
        s.until(lambda: s.modes() == COOKED, "the modes")
        s.type("a line\r")
        assert s.wait() == 0 and "got a line" in whole(s), s
        deadline = time.monotonic() + 30
        while state()["state"] == "running":
            assert time.monotonic() < deadline
            time.sleep(0.2)


def hangup():
    """A terminal that closes: on_hangup."""
    def close(s):
        os.close(s.master)
        s.open = False

    for how, want in ("stop", "stopped"), ("detach", "running"):
        s = started("--on_hangup=" + how)
        close(s)
        s.proc.wait(60)
        wait_state(state=want, attached=False)  # a stopped job is not attached, either
    time.sleep(LEASE + 2)
    wait_state(state="running", attached=False)
    assert "stopped on 3 nodes" in ctl_text("stop")
    # nohup: paddlectl goes on without the terminal, and the job with it
    s = shell("trap '' HUP; exec $CTL")
    step(2)
    s.until(lambda: "step 2 of 0" in whole(s), "it runs")
    close(s)
    time.sleep(LEASE + 2)
    assert s.proc.poll() is None
    wait_state(state="running", attached=True)
    s.proc.terminate()
    assert s.proc.wait(60) == 130 and state()["state"] == "stopped", state()
    # while a node is being connected again: paddlectl leaves when it has told that node, too
    lease = 12
    s = started("--on_hangup=detach", "--attach_lease=%d" % lease)
    with open("root1/%s/.agent/pid" % state()["job"]) as f:
        agent = int(f.read())
    os.kill(agent, signal.SIGSTOP)
    try:
        s.until(lambda: "connecting again" in whole(s), "the loss")
        close(s)
        time.sleep(1)
        assert s.proc.poll() is None
    finally:
        os.kill(agent, signal.SIGCONT)
    s.proc.wait(60)
    time.sleep(lease + 2)
    wait_state(state="running", attached=False)
    assert "stopped on 3 nodes" in ctl_text("stop")


def colours():
    """Messages of paddlectl: errors red, warnings yellow; no colour with NO_COLOR."""
    s = Screen([ctl, "run", "--conf=dead.ini", "--min-nodes=2", "--trainer_command=true"])
    assert s.wait() == 0 and b"| \x1b[33mwarning: 127.0.0.[10-50] is left out" in s.raw, s.raw
    s = Screen([ctl, "run", "--conf=none.ini"])
    assert s.wait() == 2 and b"\x1b[31mpaddlectl: " in s.raw, s.raw
    s = Screen([ctl, "run", "--conf=none.ini"], env={"NO_COLOR": "1"})
    assert s.wait() == 2 and b"\x1b" not in s.raw, s.raw


PARTS = colours, lines, dispatch, ps, keys, bar_keys, suspend, background, killed, hangup
{f.__name__: f for f in PARTS}[sys.argv[2]]()
