# SPDX-License-Identifier: Apache-2.0
"""Run by tests/integration/agent/agent_clients.sh: what clients of a job's agent see: logs, status, and
clients that stall or are cut off."""
import ipaddress
import os
import signal
import struct
import time

from agent_client import Agent, AgentError, encode, wait_until
from agent_job import KEY, Job, binary, root, run_tests


def test_output_of_all_sizes_arrives_once():
    j = Job(n=2, pserver_nodes=[], trainer_command=(
        "seq 1 200000; printf 'no newline'; for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.02; done; "
        "head -c 3000000 /dev/zero | tr '\\0' x; printf '\\377\\376\\n'")).run()
    slow = Agent(binary, "--root=" + j.roots[1], "--job=" + j.id)
    slow.send("LOG_SUBSCRIBE", {"streams": {"train.log": 0}})
    assert j.result()["status"] == "done"
    want = b"".join(b"%d\n" % i for i in range(1, 200001)) + b"no newline" + b"".join(b"%d\n" % i for i in range(1, 10))
    want += b"x" * 3000000 + b"\xff\xfe\n"
    for a in (j.agents[0], j.agents[1], slow):
        a.wait(lambda: "train.log" in a.log_end, "the log's end")
        assert bytes(a.logs[1]) == want and not a.errors
    times = [t for _, s, _, t, _ in j.agents[0].log_frames if s == 1]
    assert times == sorted(times) and abs(times[-1] / 1e6 - time.time()) < 60
    slow.close()
    j.bye()


def test_clients_that_are_cut_off_make_room():
    j = Job(n=1, pserver_nodes=[0], trainer_nodes=[0], trainer_command="echo up; sleep 1000", attach_lease_ms=2000).run()
    a = j.agents[0]
    a.wait(lambda: b"up" in a.logs[1], "the trainer")
    silent = []

    def another():
        try:
            silent.append(Agent(binary, "--root=" + j.roots[0], "--job=" + j.id, ping=0))
        except AgentError:  # all clients were heard a moment ago
            time.sleep(0.2)
        return len(silent) > 40
    wait_until(another, "room for more clients than an agent has at a time", 60)
    assert any(s.closed for s in silent) and not silent[-1].closed and not a.closed
    for s in silent:
        s.close()
    assert a.ask("STATUS", {})["state"] == "trainers"
    a.ask("STOP", {"grace_ms": 100})
    j.result()
    j.bye()


def test_who_leaves_before_the_job_is_set_up():
    def look(_, a):
        home, job = os.path.split(a.hello["job_dir"])
        onlooker = Agent(binary, "--root=" + home, "--job=" + job, ping=0)
        try:
            onlooker.ask("STATUS", {})
        except AgentError:  # there is no job yet
            pass
        onlooker.bye()
        return {}
    j = Job(n=1, pserver_nodes=[], set_up=look).run()
    assert j.result()["status"] == "done"
    j.bye()
    # The client that began the job gives it up, and another one is still there.
    name, home = "JOB9000-1", root + "/given_up"
    first = Agent(binary, "--root=" + home, "--job=" + name, "--node=0", "--start")
    other = Agent(binary, "--root=" + home, "--job=" + name)
    first.send("BYE", {"abandon": True})
    other.wait(lambda: other.closed, "the end of the agent")
    first.close()
    other.close()


