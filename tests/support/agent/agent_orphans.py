# SPDX-License-Identifier: Apache-2.0
"""BINARY ROOT [KILLS] - run by tests/integration/agent/agent_orphans.sh.

Kills one or two of the agent, its guardian and its watcher at random times. Afterwards no process
of the job may be left."""
import os
import random
import signal
import sys
import threading
import time

from agent_client import Agent, AgentError
from orphans import VICTIMS, Chain, describe, marked, nasty, seeded, wait_gone

binary, root = sys.argv[1:3]
kills = int(sys.argv[3]) if len(sys.argv) > 3 else 22
LEASE_MS, LIMIT_S, AT_ONCE = 1000, 20, 4
KEY = bytes(range(32))
rng = seeded()
marks, lock, trouble, worst = [], threading.Lock(), [], [0.0, ""]


class Job:
    def __init__(self, name, hide=True, ping=0.2):
        self.mark = "%d%05d" % (time.time_ns() % 10**9, os.getpid() % 100000)
        with lock:
            marks.append(self.mark)
        self.root, self.id = root + "/" + name, "JOB-" + name
        self.agent = Agent(binary, "--root=" + self.root, "--job=" + self.id, "--node=0", "--start", ping=ping)
        self.chain = Chain(self.agent.hello["pid"])
        self.hide = hide

    def run(self):
        spec = dict(job=self.id, attached=True, attach_lease_ms=LEASE_MS, detach_lease_ms=3000, grace_ms=1000, pserver_nodes=[],
                    trainer_nodes=[0], port=24000, nic="", pserver_command="", trainer_command=nasty(self.mark, self.hide),
                    env={"PD_ORPHAN": self.mark}, train={}, outputs="output")
        a = self.agent
        a.send_package("workspace", {"f": b"x"})
        r = a.ask("JOB_SETUP", dict(job=self.id, node=0, n_nodes=1, spec=spec, worker="", workspace=""), KEY)
        a.ask("JOB_PEERS", {"nodes": [dict(name="host", addrs=r["addrs"], port=r["port"])]})
        a.send("JOB_RUN", {})
        return self

    def wait_up(self):
        self.agent.send("LOG_SUBSCRIBE", {"streams": {"train.log": 0}})
        self.agent.wait(lambda: b"up" in self.agent.logs[1], "the trainer")
        return self

    def left(self):
        return self.chain.left() + marked(self.mark)


def one_kill(i, victims, delay, order):
    j = Job("k%d" % i).run()
    if delay > 0.2:
        j.wait_up()
    else:
        time.sleep(delay)  # during its start
    j.chain.kill(victims, order, [j.agent.proc.pid] if "relay" in victims else [])
    j.agent.closed = True  # stops the pings of the client's thread
    if "relay" not in victims:
        j.agent.kill()
    took = wait_gone(j.left, LIMIT_S)
    text = "kill %d of %s after %.2f s" % (i, "+".join(victims), delay)
    with lock:
        if took is None:
            trouble.append("%s: after %d s there are\n  %s" % (text, LIMIT_S, describe(j.left())))
        elif took > worst[0]:
            worst[:] = [took, text]


def attempt(*args):
    try:
        one_kill(*args)
    except Exception as e:  # an error in a thread fails the test
        with lock:
            trouble.append("%s: %r" % (args[1:3], e))


def random_kills():
    plan = [(i, VICTIMS[i % len(VICTIMS)], rng.random() * 0.4, random.Random(rng.random())) for i in range(kills)]
    bystander = Job("bystander").run().wait_up()
    wait_gone(lambda: len(marked(bystander.mark)) < 6, 10)
    while plan:
        threads = [threading.Thread(target=attempt, args=args) for args in plan[:AT_ONCE]]
        del plan[:AT_ONCE]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not trouble, "\n".join(trouble)
    assert bystander.chain.left() == list(bystander.chain.pid.values()), "another job's guardians were ended"
    assert len(marked(bystander.mark)) > 5, "another job's processes were ended"
    bystander.agent.ask("STOP", {"grace_ms": 200, "reason": "the end"})
    assert not marked(bystander.mark)
    bystander.agent.bye()
    assert wait_gone(bystander.left, LIMIT_S) is not None
    print("%d kills; the longest took %.2f s (%s); a lease is %.1f s" % (kills, worst[0], worst[1], LEASE_MS / 1000))


def all_of_them_at_once():
    """All three are killed: the next command on the node ends the remaining processes."""
    j = Job("all", hide=False).run().wait_up()
    other = Job("other", hide=False).run().wait_up()
    wait_gone(lambda: len(marked(j.mark)) < 6, 10)
    for p in j.chain.pid.values():  # stopped first, so that none can notice another's end
        os.kill(p, signal.SIGSTOP)
    j.chain.kill(("agent", "guardian", "watcher"), rng)
    j.agent.kill()
    time.sleep(0.2)
    assert len(marked(j.mark)) >= 3, "the test would not fail: all processes ended by themselves"
    t = Agent(binary, "--root=" + other.root)  # another root_dir: it does not clean this one
    t.bye()
    assert len(marked(j.mark)) >= 3
    t = Agent(binary, "--root=" + j.root)
    assert not j.left(), describe(j.left())
    row = t.ask("LIST", {})["jobs"][0]
    assert (row["job"], row["state"], row["pid"], row["n_nodes"]) == (j.id, "lost", 0, 1), row
    t.bye()
    with open(j.root + "/" + j.id + "/log/agent.log") as f:
        assert "reaping what " + j.id + " left behind" in f.read()
    late = Agent(binary, "--root=" + j.root, "--job=" + j.id)
    s = late.ask("STATUS", {})
    assert s["state"] == "lost" and s["processes"][0]["state"] == "exited", s
    late.bye()
    assert len(marked(other.mark)) > 3
    other.agent.ask("STOP", {"grace_ms": 200, "reason": "the end"})
    other.agent.bye()
    assert wait_gone(other.left, LIMIT_S) is not None


try:
    random_kills()
    all_of_them_at_once()
finally:
    for m in marks:  # the test leaves no process after a failure
        for p in marked(m):
            try:
                os.kill(p, 9)
            except ProcessLookupError:
                pass
