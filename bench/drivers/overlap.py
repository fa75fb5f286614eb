#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""overlap.py NAME - what overlap = 1 gains: 2 trainers and 2 pservers on two hosts in network namespaces,
links of RATE (1gbit), passes of STEPS (150)."""
import os
import re
import sys

import models
import netns

ROUNDS = int(os.environ.get("ROUNDS", "2"))
RATE = os.environ.get("RATE", "1gbit")


def passes(hosts, ws, overlap):
    """Rate and cost of each pass of a job."""
    with open(f"{hosts.top}/log", "w+b") as out:
        p = hosts.start([netns.CTL, "run", f"--conf={hosts.conf}", f"--job_dispatch_package={ws}", f"--outputs={hosts.top}/output", f"--overlap={overlap}",
                         "--num_passes=2", "--saving_period=0", "--save_state=0", "--log_period=100000"], out)
        try:
            status = p.wait(timeout=netns.PATIENCE_S)
        finally:
            netns.end_group(p)
        out.seek(0)
        text = out.read().decode(errors="replace")
    done = re.findall(r"Pass \S+ done: .*\((\d+) \w+/s\), cost ([-0-9.e]+)", text)
    if status or not done:
        raise RuntimeError(f"paddlectl ended with {status}: {text[-1500:]}")
    return [(int(r), c) for r, c in done]


def main():
    name = sys.argv[1]
    netns.prepare("overlap")
    with netns.Hosts(2, RATE) as hosts:
        ws = f"{hosts.top}/ws"
        models.write(name, ws, int(os.environ.get("STEPS", "150")))
        os.remove(f"{ws}/data.npz")
        best, costs = {0: 0, 1: 0}, {}
        for _ in range(ROUNDS):
            for overlap in (0, 1):
                got = passes(hosts, ws, overlap)
                best[overlap] = max(best[overlap], *(r for r, _ in got))
                costs[overlap] = [c for _, c in got]
        print(f"{name}, links of {RATE}: costs of the passes: with {' '.join(costs[1])}, without {' '.join(costs[0])}")
        netns.line(f"overlap-{name}", best[1] / best[0], ">=1.00", "overlap = 0", f"{best[1]} samples/s", f"{best[0]} samples/s")


main()
