# SPDX-License-Identifier: Apache-2.0
"""Run by tests/integration/agent/agent_run.sh: how agents run programs: CPUs, environment,
restarts, ends."""
import json
import os
import time

from agent_client import AgentError
from agent_job import LISTEN, Job, env_of, failure, run_tests


def numbers(text):
    out = set()
    for part in text.split(","):
        lo, _, hi = part.partition("-")
        out |= set(range(int(lo), int(hi or lo) + 1))
    return out


def test_processes_are_bound_to_cpus_of_their_own():
    show = "echo $PADDLE_BIND $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
    may = os.sched_getaffinity(0)
    for how in ("cores", "numa", "auto", "none"):
        j = Job(n=2, pserver_nodes=[], trainer_command=show, bind=how).run()
        assert j.result()["status"] == "done"
        words = [j.log(i).split() for i in range(2)]
        sets = [numbers(w[-1]) for w in words]
        assert all(s and s <= may for s in sets), sets
        if how in ("auto", "none"):
            assert len(words[0]) == 1, words
        else:
            assert words[0][0] == words[1][0] == how, words
        with open("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % min(may)) as f:
            siblings = numbers(f.read().strip())
        if how == "none" or may <= siblings:
            assert how == "cores" or sets == [may, may], words
        # Without hyperthreads: each has half of the CPUs.
        if how == "auto" and len(may) % 2 == 0 and siblings == {min(may)}:
            assert sets[0] | sets[1] == may and len(sets[0]) == len(sets[1]) == len(may) / 2, sets
        if how == "cores" and not may <= siblings:  # at least two cores: one for each agent
            assert not sets[0] & sets[1], sets
        j.bye()
    try:
        Job(n=1, bind="sockets")
    except Exception as e:
        assert "bind is none, auto, cores or numa" in str(e), e
    else:
        raise AssertionError("accepted")


def test_a_job_that_fails_is_started_again():
    twice = ("echo try $PADDLE_RESTART_COUNT port $PADDLE_PORT; [ $PADDLE_RESTART_COUNT = 2 ] && exit 0; "
             "[ $PADDLE_TRAINER_ID = 1 ] && { sleep 0.1; echo the cause; exit 7; }; (setsid sleep 1000 &); sleep 1000")
    j = Job(trainer_command=twice, on_failure="restart", max_restarts=2, restart_ms=50).run()
    r = j.result()
    assert r["status"] == "done" and r["restarts"] == 2 and r["first_failure"] is None, r
    states = [s["state"] for s in j.agents[0].states]
    assert states.count("restarting") >= 2, states
    texts = [s["text"] for s in j.agents[0].states]
    assert "restart 1 of 2 after trainer 1 on host-1: exit status 7" in texts, texts
    assert any(s["state"] == "restarting" for s in j.agents[2].states), j.agents[2].states
    for i in range(3):
        lines = j.log(i).splitlines()
        tries = [line for line in lines if line.startswith("try")]
        assert [t.split()[1] for t in tries] == ["0", "1", "2"], lines
        assert [line for line in lines if line.startswith("---")] == [
            "--- restart %d of 2 after trainer 1 on host-1: exit status 7 ---" % k for k in (1, 2)], lines
        # The pservers' logs, too.
        assert sum(line.startswith("---") for line in j.log(i, 0).splitlines()) == 2
        with open(j.dirs[i] + "/result.json") as f:
            assert json.load(f)["restarts"] == 2
    j.bye()
    # restarts used up: the first failure of the last attempt
    j = Job(n=2, pserver_nodes=[], on_failure="restart", max_restarts=1, restart_ms=10,
            trainer_command="[ $PADDLE_TRAINER_ID = $PADDLE_RESTART_COUNT ] && { echo try $PADDLE_RESTART_COUNT; exit 3; }; sleep 1000").run()
    f = failure(j)
    assert (f["rank"], f["exit_code"], f["last_lines"]) == (1, 3, "try 1\n") and j.agents[0].results[0]["restarts"] == 1, f
    j.bye()
    # restarts that are not configured, or have no use
    for spec in (dict(max_restarts=3), dict(on_failure="restart", max_restarts=0), dict(on_failure="restart", trainer_command=(
            "echo '{\"ev\":\"failed\",\"final\":true}' >&$PADDLE_EVENT_FD; exit 1"))):
        j = Job(n=1, pserver_nodes=[], **dict(dict(trainer_command="exit 1", restart_ms=10), **spec)).run()
        assert failure(j)["exit_code"] == 1 and j.agents[0].results[0]["restarts"] == 0
        assert not any(s["state"] == "restarting" for s in j.agents[0].states)
        j.bye()


def test_a_stop_between_two_tries():
    j = Job(n=2, on_failure="restart", max_restarts=9, restart_ms=60000, trainer_command="exit 1").run()
    j.agents[0].wait_state("restarting")
    j.agents[1].wait_state("restarting")
    time.sleep(0.3)
    for a in j.agents:
        a.ask("STOP", {"grace_ms": 500, "reason": "test"})
    assert j.result()["status"] == "stopped"
    j.bye()


def test_a_stop_that_saves():
    # a user's program gets TERM and the time that it needs; its shell may exit earlier
    script = ("import signal, sys, time, os\n"
              "def save(*_):\n"
              "    time.sleep(0.5)\n"
              "    open(os.environ['PADDLE_OUTPUT_DIR'] + '/model', 'w').write('saved')\n"
              "    os.write(int(os.environ['PADDLE_EVENT_FD']), b'{\"ev\":\"saved\",\"path\":\"output/model\"}\\n')\n"
              "    sys.exit(0)\n"
              "signal.signal(signal.SIGTERM, save)\nprint('up', flush=True)\nwhile True: time.sleep(0.05)\n")
    for command in ("exec python3 t.py", "python3 t.py & wait"):
        j = Job(n=2, workspace={"t.py": script.encode()}, trainer_command=command, grace_ms=10).run()
        for a in j.agents:
            a.wait(lambda: b"up" in a.logs[1], "the trainers")
        reqs = [(a, a.send("STOP", {"grace_ms": 10, "save": True, "save_ms": 30000})) for a in j.agents]
        for a, r in reqs:
            a.answer(r)
        r = j.result()
        assert r["status"] == "stopped" and r["saved"] == "output/model" and r["first_failure"] is None, r
        assert any(s["state"] == "saving" for s in j.agents[0].states)
        assert [a.fetch("output") for a in j.agents] == [{"model": b"saved"}] * 2
        j.bye()
    # ignores TERM: the time is limited, and a second stop does not wait; sent to a member
    for save_ms, again in ((300, False), (600000, True)):
        j = Job(n=2, trainer_command="trap '' TERM; echo up; while :; do sleep 0.05; done").run()
        for a in j.agents:
            a.wait(lambda: b"up" in a.logs[1], "the trainers")
        req = j.agents[1].send("STOP", {"grace_ms": 100, "save": True, "save_ms": save_ms})
        j.agents[0].wait_state("saving")
        if again:
            j.agents[1].ask("STOP", {"grace_ms": 100})
        j.agents[1].answer(req)
        assert j.result()["status"] == "stopped" and j.agents[0].results[0]["saved"] == ""
        j.bye()


def test_the_environment_of_every_process():
    # every variable of a pserver and of a trainer; ranks and nodes have different orders
    listen = ("env; exec python3 -c 'import socket,os,time\n"
              "s=socket.create_server((os.environ[\"POD_IP\"], int(os.environ[\"PADDLE_PORT\"])))\n"
              "time.sleep(1000)'")
    j = Job(n=3, pserver_nodes="2,0", trainer_nodes="1-2", pserver_command=listen, trainer_command="env", env={"MY": "a = b"},
            train={"num_passes": "3", "save-dir": "out"}, on_failure="restart", ports_num=2, ports_num_for_sparse=1, bind="numa").run()
    assert j.result()["status"] == "done"
    servers = {i: env_of(j.log(i, 0)) for i in (2, 0)}
    trainers = {i: env_of(j.log(i)) for i in (1, 2)}
    assert j.log(0) == "" and j.log(1, 0) == ""
    endpoint = lambda e: e["POD_IP"] + ":" + e["PADDLE_PORT"]
    for role, envs in (("PSERVER", servers), ("TRAINER", trainers)):
        for rank, (node, e) in enumerate(envs.items()):
            d = j.dirs[node]
            want = dict(PADDLE_JOB_ID=j.id, PADDLE_NODE_ID=str(node), TRAINING_ROLE=role, PADDLE_TRAINER_ID=str(rank),
                        PADDLE_TRAINERS_NUM="2", PADDLE_FIRST_TRAINERS_NUM="2", PADDLE_PSERVERS_IP_PORT_LIST=",".join(map(endpoint, servers.values())),
                        PADDLE_TRAINER_ENDPOINTS=",".join(map(endpoint, trainers.values())), PADDLE_CURRENT_ENDPOINT=endpoint(e),
                        PADDLE_KEY_FILE=d + "/.agent/key", PADDLE_OUTPUT_DIR=d + "/output", PADDLE_LOG_DIR=d + "/log",
                        PADDLE_EVENT_FD="3", PADDLE_RESTART_COUNT="0", PADDLE_BIND="numa", PADDLE_INIT_NUM_PASSES="3",
                        PADDLE_INIT_SAVE_DIR="out", PADDLE_INIT_TRAINER_ID=str(rank), PADDLE_INIT_NUM_GRADIENT_SERVERS="2",
                        PADDLE_INIT_PORTS_NUM="2", PADDLE_INIT_PORTS_NUM_FOR_SPARSE="1", MY="a = b", OPENBLAS_NUM_THREADS="1")
            want["PADDLE_INIT_PSERVERS"] = want["PADDLE_PSERVERS_IP_PORT_LIST"]
            for k, v in want.items():
                assert e.get(k) == v, "%s of %s %d is %r, not %r" % (k, role, rank, e.get(k), v)
            known = set(want) | {"PADDLE_PORT", "PADDLE_INIT_PORT", "PADDLE_LOG_MAX_SIZE", "PADDLE_LOG_KEEP"}
            extra = [k for k in e if k.startswith("PADDLE_") and k not in known]
            assert not extra, extra
    j.bye()


def test_jobs_of_one_role():
    j = Job(n=2, pserver_nodes=[], pserver_command="", trainer_command="env | grep -c '^PADDLE_PSERVERS_IP_PORT_LIST\\|^PADDLE_INIT_PSERVERS'; hostname").run()
    assert j.result()["status"] == "done"
    assert j.log(0).splitlines() == ["0", os.uname().nodename], j.log(0)
    j.bye()
    # servers without trainers run until they are stopped, or end by themselves
    j = Job(n=2, trainer_nodes=[], trainer_command="").run()
    j.agents[0].wait(lambda: any(s["text"] == "2 pservers run" for s in j.agents[0].states), "the servers")
    j.agents[1].wait(lambda: b"listens" in j.agents[1].logs[0], "the server")
    time.sleep(0.5)
    assert not j.agents[0].results
    # No trainer could save.
    j.agents[0].ask("STOP", {"grace_ms": 500, "save": True, "save_ms": 10000})
    assert j.result()["status"] == "stopped"
    j.bye()
    for code, status in ((0, "done"), (9, "failed")):
        serve = LISTEN.replace("while True: s.accept()[0].close()", (
            "import sys, time\nwhile not os.path.exists(\"output/end\"): time.sleep(0.05)\nsys.exit(%d)" % code))
        j = Job(n=2, trainer_nodes=[], trainer_command="", pserver_command=serve).run()
        j.agents[0].wait(lambda: any(s["text"] == "2 pservers run" for s in j.agents[0].states), "the servers")
        for d in j.dirs:
            open(d + "/output/end", "w").close()
        r = j.result()
        assert r["status"] == status and (not code or r["first_failure"]["exit_code"] == code), r
        j.bye()
    for spec, says in ((dict(pserver_nodes=[], trainer_nodes=[]), "neither a pserver nor a trainer"),
                       (dict(trainer_nodes=[], pserver_command=""), "has no trainer"),
                       (dict(trainer_nodes="0-1"), "not one of 0..0"), (dict(trainer_nodes="0,0"), "names node 0 twice"),
                       (dict(trainer_nodes="0,"), "no list of nodes"), (dict(trainer_nodes="1-0"), "no list of nodes"),
                       (dict(trainer_nodes="x"), "no list of nodes"), (dict(trainer_nodes="99999999999999999999"), "no list of nodes")):
        try:
            Job(n=1, **spec)
        except AgentError as e:
            assert says in e.text, e.text
        else:
            raise AssertionError("accepted: %r" % spec)


if __name__ == "__main__":
    run_tests(globals())
