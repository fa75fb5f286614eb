# SPDX-License-Identifier: Apache-2.0
"""Run by tests/integration/agent/agent_job.sh: jobs on agents of this machine whose client, agents or head are lost."""
import json
import os
import signal
import time

from agent_client import Agent, AgentError, wait_until
from agent_job import Job, binary, run_tests


def leave_without_head(j):
    """All clients and the agent of node 0 are killed when the trainers run."""
    for a in j.agents:
        a.wait(lambda: b"up" in a.logs[1], "the trainers")
    for a in j.agents:
        a.kill()
    os.kill(j.agents[0].hello["pid"], signal.SIGKILL)


def test_leases():
    forever = "echo up; (setsid sleep 1000 &); while :; do sleep 1; done"
    # kill -9 of the whole client: after attach_lease no process is left on any node
    j = Job(trainer_command=forever, attach_lease_ms=1000).run()
    for a in j.agents:
        a.wait(lambda: b"up" in a.logs[1], "the trainers")
    for a in j.agents:
        a.kill()
    j.gone()
    with open(j.dirs[0] + "/result.json") as f:
        r = json.load(f)
    assert r["status"] == "failed" and "connection to node" in r["first_failure"]["reason"], r
    # a short cut does no harm: the client comes back within the lease
    j = Job(n=2, trainer_command="echo up; sleep 2; echo still here", pserver_nodes=[], attach_lease_ms=2500).run()
    j.agents[1].wait(lambda: b"up" in j.agents[1].logs[1], "the trainer")
    j.agents[1].kill()
    time.sleep(0.5)
    seen = len(j.agents[1].logs[1])
    j.agents[1] = Agent(binary, "--root=" + j.roots[1], "--job=" + j.id, ping=0.3)
    j.agents[1].send("LOG_SUBSCRIBE", {"streams": {"server.log": 0, "train.log": seen, "events": 0}})
    j.agents[1].start = {1: seen}
    r = [a.wait_result() for a in j.agents]
    assert r[0]["status"] == "done", r
    j.agents[1].wait(lambda: b"still here" in j.agents[1].logs[1], "the log")
    j.bye()
    # one node's client is lost: the whole job ends, and reports the reason
    j = Job(n=2, trainer_command=forever, attach_lease_ms=1000).run()
    for a in j.agents:
        a.wait(lambda: b"up" in a.logs[1], "the trainers")
    j.agents[1].kill()
    r = j.agents[0].wait_result()
    assert r["status"] == "failed" and "connection to node 1 was lost" in r["first_failure"]["reason"], r
    j.agents[0].bye()
    j.gone()
    # detached: the job continues without a client
    j = Job(n=2, attached=False, trainer_command="echo up; sleep 2; echo end", attach_lease_ms=500, pserver_nodes=[]).run()
    for a in j.agents:
        a.wait(lambda: b"up" in a.logs[1], "the trainers")
    for a in j.agents:
        a.kill()
    j.gone()
    for i in range(2):
        with open(j.dirs[i] + "/result.json") as f:
            assert json.load(f)["status"] == "done"
        with open(j.dirs[i] + "/log/train.log") as f:
            assert f.read() == "up\nend\n"


def test_agents_that_die():
    forever = "echo up; (setsid sleep 1000 &); while :; do sleep 1; done"
    # a member's agent is killed: its guardian ends its processes, the head ends the job
    j = Job(trainer_command=forever, attach_lease_ms=2000).run()
    for a in j.agents:
        a.wait(lambda: b"up" in a.logs[1], "the trainers")
    os.kill(j.agents[1].hello["pid"], signal.SIGKILL)
    r = j.agents[0].wait_result()
    assert r["status"] == "failed" and r["first_failure"]["node"] == 1 and "agent is gone" in r["first_failure"]["reason"], r
    j.agents[0].bye()
    j.agents[2].bye()
    j.gone()
    # the head's agent is killed in a detached job of two nodes: the other one ends after detach_lease
    j = Job(n=2, trainer_command=forever, attached=False, detach_lease_ms=1500, on_failure="restart").run()
    leave_without_head(j)
    j.gone()
    with open(j.dirs[1] + "/result.json") as f:
        reason = json.load(f)["first_failure"]["reason"]
    assert "has not heard of node 0" in reason and reason.endswith(f"paddlectl run --resume={j.id}"), reason
    # the guardian is killed: the agent ends everything and goes, too
    j = Job(n=1, trainer_command=forever, attach_lease_ms=2000).run()
    a = j.agents[0]
    a.wait(lambda: b"up" in a.logs[1], "the trainer")
    with open("/proc/%d/stat" % a.hello["pid"]) as f:
        guardian = int(f.read().rsplit(")", 1)[1].split()[1])
    os.kill(guardian, signal.SIGKILL)
    assert "signal 15" in a.wait_result()["first_failure"]["reason"]
    a.bye()
    j.gone()


