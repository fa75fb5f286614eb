# SPDX-License-Identifier: Apache-2.0
"""Run by tests/integration/agent/agent_job.sh: jobs on three agents on this machine, with scripts
as pservers and trainers."""
import json
import os
import re
import signal
import socket
import sys
import threading
import time

from agent_client import Agent, AgentError, descendants_of_environment, wait_until

binary, root = sys.argv[1:3]
only = sys.argv[3:]
KEY = bytes(range(32))
LISTEN = ("python3 -c 'import socket,os\n"
          "s=socket.socket(); s.bind((os.environ[\"POD_IP\"], int(os.environ[\"PADDLE_PORT\"]))); s.listen()\n"
          "print(\"listens\", flush=True)\n"
          "while True: s.accept()[0].close()'")
count = [0]


class Job:
    """Three agents, set up and introduced to each other; job.run() starts. set_up(node, agent) may
    give more fields of AG_JOB_SETUP."""

    def __init__(self, n=3, workspace=None, ping=0.3, in_place=None, set_up=lambda i, a: {}, **spec):
        count[0] += 1
        self.id, self.n = "JOB%04d-%d" % (count[0], os.getpid() % 10000), n
        self.spec = dict(job=self.id, attached=True, attach_lease_ms=3000, detach_lease_ms=3000, grace_ms=1000,
                         pserver_nodes=list(range(n)), trainer_nodes=list(range(n)), port=23000, ports_num=1,
                         ports_num_for_sparse=1, nic="", pserver_command=LISTEN, trainer_command="true", env={}, train={},
                         outputs="output")
        self.spec.update(spec)
        self.roots = [root + "/n%d" % i for i in range(n)]
        self.agents = [Agent(binary, "--root=" + self.roots[i], "--job=" + self.id, "--node=%d" % i, "--start", ping=ping)
                       for i in range(n)]
        self.dirs = [a.hello["job_dir"] for a in self.agents]
        self.peers = []
        for i, a in enumerate(self.agents):
            if not in_place:
                a.send_package("workspace", workspace or {"readme": b"hello"})
            r = a.ask("JOB_SETUP", {"job": self.id, "node": i, "n_nodes": n, "spec": self.spec, "worker": "", "workspace": in_place or "", **set_up(i, a)}, KEY)
            self.peers.append(dict(name="host-%d" % i, addrs=r["addrs"], port=r["port"]))
        for a in self.agents:
            a.send("LOG_SUBSCRIBE", {"streams": {"server.log": 0, "train.log": 0, "events": 0}})

    def introduce(self):
        for i, a in enumerate(self.agents):
            a.ask("JOB_PEERS", {"nodes": self.peers[:1] if i else self.peers})

    def run(self):
        self.introduce()
        self.agents[0].ask("JOB_RUN", {})
        return self

    def result(self, seconds=40):
        r = [a.wait_result(seconds) for a in self.agents]
        for i, a in enumerate(self.agents):
            a.wait(lambda: len(a.log_end) == 3, "AG_LOG_END of all streams")
            assert not a.errors, a.errors
            assert r[i]["node"] == i and r[i]["status"] == r[0]["status"], r
            for k, name in enumerate(["server.log", "train.log", "events"]):
                assert a.log_end[name] == len(a.logs[k])
        return r[0]

    def log(self, node, stream=1):
        return bytes(self.agents[node].logs[stream]).decode()

    def bye(self):
        for a in self.agents:
            a.bye()
        self.gone()

    def gone(self, seconds=30):
        mine = lambda: descendants_of_environment("PD_TEST_MARK=" + os.environ["PD_TEST_MARK"])
        wait_until(lambda: not mine(), "no process left, but there are %r" % mine(), seconds)
        for d in self.dirs:
            for f in ("sock", "key", "pid"):
                assert not os.path.exists(d + "/.agent/" + f), d + "/.agent/" + f


def ppid(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rpartition(")")[2].split()[1])