def test_status_now_and_afterwards():
    busy = ("echo '{\"ev\":\"progress\",\"role\":\"trainer\",\"batch\":1}' >&$PADDLE_EVENT_FD; "
            "echo '{\"ev\":\"progress\",\"role\":\"trainer\",\"batch\":2}' >&$PADDLE_EVENT_FD; "
            "echo '{\"ev\":\"other\"}' >&$PADDLE_EVENT_FD; "
            "python3 -c 'import time; x = bytearray(30 << 20); e = time.process_time() + 0.3\nwhile time.process_time() < e: pass\n"
            "print(\"up\", flush=True); time.sleep(1000)' & wait")
    before = time.time()
    j = Job(n=2, trainer_nodes=[0], trainer_command=busy).run()
    a = j.agents[0]
    a.wait(lambda: b"up" in a.logs[1], "the trainer")
    s = a.ask("STATUS", {})
    assert (s["state"], s["node"], s["n_nodes"], s["attached"], s["clients"], s["restarts"]) == ("trainers", 0, 2, True, 0, 0), s
    assert before - 1 <= s["started_us"] / 1e6 <= s["now_us"] / 1e6 <= time.time() + 1 and s["ended_us"] == 0, s
    ps, tr = s["processes"]
    assert (ps["role"], ps["rank"], ps["state"], ps["listening"]) == ("pserver", 0, "running", True) and ps["port"] >= 23000, ps
    assert (tr["role"], tr["rank"], tr["state"], tr["listening"]) == ("trainer", 0, "running", False), tr
    assert tr["rss_bytes"] > 30 << 20 and tr["cpu_ms"] >= 100 and tr["threads"] >= 2, tr  # of the shell's child
    with open("/proc/%d/status" % tr["pid"]) as f:
        assert "\nCpus_allowed_list:\t" + tr["cpus"] + "\n" in f.read(), tr
    assert s["progress"]["batch"] == 2, s
    assert s["streams"]["train.log"]["first"] == 0 and 2 <= s["streams"]["train.log"]["size"] <= 3, s
    other = Agent(binary, "--root=" + j.roots[1], "--job=" + j.id)
    end = time.time() + 20
    while (s := other.ask("STATUS", {}))["clients"] != 1 and time.time() < end:
        time.sleep(0.1)  # the relay's first connection, which found the agent, is being closed
    assert s["clients"] == 1 and s["progress"] is None and [p["role"] for p in s["processes"]] == ["pserver"], s
    other.bye()
    os.kill(tr["pid"], signal.SIGKILL)
    j.result()
    j.bye()
    late = Agent(binary, "--root=" + j.roots[0], "--job=" + j.id)
    s = late.ask("STATUS", {})
    assert s["state"] == "failed" and s["started_us"] < s["ended_us"] <= s["now_us"] and s["n_nodes"] == 2, s
    ps, tr = s["processes"]
    assert (tr["state"], tr["exit_code"], tr["signal"], tr["threads"]) == ("exited", -1, 9, 0) and ps["state"] == "exited", s
    assert tr["started_us"] <= tr["ended_us"] <= s["ended_us"] and s["progress"]["batch"] == 2, s
    rows = late.ask("LIST", {})["jobs"]
    row = [r for r in rows if r["job"] == j.id][0]
    assert (row["state"], row["n_nodes"], row["attached"], row["pid"]) == ("failed", 2, True, 0), row
    assert (row["started_us"], row["ended_us"]) == (s["started_us"], s["ended_us"]), row
    late.bye()


def test_logs_that_are_rotated():
    j = Job(n=1, pserver_nodes=[], log_max_size=20000, log_keep=50, trainer_command=(
        "seq 1 100000; env | grep PADDLE_LOG_; exit 1")).run()
    r = j.result()
    want = b"".join(b"%d\n" % i for i in range(1, 100001))
    got = bytes(j.agents[0].logs[1])
    assert got[:len(want)] == want and b"\nPADDLE_LOG_MAX_SIZE=20000\n" in got and b"PADDLE_LOG_KEEP=50\n" in got, got[len(want):]
    assert "PADDLE_LOG_KEEP=50\n" in r["first_failure"]["last_lines"]
    names = sorted(n for n in os.listdir(j.dirs[0] + "/log") if n.startswith("train.log"))
    assert len(names) > 25 and names[1] == "train.log.1", names
    j.bye()
    j = Job(n=1, pserver_nodes=[], log_max_size=20000, log_keep=2, trainer_command="seq 1 100000").run()
    a = j.agents[0]
    a.wait_result()
    j.bye()
    # From disk: the kept bytes, at their offsets in the stream.
    late = Agent(binary, "--root=" + j.roots[0], "--job=" + j.id)
    first, size = (late.ask("STATUS", {})["streams"]["train.log"][k] for k in ("first", "size"))
    assert size == len(want) and size - 60000 <= first <= size - 40000, (first, size)
    late.start = {1: first}
    late.send("LOG_SUBSCRIBE", {"streams": {"train.log": 0}})
    late.wait(lambda: late.log_end, "the log's end")
    assert bytes(late.logs[1]) == want[first:] and not late.errors, late.errors
    files = late.fetch("log")
    assert files["train.log.2"] + files["train.log.1"] + files["train.log"] == want[first:]
    assert all(files[n].endswith(b"\n") for n in ("train.log.2", "train.log.1"))
    late.bye()
    # The agent's own log: rotated alike, and not repeated in agent.log, which is not rotated.
    j = Job(n=1, pserver_nodes=[], log_max_size=300, log_keep=2, trainer_command="exit 1").run()
    assert j.result()["status"] == "failed"
    j.bye()
    logs = j.dirs[0] + "/log/"
    sizes = {n: os.path.getsize(logs + n) for n in os.listdir(logs) if n.startswith(("paddle_agent", "agent"))}
    assert sorted(sizes) == ["agent.log", "paddle_agent.INFO", "paddle_agent.INFO.1", "paddle_agent.INFO.2"], sizes
    assert sizes.pop("agent.log") == 0 and max(sizes.values()) <= 300, sizes


