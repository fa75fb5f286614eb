#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""lines.py - what the lines "bench NAME ratio R target T peer "P" ours O theirs X" of a log say.

    lines.py misses LOG     the lines whose target is missed, one each; exit status 1 if there are any
    lines.py table LOG      the table of docs/performance.md
    lines.py compare DIR    DIR/old-*.log against DIR/new-*.log, a log for each round: our figures
                            only; exit status 1 if one of them lost more than its noise

A figure is compared as new/old where more is better (.../s), as old/new where less is better
(times, bytes), so that more than 1 is always a gain. Each side's value is the median of its rounds.
The noise is the larger of both sides' spreads, (largest - smallest) / median, at least 2 %."""
import glob
import os
import re
import statistics
import sys

LINE = re.compile(r'^bench (\S+) ratio ([0-9.]+) target ([<>]=?)([0-9.]+) '
                  r'peer "(.*)" ours (.*?) theirs (.*)$')
LEAST_NOISE = 0.02
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Line:
    def __init__(self, m):
        self.name, self.peer, self.ours, self.theirs = m.group(1, 5, 6, 7)
        self.ratio, self.sign, self.target = float(m.group(2)), m.group(3), float(m.group(4))
        self.text = m.group(0)

    def met(self):
        return {">=": self.ratio >= self.target, "<=": self.ratio <= self.target,
                ">": self.ratio > self.target, "<": self.ratio < self.target}[self.sign]

    def figures(self):
        """{label: (value, more is better)} of "ours", of which "pull 10.6, push 11.1 Mkeys/s, p99 2 ms"
        has three. A part without a unit has that of the next part; where no unit tells, the target's
        sign does. Counts of what must be 0 ("0 alive") are not figures."""
        found, parts, unit = {}, re.sub(r"\(.*?\)", "", self.ours).split(","), ""
        for part in reversed(parts):
            m = re.match(r"\s*(?:([A-Za-z][\w ]*?)\s+)?([0-9.]+)\s*(.*?)\s*$", part)
            if not m or re.search(r"alive|lost|doubled", part):
                continue
            unit = m.group(3) or unit
            if "/" in unit:
                more = True
            elif re.match(r"(ms|s|us|bytes|MB|MiB)\b", unit):
                more = False
            else:
                more = self.sign.startswith(">")
            label = f"{self.name} {m.group(1)}" if m.group(1) else self.name
            found[label] = float(m.group(2)), more
        return dict(reversed(found.items()))


def lines_of(path):
    with open(path, errors="replace") as f:
        return [Line(m) for m in map(LINE.match, f.read().splitlines()) if m]


def misses(path):
    missed = [x for x in lines_of(path) if not x.met()]
    for x in missed:
        print(f"  {x.text}")
    return bool(missed)


def questions():
    """{bench: its question}: the first comment of its script below the licence."""
    found = {}
    for path in glob.glob(f"{TOP}/bench/*.sh"):
        with open(path) as f:
            m = re.search(r"^# (?!SPDX)(.*)$", f.read(), re.M)
        found[os.path.basename(path)[:-3]] = m.group(1) if m else ""
    return found


def of_bench(name, scripts):
    """The bench that printed this name: the longest that it begins with."""
    begins = [s for s in scripts if name == s or re.match(re.escape(s) + "[-_]", name)]
    return max(begins, key=len, default=name)


def thousands(text):
    return re.sub(r"(?<![\w.,])\d{5,}(?![\w,])", lambda m: f"{int(m.group()):,}", text)


def table(path):
    with open(path, errors="replace") as f:
        for text in f.read().splitlines():
            if re.match(r"(machine|commit|command|started): ", text):
                print(f"- {text}")
    scripts, last = questions(), None
    print("\n| bench | question | ratio | target | ours | peer | met? |")
    print("|---|---|---|---|---|---|---|")
    for x in lines_of(path):
        bench = of_bench(x.name, scripts)
        question = scripts.get(bench, "") if bench != last else ""
        last = bench
        cells = (x.name, question, f"{x.ratio:g}", f"{x.sign} {x.target:g}", thousands(x.ours),
                 thousands(f"{x.peer}: {x.theirs}"), "yes" if x.met() else "**MISSED**")
        print("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")


def rounds(folder, side):
    """{label: values of the rounds}, {label: more is better}"""
    values, more = {}, {}
    for path in sorted(glob.glob(f"{folder}/{side}-*.log")):
        for x in lines_of(path):
            for label, (value, up) in x.figures().items():
                values.setdefault(label, []).append(value)
                more[label] = up
    return values, more


def compare(folder):
    (old, up), (new, _) = rounds(folder, "old"), rounds(folder, "new")
    lost = 0
    print(f"{'figure':<44} {'old':>12} {'new':>12} {'gain':>6} {'noise':>6}")
    for label in [k for k in old if k in new]:
        a, b = statistics.median(old[label]), statistics.median(new[label])
        if a <= 0 or b <= 0:
            print(f"{label:<44} {a:>12g} {b:>12g}   not comparable")
            continue
        gain = b / a if up[label] else a / b
        spreads = [(max(v) - min(v)) / m for v, m in ((old[label], a), (new[label], b))]
        noise = max(LEAST_NOISE, *spreads)
        verdict = "  LOST" if 1 - gain > noise else ""
        lost += bool(verdict)
        print(f"{label:<44} {a:>12g} {b:>12g} {gain:>6.2f} {noise:>6.2f}{verdict}")
    for label in sorted(set(old) ^ set(new)):
        print(f"{label:<44} only in the {'old' if label in old else 'new'} commit's")
    if not set(old) & set(new):
        sys.exit("bench/compare: no bench printed a figure in both commits")
    print(f"{lost} lost more than their noise" if lost else "nothing lost more than its noise")
    return bool(lost)


def main():
    verbs = {"misses": misses, "table": table, "compare": compare}
    if len(sys.argv) != 3 or sys.argv[1] not in verbs:
        sys.exit("usage: lines.py misses LOG | table LOG | compare DIR")
    sys.exit(1 if verbs[sys.argv[1]](sys.argv[2]) else 0)


if __name__ == "__main__":
    main()