def env_of(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def test_a_job_from_start_to_end():
    script = ("#!/bin/sh\nenv\npwd -P\ncat data/part\n"
              "echo '{\"ev\":\"progress\",\"rank\":'$PADDLE_TRAINER_ID'}' >&$PADDLE_EVENT_FD\n"
              "python3 connect.py\necho model-$PADDLE_NODE_ID >output/model\nln -s /etc/passwd output/bad\nexit 0\n")
    connect = ("import os,socket\nfor e in os.environ['PADDLE_PSERVERS_IP_PORT_LIST'].split(','):\n"
               "    ip, port = e.split(':')\n    socket.create_connection((ip, int(port))).close()\nprint('all pservers listen')\n")
    ws = {"train.sh": (script.encode(), 0o755), "connect.py": connect.encode(), "data": None, "data/part": b"part\n",
          "output": None, "output/old": b"old model\n"}
    slow = "sleep 0.$PADDLE_NODE_ID; " + LISTEN  # nodes become ready at different times
    j = Job(workspace=ws, pserver_command=slow, trainer_command="./train.sh", env={"MY": "a b"}, train={"num_passes": "3"}).run()
    r = j.result()
    assert r["status"] == "done" and r["first_failure"] is None, r
    states = [s["state"] for s in j.agents[0].states]
    order = [s for i, s in enumerate(states) if i == 0 or states[i - 1] != s]
    assert order == ["setup", "connecting", "probing", "binding", "pservers", "trainers", "ending", "done"], order
    endpoints = set()
    for i in range(3):
        e = env_of(j.log(i))
        assert e["PADDLE_JOB_ID"] == j.id and e["PADDLE_NODE_ID"] == str(i) and e["PADDLE_TRAINER_ID"] == str(i)
        assert e["TRAINING_ROLE"] == "TRAINER" and e["PADDLE_TRAINERS_NUM"] == "3" and e["MY"] == "a b"
        assert e["PADDLE_INIT_NUM_PASSES"] == "3" and e["PADDLE_INIT_NUM_GRADIENT_SERVERS"] == "3"
        assert e["PADDLE_INIT_PSERVERS"] == e["PADDLE_PSERVERS_IP_PORT_LIST"]
        assert e["PADDLE_CURRENT_ENDPOINT"] == e["POD_IP"] + ":" + e["PADDLE_PORT"]
        endpoints.add(e["PADDLE_PSERVERS_IP_PORT_LIST"])
        assert "\npart\n" in j.log(i) and "\nall pservers listen\n" in j.log(i)
        assert j.dirs[i] + "/workspace\n" in j.log(i)
        assert json.loads(j.log(i, 2)) == {"ev": "progress", "rank": i}
        with open(j.dirs[i] + "/log/train.log") as f:
            assert f.read() == j.log(i)
        out = j.agents[i].fetch("output")
        assert out == {"model": b"model-%d\n" % i, "old": b"old model\n"}, out
        assert b"PADDLE_JOB_ID" in j.agents[i].fetch("log")["train.log"]
        with open(j.dirs[i] + "/result.json") as f:
            assert json.load(f)["status"] == "done"
        with open(j.dirs[i] + "/nodefile") as f:
            assert f.read() == "%d\n" % i
    assert len(endpoints) == 1 and len(set(endpoints.pop().split(","))) == 3
    j.bye()
    # a finished job is served from disk, from every offset
    late = Agent(binary, "--root=" + j.roots[1], "--job=" + j.id)
    late.start = {1: 100}
    assert late.wait_result()["status"] == "done"
    late.send("LOG_SUBSCRIBE", {"streams": {"train.log": 100}})
    late.wait(lambda: "train.log" in late.log_end, "the log's end")
    assert bytes(late.logs[1]) == j.log(1).encode()[100:] and not late.errors
    assert late.fetch("output")["model"] == b"model-1\n"
    late.bye()


def test_a_folder_that_changes_while_it_is_fetched():
    j = Job(n=1, pserver_nodes=[], trainer_command="mkdir output/d; head -c 300000 /dev/urandom >output/d/same; echo 1 >output/f; echo up; sleep 1000").run()
    a = j.agents[0]
    a.wait(lambda: b"up" in a.logs[1], "the trainer")
    rounds = []

    def rewrite(until):
        def on_root(n):
            rounds.append(n)
            if n < until:
                with open(j.dirs[0] + "/output/f", "w") as f:
                    f.write("of round %d\n" % n)
        return on_root
    had = {}
    out = a.fetch("output", rewrite(3), had)
    assert rounds == [1, 2, 3] and out["f"] == b"of round 2\n" and len(out["d/same"]) == 300000, (rounds, out["f"])
    # objects that a client has are not sent again
    before, known = len(had), dict(had)
    with open(j.dirs[0] + "/output/f", "w") as f:
        f.write("more\n")
    assert a.fetch("output", lambda n: None, had)["f"] == b"more\n" and len(had) <= before + 3, (before, len(had))
    assert all(had[i] == known[i] for i in known)
    # a file that never stops changing: the other folder can still be fetched
    try:
        a.fetch("output", rewrite(100))
    except AgentError as e:
        assert "5 times in a row: " in e.text and "/output/f changed while it was sent" in e.text, e.text
    else:
        raise AssertionError("fetched")
    assert b"up\n" in a.fetch("log")["train.log"]
    # ids that are not the folder's end only this fetch
    req = a.send("FETCH", {"dir": "output"})
    assert a.answer(req).body["round"] == 1
    a.send("DS_NEED", {"round": 1}, b"x" * 32, req=req)
    try:
        a.answer(req)
    except AgentError as e:
        assert "not in this package" in e.text, e.text
    else:
        raise AssertionError("sent")
    a.send("DS_NEED", {"round": 1}, b"x" * 32, req=req)
    os.remove(j.dirs[0] + "/output/f")
    assert set(a.fetch("output")) == {"d", "d/same"}
    a.ask("STOP", {"grace_ms": 0, "reason": ""})
    j.bye()


def test_own_programs_may_listen_on_all_addresses():
    j = Job(pserver_command=LISTEN.replace('os.environ["POD_IP"]', '""')).run()
    assert j.result()["status"] == "done", j.agents[0].results
    j.bye()


def test_roles_on_some_nodes_and_one_node():
    j = Job(pserver_nodes=[2], trainer_nodes=[1, 0], trainer_command="echo rank $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM").run()
    assert j.result()["status"] == "done"
    assert "rank 0 of 2" in j.log(1) and "rank 1 of 2" in j.log(0) and j.log(2) == "" and "listens" in j.log(2, 0)
    j.bye()
    j = Job(n=1, pserver_nodes=[], trainer_command="echo [$PADDLE_PSERVERS_IP_PORT_LIST]").run()
    assert j.result()["status"] == "done" and j.log(0) == "[]\n"
    j.bye()


def test_workspace_in_place_is_not_changed():
    folder = root + "/mine"
    os.makedirs(folder)
    with open(folder + "/f", "w") as f:
        f.write("in place\n")
    j = Job(n=2, in_place=folder, trainer_command="cat f; echo m >$PADDLE_OUTPUT_DIR/m", pserver_nodes=[]).run()
    assert j.result()["status"] == "done" and j.log(1) == "in place\n"
    assert os.listdir(folder) == ["f"]
    assert j.agents[1].fetch("output") == {"m": b"m\n"}
    j.bye()
    try:
        Job(n=1, in_place="/not/there")
    except AgentError as e:
        assert "job_workspace /not/there is not a folder" in e.text, e.text
    else:
        raise AssertionError("accepted")


def failure(j):
    r = j.result()
    assert r["status"] == "failed", r
    return r["first_failure"]


def test_the_first_failure_is_told_and_ends_all():
    forever = "trap '' TERM; while :; do sleep 1000 & wait; done"
    j = Job(trainer_command="if [ $PADDLE_TRAINER_ID = 2 ]; then echo the cause; exit 7; fi; " + forever).run()
    f = failure(j)
    assert (f["node"], f["host"], f["role"], f["rank"], f["exit_code"]) == (2, "host-2", "trainer", 2, 7), f
    assert [a.results[0]["first_failure"] for a in j.agents[1:]] == [None, None]  # only the head knows
    assert f["last_lines"] == "the cause\n", f
    j.bye()
    # a pserver is killed; the failures of trainers that notice it are consequences
    j = Job(pserver_command="echo $$ >../pid; exec " + LISTEN, trainer_command=(
        "p=$(cat ../pid); if [ $PADDLE_TRAINER_ID = 1 ]; then sleep 0.2; kill -9 $p; fi; "
        "while kill -0 $(cat ../../../n1/$PADDLE_JOB_ID/pid) 2>/dev/null; do sleep 0.01; done; exit 1")).run()
    f = failure(j)
    assert (f["node"], f["role"], f["signal"]) == (1, "pserver", 9), f
    j.bye()
    j = Job(pserver_command="echo no library; exit 127").run()
    f = failure(j)
    assert f["role"] == "pserver" and f["exit_code"] == 127 and f["last_lines"] == "no library\n", f
    assert j.log(0) == "", "a trainer was started"
    j.bye()
    j = Job(pserver_command="exit 0").run()
    assert "before all pservers listened" in failure(j)["reason"]
    j.bye()
    j = Job(pserver_command="", trainer_command="").run()  # our programs, but no worker was sent
    assert "cannot run" in failure(j)["reason"]
    j.bye()


def test_stop():
    forever = "trap 'echo TERM; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    j = Job(trainer_command=forever).run()
    for a in j.agents:
        a.wait(lambda: b"up" in a.logs[1], "the trainers")
    t = time.monotonic()
    reqs = [(a, a.send("STOP", {"grace_ms": 1500, "reason": "Ctrl-C"})) for a in j.agents]
    for a, r in reqs:
        a.answer(r)
    assert time.monotonic() - t < 20, "stopping took %.1f s" % (time.monotonic() - t)
    assert j.result()["status"] == "stopped"
    assert "TERM" in j.log(0)
    j.bye()
    j = Job(trainer_command="echo up; " + "(setsid sh -c \"trap '' TERM; sleep 1000\" &); trap '' TERM; sleep 1000; sleep 1000").run()
    for a in j.agents:
        a.wait(lambda: b"up" in a.logs[1], "the trainers")
    # Another client stops one node: all nodes end.
    second = Agent(binary, "--root=" + j.roots[2], "--job=" + j.id)
    second.ask("STOP", {"grace_ms": 300, "reason": "paddlectl stop"})
    assert j.result()["status"] == "stopped"
    second.bye()
    j.bye()
    j = Job()  # before the run: no process is left
    for a in j.agents:
        a.send("BYE", {"abandon": True})
        a.close()
    j.gone()
    assert not any(os.path.exists(d) for d in j.dirs), j.dirs


class Gate:
    """A proxy in front of a port. While it is shut, no connection stands."""

    def __init__(self, port):
        self.target, self.shut, self.sockets = port, False, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            a = self.listener.accept()[0]
            if self.shut:
                a.close()
                continue
            b = socket.create_connection(("127.0.0.1", self.target))
            self.sockets += a, b
            for way in (a, b), (b, a):
                threading.Thread(target=self.pump, args=way, daemon=True).start()

    @staticmethod
    def pump(source, to):
        try:
            while data := source.recv(1 << 16):
                to.sendall(data)
        except OSError:
            pass
        source.close()
        to.close()

    def close(self):
        self.shut = True
        for s in self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_a_stop_that_saves_waits_for_the_connection_to_the_head():
    """The node alone is told, while it is away: it stops nothing by itself, and the job saves."""
    j = Job(n=2, pserver_nodes=[], detach_lease_ms=30000, attach_lease_ms=30000,
            trainer_command="trap 'echo m >output/m; exit 0' TERM; echo up; while :; do sleep 0.05; done")
    gate = Gate(j.peers[0]["port"])
    j.peers[0] = dict(j.peers[0], addrs=["127.0.0.1"], port=gate.port)
    j.run()
    for a in j.agents:
        a.wait(lambda: b"up" in a.logs[1], "the trainers")
    gate.close()
    wait_until(lambda: "the connection to node 0 broke" in open(j.dirs[1] + "/log/paddle_agent.INFO").read(), "the cut")
    req = j.agents[1].send("STOP", {"grace_ms": 1000, "save": True, "save_ms": 20000, "reason": "a client"})
    time.sleep(0.5)
    assert not j.agents[1].results and not os.path.exists(j.dirs[1] + "/output/m"), "it stopped by itself"
    gate.shut = False
    j.agents[1].answer(req)
    assert j.result()["status"] == "stopped", j.agents[0].results
    assert [os.path.exists(d + "/output/m") for d in j.dirs] == [True, True]
    j.bye()


def test_ipv6():
    try:
        with open("/proc/net/if_inet6") as f:
            assert "0" * 31 + "1 " in f.read()
    except (OSError, AssertionError):
        print("skipped: there is no ::1 here")
        return
    listen6 = LISTEN.replace("socket.socket()", "socket.socket(socket.AF_INET6)")
    j = Job(nic="::1/128", pserver_command=listen6, trainer_command="env").run()
    assert j.result()["status"] == "done", j.agents[0].results
    e = env_of(j.log(1))
    servers = e["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
    assert e["POD_IP"] == "::1" and len(set(servers)) == 3 and all(re.fullmatch(r"\[::1\]:\d+", s) for s in servers), e
    assert e["PADDLE_CURRENT_ENDPOINT"] == "[::1]:" + e["PADDLE_PORT"], e
    j.bye()
    try:
        Job(n=1, nic="2001:db8:77::/48")
    except AgentError as e:
        assert "matches nic = 2001:db8:77::/48; there are: " in e.text and "127.0.0.1" in e.text, e.text
    else:
        raise AssertionError("accepted")


def test_who_is_missing():
    j = Job(connect_ms=1000)
    for a in j.agents[:2]:  # node 2 is never told of its peers
        a.ask("JOB_PEERS", {"nodes": j.peers})
    j.agents[0].ask("JOB_RUN", {})
    r = j.agents[0].wait_result()
    f = r["first_failure"]
    assert f["node"] == 2 and "node 2 (host-2)" in f["reason"] and "connecting" in f["reason"], f
    assert any("waiting for" in s["text"] and "node 2 (host-2)" in s["text"] for s in j.agents[0].states)
    j.agents[2].send("BYE", {"abandon": True})
    j.bye()
    # an address that leads to another node
    j = Job(n=2, connect_ms=1500)
    j.peers[0], j.peers[1] = dict(j.peers[0]), dict(j.peers[1], port=j.peers[0]["port"])
    j.run()  # node 1's address leads to node 0: the probe notices it
    f = j.agents[0].wait_result()["first_failure"]
    assert f["node"] == 1 and "none of its addresses" in f["reason"], f
    j.bye()


def test_a_late_guardian_does_not_write_into_the_next_job_of_that_name():
    where, dir = root + "/late", root + "/late/L1"
    a = Agent(binary, "--root=" + where, "--job=L1", "--start")
    with open(dir + "/.agent/pid") as f:
        above = [ppid(int(f.read()))]
    above.append(ppid(above[0]))  # guardian, watcher
    for pid in above:
        os.kill(pid, signal.SIGSTOP)
    a.send("BYE", {"abandon": True})
    wait_until(lambda: not os.path.exists(dir), "the folder's removal")
    a.close()
    b = Agent(binary, "--root=" + where, "--job=L1", "--start")
    for pid in above:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in above), "the guardians' end")
    assert not os.path.exists(dir + "/result.json")
    assert os.path.exists(dir + "/.agent/sock") and b.ask("LIST", {}) is not None
    b.bye()


