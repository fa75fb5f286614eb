"""Run by tests/integration/agent_run.sh: how agents run programs of all kinds: CPUs, environment, restarts, ends."""
import json
import os
import time

from agent_job import Job, env_of, failure, run_tests


def numbers(text):
    out = set()
    for part in text.split(","):
        lo, _, hi = part.partition("-")
        out |= set(range(int(lo), int(hi or lo) + 1))
    return out


def test_processes_are_bound_to_cpus_of_their_own():
    show = "echo $PADDLE_BIND $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
    may = os.sched_getaffinity(0)
    for how in ("cores", "numa", "none"):
        j = Job(n=2, pserver_nodes=[], trainer_command=show, bind=how).run()
        assert j.result()["status"] == "done"
        words = [j.log(i).split() for i in range(2)]
        sets = [numbers(w[-1]) for w in words]
        assert all(s and s <= may for s in sets), sets
        if how == "none":
            assert sets == [may, may] and len(words[0]) == 1, words
        else:
            assert words[0][0] == words[1][0] == how, words
        with open("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % min(may)) as f:
            siblings = numbers(f.read().strip())
        if how == "cores" and not may <= siblings:  # two cores at least: one agent each
            assert not sets[0] & sets[1], sets
        j.bye()
    try:
        Job(n=1, bind="sockets")
    except Exception as e:
        assert "bind is none, cores or numa" in str(e), e
    else:
        raise AssertionError("accepted")


if __name__ == "__main__":
    run_tests(globals())
