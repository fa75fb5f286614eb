# SPDX-License-Identifier: Apache-2.0
"""Run by tests/integration/agent/agent_packages.sh."""
import hashlib
import os
import pwd
import signal
import sys
import time

from agent_client import Agent, AgentError, descendants_of_environment, wait_until
from agent_package import package_of

binary, root = sys.argv[1:]
os.umask(0o022)


def refused(what, says, code=None):
    try:
        what()
    except AgentError as e:
        assert says in e.text, e.text
        assert code is None or e.code == code, e.code
        return
    raise AssertionError("accepted, expected: " + says)


def without_a_job():
    a = Agent(binary, "--root=" + root)
    assert a.hello["job"] == "" and a.hello["node"] == -1 and a.hello["version"] == 3, a.hello
    with open(binary, "rb") as f:
        assert a.hello["build"] == hashlib.blake2b(f.read(), digest_size=32).hexdigest()
    assert a.hello["cores"] > 0 and a.hello["mem_bytes"] > 0 and a.hello["disk_free"] > 0 and a.hello["addrs"], a.hello
    r = a.send_package("worker", {"paddle_worker": (b"#!/bin/sh\necho worker\n", 0o600)})
    worker = "worker-" + r["id"]
    assert r["path"] == root + "/.paddlectl/bin/" + worker and os.access(r["path"], os.X_OK), r
    refused(lambda: a.send_package("worker", {"x": b"one", "y": b"two"}), "one file")
    r = a.send_package("deploy", tree, name="ws")
    deployed = "ws-" + r["id"][:16]
    deploy = root + "/workspaces/" + deployed
    assert r["path"] == deploy and r["entries"] == 3, r
    assert os.path.getsize(deploy + "/d/a.txt") == 700000
    # The node has it already.
    assert a.send_package("deploy", tree, name="ws") == {"have": True, "path": deploy}
    for kind, name, says in [("deploy", "../ws", "not a package's name"), ("x", "", "no package kind"), ("workspace", "", "belongs to a job"),
                             ("data", "", "belongs to a job")]:
        refused(lambda: a.send_package(kind, tree, name=name), says)
    refused(lambda: a.ask("JOB_RUN", {}), "")
    assert os.listdir(root + "/workspaces") == [deployed], os.listdir(root + "/workspaces")
    assert os.listdir(root + "/.paddlectl/bin") == [worker]
    assert a.ask("LIST", {})["jobs"] == []
    a.bye()
    assert a.proc.returncode == 0
    return deployed


def daemon(job, deployed):
    folder = root + "/" + job
    a = Agent(binary, "--root=" + root, "--job=" + job, "--node=0", "--start")
    assert a.hello["job"] == job and a.hello["job_dir"] == folder and a.hello["node"] == 0, a.hello
    assert os.stat(folder + "/.agent/sock").st_mode & 0o777 == 0o600
    assert os.stat(folder).st_mode & 0o777 == 0o700
    refused(lambda: Agent(binary, "--root=" + root, "--job=" + job, "--node=1", "--start"),
            "node 1 and node 0 share root_dir " + root + ": use %n in root_dir")
    b = Agent(binary, "--root=" + root, "--job=" + job)
    assert b.hello["pid"] == a.hello["pid"]
    assert b.send_package("workspace", tree)["path"] == folder + "/workspace"
    assert a.send_package("workspace", tree) == {"have": True, "path": folder + "/workspace"}
    data = a.send_package("data", {"d/late.txt": b"late"})
    assert data["path"] == folder + "/data-" + data["id"]
    t = Agent(binary, "--root=" + root)
    jobs = t.ask("LIST", {})["jobs"]
    me = pwd.getpwuid(os.getuid()).pw_name
    assert jobs == [dict(job=job, node=0, state="preparing", pid=a.hello["pid"], user=me, started_us=0, ended_us=0,
                         attached=False, n_nodes=0, head=0, name="", lost=[], few_copies=0, few_bytes=0,
                         progress=None)], jobs  # not set up yet
    t.bye()
    b.close()
    # The connection breaks during a package: no file is left.
    c = Agent(binary, "--root=" + root, "--job=" + job)
    half = package_of({"f": bytes(range(256)) * 1000})
    req = c.send("DS_BEGIN", {"kind": "deploy", "name": "half"}, half.root())
    c.answer(req, "DS_BEGIN")
    c.kill()
    wait_until(lambda: os.listdir(root + "/workspaces") == [deployed], "the end of half a package")
    return a


def guardian_cleans_up_after_kill_9(job, a):
    folder = root + "/" + job
    os.kill(a.hello["pid"], signal.SIGKILL)
    a.wait(lambda: a.closed, "the relay's end")
    assert a.proc.wait(10) == 0
    wait_until(lambda: not os.path.exists(folder + "/.agent/sock"), "the socket's removal")
    wait_until(lambda: os.path.exists(folder + "/result.json"), "result.json")
    t = Agent(binary, "--root=" + root)
    jobs = t.ask("LIST", {})["jobs"]
    assert [(r["job"], r["node"], r["state"], r["pid"]) for r in jobs] == [(job, 0, "failed", 0)], jobs
    assert abs(jobs[0]["ended_us"] / 1e6 - time.time()) < 60, jobs
    t.bye()
    late = Agent(binary, "--root=" + root, "--job=" + job)
    assert "signal 9" in late.wait_result()["first_failure"]["reason"], late.results
    # A client that continues after a broken connection gets the reason of the failure.
    refused(lambda: late.send_package("workspace", tree), "the agent was killed by signal 9")
    refused(lambda: late.ask("JOB_SETUP", {}, bytes(32)), "the agent was killed by signal 9")
    late.bye()


def errors_before_there_is_a_session():
    refused(lambda: Agent(binary, "--root=relative"), "must be absolute", -9)
    refused(lambda: Agent(binary, "--root=" + root, "--job=../x"), "not a job's id")
    refused(lambda: Agent(binary, "--root=" + root, "--job=nothere"), "there is no job nothere")
    refused(lambda: Agent(binary, "--root=/proc/nope", "--job=j", "--start"), "/proc/nope")


def roots():
    h = Agent(binary, "--root=~/home", env=dict(os.environ, HOME=root))
    assert h.hello["root"] == root + "/home", h.hello
    h.bye()
    long_root = root + "/" + "/".join(["x" * 50] * 6)  # longer than the path of a socket may be
    h = Agent(binary, "--root=" + long_root, "--job=J1", "--start")
    assert h.hello["job_dir"] == long_root + "/J1"
    h.bye()


tree = {"d": None, "d/a.txt": b"a" * 700000, "run.sh": (b"#!/bin/sh\n", 0o755)}
os.environ["PD_TEST_MARK"] = "%d-%d" % (os.getpid(), time.time_ns())
there = without_a_job()
first = daemon("JOB20260101000000-0001", there)
guardian_cleans_up_after_kill_9("JOB20260101000000-0001", first)
errors_before_there_is_a_session()
roots()
wait_until(lambda: not descendants_of_environment("PD_TEST_MARK=" + os.environ["PD_TEST_MARK"]), "no process left")
print("ok")