def test_a_late_guardian_does_not_write_into_a_folder_that_is_removed():
    j = Job(n=1, pserver_nodes=[]).run()
    with open(j.dirs[0] + "/.agent/pid") as f:
        above = [ppid(int(f.read()))]
    above.append(ppid(above[0]))
    assert j.result()["status"] == "done"
    for pid in above:
        os.kill(pid, signal.SIGSTOP)
    j.agents[0].bye()
    wait_until(lambda: not os.path.exists(j.dirs[0] + "/.agent/pid"), "the agent's end")
    os.remove(j.dirs[0] + "/result.json")
    for pid in above:
        os.kill(pid, signal.SIGCONT)
    j.gone()
    assert not os.path.exists(j.dirs[0] + "/result.json")


def test_data_files_of_an_earlier_session_stay_known_until_the_job_is_set_up():
    for apart in (True, False):
        data_files_stay_known(root + "/held-%d" % apart, apart)


def data_files_stay_known(where, apart):
    a = Agent(binary, "--root=" + where, "--job=H1", "--node=0", "--start")
    data = a.send_package("data", {"d/part": b"late"})
    t = Agent(binary, "--root=" + where)
    known = lambda: [f for f in os.listdir(where + "/.paddlectl/chunks") if f.startswith(data["id"]) and f.endswith(".cat")]
    clean = lambda: t.ask("CLEAN", {"keep": 0, "store_limit": 1}) and known()
    assert clean()
    a.close()  # a cut
    for _ in range(3):
        assert clean(), "the data files' catalog was taken for one of a tree that is gone"
        time.sleep(0.2)
    b = Agent(binary, "--root=" + where, "--job=H1")
    b.send_package("workspace", {"f": b"x"})
    assert b.send_package("data", {"d/part": b"late"})["have"]
    spec = dict(job="H1", trainer_nodes=[0], pserver_nodes=[], trainer_command="true", pserver_command="true", port=23000, attach_lease_ms=30000)
    b.ask("JOB_SETUP", dict(job="H1", node=0, n_nodes=1, spec=spec, worker="", workspace="", data=data["id"], data_apart=apart), KEY)
    wait_until(lambda: not clean(), "the catalog is nobody's any more")
    t.bye()
    b.send("BYE", {"abandon": True})
    wait_until(lambda: not os.path.exists(where + "/H1"), "the folder's removal")
    b.close()


