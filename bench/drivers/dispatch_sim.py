# SPDX-License-Identifier: Apache-2.0
"""dispatch_sim.py - see dispatch_sim.sh: measures, runs dispatch_sim.c, prints its table and draws it."""
import json
import math
import os
import subprocess
import time

from netns import FIXTURE, TOP, Hosts, end_group, line, need, prepare, random_file

BYTES = float(os.environ.get("BYTES", "16000000"))
CHUNK = 64 << 10  # of 16 MB: dispatch_sim says so, too
NODES = int(os.environ.get("NODES", "10000"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SERIES = [("N S/B", 5, "#999999", "6 4"), ("S/B + (N-1)(c/B + l)", 1, "#000000", "2 3"), ("1 % slow (the others)", 4, "#c05a00", ""),
          ("1 % die half-way (survivors)", 3, "#2060c0", ""), ("simulated", 2, "#208040", "")]


def link_rate(hosts):
    """Bytes a second from us to a host: iperf3's, one connection."""
    server = subprocess.Popen(["ip", "netns", "exec", f"{hosts.name}-n0", "iperf3", "-s", "-1"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              start_new_session=True)
    try:
        for _ in range(50):
            time.sleep(0.1)
            p = subprocess.run([FIXTURE, "exec", hosts.dir, "iperf3", "-J", "-t", "4", "-O", "1", "-c", hosts.names[0]], stdout=subprocess.PIPE, text=True)
            if p.returncode == 0:
                return json.loads(p.stdout)["end"]["sum_received"]["bits_per_second"] / 8
    finally:
        end_group(server)
    raise RuntimeError(f"iperf3: {p.stdout[-500:]}")


def measure():
    """(bytes a second, seconds from node to node)"""
    prepare("dispatch_sim")
    need("dispatch_sim", {"iperf3": "iperf3"})
    hops = []
    with Hosts(8, "100mbit") as hosts:
        rate = link_rate(hosts)
        for r in range(ROUNDS + 1):  # the first sends the agent
            ws = f"{hosts.top}/ws{r}"
            os.makedirs(ws)
            for i in range(4):
                random_file(f"{ws}/{i}", 4000000)
            run = hosts.checked(ws, hosts.dispatch(ws))
            if r:
                hops.append(run.hop())
    hop = sorted(hops)[len(hops) // 2]
    latency = max(0.0, hop - CHUNK / rate)
    print(f"measured: {rate / 1e6:.2f} MB/s, from node to node {hop * 1e3:.2f} ms, of them l = {latency * 1e3:.2f} ms")
    return rate, latency


def simulate(rate, latency):
    """(bytes of a chunk, rows as dispatch_sim prints them)"""
    out = subprocess.run([f"{TOP}/build/release/bench/dispatch_sim", str(BYTES), str(rate), str(latency), str(NODES)], stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = out.splitlines()
    return int(lines[0].split()[-1]), [[float(x) for x in text.split()] for text in lines[1:]]


def draw(path, rows, title):
    """A plot, both axes logarithmic."""
    width, height, left, top, right, bottom = 760, 470, 70, 50, 20, 55
    x0, x1 = math.log10(rows[0][0]), math.log10(rows[-1][0])
    values = [v for row in rows for v in row[1:]]
    y0, y1 = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def at(n, seconds):
        return (left + (math.log10(n) - x0) / (x1 - x0) * (width - left - right),
                height - bottom - (math.log10(seconds) - y0) / (y1 - y0) * (height - top - bottom))

    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>', f'<text x="{left}" y="22" font-size="15">{title}</text>']
    for e in range(math.ceil(x0), math.floor(x1) + 1):
        x, _ = at(10 ** e, 10 ** y0)
        svg += [f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{height - bottom}" stroke="#dddddd"/>',
                f'<text x="{x:.1f}" y="{height - bottom + 20}" text-anchor="middle">{10 ** e:,}</text>']
    for e in range(y0, y1 + 1):
        _, y = at(rows[0][0], 10 ** e)
        svg += [f'<line x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" stroke="#dddddd"/>',
                f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{10 ** e:,} s</text>']
    svg.append(f'<text x="{(left + width - right) / 2}" y="{height - 12}" text-anchor="middle">nodes</text>')
    for k, (name, column, colour, dashes) in enumerate(SERIES):
        points = [at(row[0], row[column]) for row in rows]
        svg.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes or "none"}" points="'
                   + " ".join(f"{x:.1f},{y:.1f}" for x, y in points) + '"/>')
        if not dashes:
            svg += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in points]
        y = top + 16 + 20 * k
        svg += [f'<line x1="{left + 14}" y1="{y - 4}" x2="{left + 50}" y2="{y - 4}" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes or "none"}"/>',
                f'<text x="{left + 58}" y="{y}">{name}</text>']
    svg.append("</svg>")
    with open(path, "w") as f:
        f.write("\n".join(svg) + "\n")


def run():
    given = "RATE" in os.environ and "LATENCY" in os.environ
    rate, latency = (float(os.environ["RATE"]), float(os.environ["LATENCY"])) if given else measure()
    chunk, rows = simulate(rate, latency)
    title = f"{BYTES / 1e6:.0f} MB, links of {rate / 1e6:.2f} MB/s, c = {chunk >> 10} KiB, l = {latency * 1e3:.2f} ms"
    print(title)
    print(f"{'nodes':>7} {'formula':>10} {'simulated':>10} {'1% die':>10} {'1% slow':>10} {'N S/B':>12}   seconds")
    for row in rows:
        print(f"{row[0]:7.0f} {row[1]:10.2f} {row[2]:10.2f} {row[3]:10.2f} {row[4]:10.2f} {row[5]:12.1f}")
    path = os.environ.get("PLOT", f"{TOP}/build/release/bench/dispatch_sim.svg")
    draw(path, rows, title)
    print(f"plot: {path}")
    worst = max(rows, key=lambda r: r[2] / r[1])
    line("dispatch_sim", worst[2] / worst[1], "<=1.05", f"S/B + (N-1)(c/B + l), {worst[0]:.0f} nodes", f"{worst[2]:.3f} s", f"{worst[1]:.3f} s")


run()