def test_turns_of_clients_whose_clocks_differ():
    """Two jobs wait for the same two nodes. Their clients' clocks say who came first, on both nodes."""
    now, hour = int(time.time() * 1e6), 3600000000
    orders = {"AHEAD": now + hour, "BEHIND": now - hour}
    jobs = {name: [Agent(binary, "--root=%s/%s%d" % (root, name, i), "--job=JOB-" + name, "--node=%d" % i, "--start",
                         ping=0.3) for i in range(2)] for name in orders}

    def has_turn(name, take=False):
        return [a.ask("TURN", {"wait": True, "take": take, "order": orders[name]})["free"] for a in jobs[name]]

    assert has_turn("AHEAD") == [True, True]
    assert has_turn("BEHIND") == [True, True], "it came later, but its clock says earlier"
    assert has_turn("AHEAD", take=True) == [False, False]
    assert has_turn("BEHIND", take=True) == [True, True]
    assert has_turn("AHEAD", take=True) == [False, False]
    for a in jobs["BEHIND"]:
        a.send("BYE", {"abandon": True})
        a.close()
    wait_until(lambda: has_turn("AHEAD") == [True, True], "the turn")
    assert has_turn("AHEAD", take=True) == [True, True]
    for a in jobs["AHEAD"]:
        a.send("BYE", {"abandon": True})
        a.close()


def listeners(port):
    """The addresses on which somebody listens with this port."""
    found = set()
    for name in filter(os.path.exists, ("/proc/net/tcp", "/proc/net/tcp6")):
        for line in open(name).readlines()[1:]:
            words = line.split()
            host, at = words[1].split(":")
            if words[3] == "0A" and int(at, 16) == port:
                raw = b"".join(struct.pack("=I", int(host[i:i + 8], 16)) for i in range(0, len(host), 8))
                found.add(str(ipaddress.ip_address(raw)))  # of 4 or 16 bytes
    return found


def test_a_check_listens_where_a_job_would():
    for nic, want in ("127.0.0.0/8", {"127.0.0.1"}), ("lo", {"127.0.0.1", "::1"}), ("", {"::", "0.0.0.0"}):
        a = Agent(binary, "--root=" + root + "/check")
        port = a.ask("CHECK_LISTEN", {"node": 0, "token": "check.1", "port": 24000, "nic": nic}, KEY)["port"]
        found = listeners(port)
        assert found and found <= want and (nic or len(found) == 1), (nic, found)
        a.bye()
    a = Agent(binary, "--root=" + root + "/check")
    try:
        a.ask("CHECK_LISTEN", {"node": 0, "token": "check.1", "port": 0, "nic": "10.255.255.0/30"}, KEY)
    except AgentError as e:
        assert "no interface or address here matches nic" in e.text, e.text
    else:
        raise AssertionError("it listens")
    a.bye()


def test_clients_that_stall():
    def agent_gone(j):
        pid = j.agents[0].hello["pid"]
        wait_until(lambda: not os.path.exists("/proc/%d" % pid), "the agent's end", 10)
    # a stopped client with a megabyte queued does not delay the agent of a finished job
    j = Job(n=1, pserver_nodes=[], trainer_command="head -c 9000000 /dev/zero; echo up >&2", attach_lease_ms=1000).run()
    other = Agent(binary, "--root=" + j.roots[0], "--job=" + j.id, ping=0.3)
    other.proc.send_signal(signal.SIGSTOP)
    other.send("LOG_SUBSCRIBE", {"streams": {"train.log": 0}})
    assert j.result()["status"] == "done"
    j.agents[0].bye()
    agent_gone(j)
    other.kill()
    j.gone()
    # a fetch whose client does not read does not renew the lease
    j = Job(n=1, pserver_nodes=[], trainer_command="head -c 30000000 /dev/urandom >output/m; echo up; sleep 1000", attach_lease_ms=1000).run()
    a = j.agents[0]
    a.wait(lambda: b"up" in a.logs[1], "the trainer")
    a.send("FETCH", {"dir": "output"})
    a.proc.send_signal(signal.SIGSTOP)
    agent_gone(j)
    a.kill()
    j.gone()
    # a frame that takes longer than the lease is a sign of life
    j = Job(n=1, ping=0, pserver_nodes=[], trainer_command="echo up; sleep 3; echo end", attach_lease_ms=2500).run()
    a = j.agents[0]
    frame = encode(0x103, 0, b"x" * 600)
    for i in range(0, 40):
        a.proc.stdin.write(frame[i * 15:i * 15 + 15])
        time.sleep(0.1)
    a.proc.stdin.write(frame[600:])
    assert j.result()["status"] == "done", a.results
    j.bye()


if __name__ == "__main__":
    run_tests(globals())