def test_bad_requests():
    a = Agent(binary, "--root=" + root + "/bad", "--job=B1", "--start")
    a.send_package("workspace", {"f": b"x"})
    good = dict(trainer_nodes=[0], pserver_nodes=[], trainer_command="true", pserver_command="true")
    for body, key, says in [
            (dict(job="B1", node=0, n_nodes=1), KEY, "no spec"),
            (dict(job="B2", node=0, n_nodes=1, spec=good), KEY, "this agent's job is B1"),
            (dict(job="B1", node=0, n_nodes=1, spec=good), b"short", "key of 32 bytes")]:
        try:
            a.ask("JOB_SETUP", body, key)
        except AgentError as e:
            assert says in e.text, e.text
        else:
            raise AssertionError("accepted: " + says)
        if says != "key of 32 bytes":  # a failed set-up ends the agent
            a.wait(lambda: a.closed, "the end")
            wait_until(lambda: not os.path.exists(root + "/bad/B1"), "the folder's removal")
            a.close()
            a = Agent(binary, "--root=" + root + "/bad", "--job=B1", "--start")
            a.send_package("workspace", {"f": b"x"})
    for name, body in [("JOB_PEERS", {"nodes": []}), ("JOB_RUN", {}), ("FETCH", {"dir": "../.."}), ("LOG_SUBSCRIBE", {})]:
        try:
            a.ask(name, body)
        except AgentError as e:
            assert e.code in (-7, -5, -9, -10), e
        else:
            raise AssertionError("accepted: " + name)
    a.bye()


def run_tests(tests):
    os.environ["PD_TEST_MARK"] = "%d-%d" % (os.getpid(), time.time_ns())
    for name, test in list(tests.items()):
        if name.startswith("test_") and (not only or any(o in name for o in only)):
            t = time.monotonic()
            test()
            print("%-50s %.1f s" % (name, time.monotonic() - t), flush=True)


if __name__ == "__main__":
    run_tests(globals())
