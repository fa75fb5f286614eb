# SPDX-License-Identifier: Apache-2.0
"""Run by tests/integration/agent/agent_job.sh: detached jobs whose head is silent, so that the nodes choose another one."""
import json
import os
import signal
import time

from agent_client import Agent, wait_until
from agent_job import Job, binary, run_tests


def detached(n=3, **spec):
    """A job that runs without a client."""
    j = Job(n=n, trainer_command="echo up $PADDLE_RESTART_COUNT; exec sleep 1000", attached=False, on_failure="restart",
            max_restarts=3, restart_ms=100, **spec).run()
    trainers = spec.get("trainer_nodes", range(n))
    for i in trainers:
        j.agents[i].wait(lambda: b"up" in j.agents[i].logs[1], "the trainers")
    for a in j.agents:
        a.kill()
    return j


def look(j, *nodes):
    seen = [Agent(binary, "--root=" + j.roots[i], "--job=" + j.id, ping=0.3) for i in nodes]
    for a in seen:
        a.send("LOG_SUBSCRIBE", {"streams": {"train.log": 0}})
    return seen


def text(j, node, name):
    with open(j.dirs[node] + "/log/" + name) as f:
        return f.read()


def stop(agents):
    for a, req in [(a, a.send("STOP", {"grace_ms": 1000, "reason": "a client"})) for a in agents]:
        a.answer(req)
        assert a.wait_result()["status"] == "stopped", a.results


def test_a_head_that_stood_still_does_nothing_afterwards():
    """SIGSTOP of the head's agent for longer than its lease: node 1 is chosen. After SIGCONT the old head ends its processes, and starts nothing."""
    j = detached(detach_lease_ms=2000)
    os.kill(j.agents[0].hello["pid"], signal.SIGSTOP)
    one, two = look(j, 1, 2)
    for a in one, two:
        a.wait(lambda: b"up 1" in a.logs[1], "the trainers of the next attempt", 60)
    assert not os.path.exists(j.dirs[0] + "/result.json")
    os.kill(j.agents[0].hello["pid"], signal.SIGCONT)
    wait_until(lambda: os.path.exists(j.dirs[0] + "/result.json"), "the old head's end", 60)
    with open(j.dirs[0] + "/result.json") as f:
        reason = json.load(f)["first_failure"]["reason"]
    assert "no majority of the 3 nodes that vote has answered node 0, the head" in reason, reason
    time.sleep(2)  # what it may have sent has come
    assert text(j, 0, "train.log").count("up ") == 1, text(j, 0, "train.log")
    for a in one, two:
        s = a.ask("STATUS", {})
        assert (s["state"], s["head"], s["restarts"]) == ("trainers", 1, 1), s
        assert a.logs[1].count(b"up ") == 2, bytes(a.logs[1])
    stop([one, two])
    for a in one, two:
        a.bye()
    j.gone(90)


def test_a_stop_during_the_election():
    """The head is killed. A client stops the other nodes at once, or when they are about to choose: nobody becomes the head any more."""
    for wait in 0, 5, 5.6:
        j = detached(detach_lease_ms=2000)
        seen = look(j, 1, 2)
        os.kill(j.agents[0].hello["pid"], signal.SIGKILL)
        time.sleep(wait)
        stop(seen)
        for a in seen:
            a.bye()
        j.gone(90)


def test_more_silent_nodes_than_calls():
    """The new head calls at most 64 nodes at a time. 65 nodes stand still: the one behind them is called before they count as lost."""
    if "/san-" in binary:
        return print("elsewhere: 220 processes are too many with a sanitizer; the release flavour runs them")
    n = 73
    j = detached(n, detach_lease_ms=20000, pserver_nodes=[2], trainer_nodes=[1])
    for a in j.agents[7:n - 1]:
        os.kill(a.hello["pid"], signal.SIGSTOP)
    os.kill(j.agents[0].hello["pid"], signal.SIGKILL)
    try:
        wait_until(lambda: "node 1 is the head now" in text(j, 1, "paddle_agent.INFO"), "another head", 90)
        wait_until(lambda: "node %d joined from" % (n - 1) in text(j, 1, "paddle_agent.INFO"), "the last node", 20)
        log = text(j, 1, "paddle_agent.INFO")
        assert log.count(" joined from") == 6, log  # nodes 2 to 6, and the last one
    finally:
        for a in j.agents[1:]:
            os.kill(a.hello["pid"], signal.SIGKILL)
    j.gone(90)


if __name__ == "__main__":
    run_tests(globals())