def test_nodes_choose_a_head():
    """The head of a detached job is killed: the other two choose node 1, which starts all processes again. Then node 1 is killed, too: node 2
    is no majority, and ends."""
    j = Job(trainer_command="echo up $PADDLE_RESTART_COUNT; exec sleep 1000", attached=False, detach_lease_ms=2000, on_failure="restart",
            max_restarts=3, restart_ms=100).run()
    leave_without_head(j)
    one, two = [Agent(binary, "--root=" + j.roots[i], "--job=" + j.id, ping=0.3) for i in (1, 2)]
    for a in one, two:
        a.send("LOG_SUBSCRIBE", {"streams": {"train.log": 0}})
        a.wait(lambda: b"up 1" in a.logs[1], "the trainers of the next attempt")
        s = a.ask("STATUS", {})
        assert (s["head"], s["restarts"], s["attached"]) == (1, 1, False), s
        try:  # a client chooses no head of a detached job
            a.ask("JOB_HEAD", {"head": 2, "nodes": j.peers if a is two else j.peers[2:]})
        except AgentError as e:
            assert "its nodes choose the head" in e.text, e.text
        else:
            raise AssertionError("accepted")
    assert [l["node"] for l in one.ask("STATUS", {})["lost"]] == [0]
    two.kill()
    os.kill(one.hello["pid"], signal.SIGKILL)
    j.gone(90)
    with open(j.dirs[2] + "/result.json") as f:
        reason = json.load(f)["first_failure"]["reason"]
    assert "node 2 has not heard of node 1 " in reason and "no majority" in reason, reason


def test_another_head():
    """AG_JOB_HEAD is refused unless it fits, has its effect once, and may be repeated. The job has one head at a time, can be stopped, and
    is then over for AG_JOB_HEAD, too."""
    j = Job(trainer_command="echo up $PADDLE_RESTART_COUNT; exec sleep 1000", on_failure="restart", max_restarts=3, restart_ms=100, detach_lease_ms=20000,
            attach_lease_ms=20000).run()
    for a in j.agents:
        a.wait(lambda: b"up 0" in a.logs[1], "the trainers")
    one, two = j.agents[1:]

    def refuses(agent, says, **body):
        try:
            agent.ask("JOB_HEAD", body)
        except AgentError as e:
            assert says in e.text, (says, e.text)
        else:
            raise AssertionError("accepted: %r" % body)

    refuses(j.agents[0], "node 0 is the head", head=1, nodes=j.peers[1:2])
    os.kill(j.agents[0].hello["pid"], signal.SIGKILL)
    for head in 1, 2:  # all nodes to the head, the head to the others
        refuses(one, "AG_JOB_HEAD: %d nodes" % (1 if head == 1 else 3), head=head, nodes=j.peers[:1] if head == 1 else j.peers)
    refuses(one, "port", head=1, nodes=[dict(p, port=0) for p in j.peers])
    refuses(one, "node 0 is the head", head=3, nodes=j.peers[:1])
    assert one.ask("JOB_HEAD", {"head": 0, "nodes": j.peers[:1]}) == {}  # it is the head: an old request
    lost = [{"node": 0, "host": "host-0", "reason": "killed"}]
    for again in range(2):
        assert one.ask("JOB_HEAD", {"head": 1, "nodes": j.peers, "lost": lost}) == {}
        assert two.ask("JOB_HEAD", {"head": 1, "nodes": j.peers[1:2]}) == {}
    for a in one, two:
        a.wait(lambda: b"up 1" in a.logs[1], "the trainers of the next attempt")
        s = a.ask("STATUS", {})
        assert (s["head"], s["restarts"]) == (1, 1), s
        refuses(a, "node 1 is the head", head=0, nodes=j.peers[:1])
    refuses(one, "node 1 is the head", head=2, nodes=j.peers[2:])  # a head follows nobody
    assert b"up 2" not in one.logs[1] + two.logs[1], "the repeated request had an effect"
    reqs = [a.send("STOP", {"grace_ms": 1000, "reason": "a client"}) for a in (one, two)]
    for a, req in zip((one, two), reqs):
        a.answer(req)
        r = a.wait_result()
        assert r["status"] == "stopped" and r["head"] == 1 and r["restarts"] == 1, r
    assert [l["node"] for l in one.results[-1]["lost"]] == [0], one.results
    refuses(two, "the job has ended on node 2", head=2, nodes=j.peers)
    for a in one, two:
        a.bye()
    j.gone()


def test_the_owner_of_a_job():
    """AG_PING: the owner's token, a claim that comes too early, one that counts; AG_JOB_HEAD of another client is refused."""
    j = Job(n=2, pserver_nodes=[], trainer_command="echo up; exec sleep 1000", attach_lease_ms=4000, ping=60,
            set_up=lambda i, a: {"owner": "aa"}).run()
    second = [Agent(binary, "--root=" + r, "--job=" + j.id, ping=60) for r in j.roots]

    def ping(a, owner, claim=False):
        return a.ask("PING", {"owner": owner, "claim": claim})

    for a in j.agents:
        p = ping(a, "aa")
        assert p["owned"] and p["owner"] and p["lease_ms"] == 4000, p
    time.sleep(0.5)
    p = ping(second[0], "bb", True)
    assert p["owned"] and not p["owner"] and 400 <= p["silent_ms"] < 2000, p
    try:
        second[1].ask("JOB_HEAD", {"head": 1, "nodes": j.peers})
    except AgentError as e:
        assert "another paddlectl keeps the job" in e.text, e.text
    else:
        raise AssertionError("AG_JOB_HEAD of another client")
    time.sleep(1.8)
    assert ping(second[0], "bb", True)["owner"]  # node 0 alone: node 1 is not asked
    assert not ping(j.agents[0], "aa")["owner"]
    r = j.agents[1].wait_result()  # the lease ends node 1, whose owner is silent; the job ends with it
    assert "the launcher's connection to node 1 was lost" in r["first_failure"]["reason"], r
    r = j.agents[0].wait_result()
    assert r["status"] == "failed" and not ping(second[0], "bb")["owned"], r
    for a in second:
        a.bye()
    j.bye()


if __name__ == "__main__":
    run_tests(globals())
