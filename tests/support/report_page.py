#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For tests/integration/runs/report.sh: what a page has, after its scripts have run; damaged records.

    check DOM --jobs=N --drawn='CHART...' [--nodes=N] [--marks=N] [--settings=N] [--failure]
    odd DOM                the page of the records of `damage`
    use, wide FROM TO      a page that is used by a script, or that says whether it is too wide
    pixels FILE.png WIDTH SCHEME ...
    damage RECORD FOLDER   records JOB-html, -cut, -newer, -empty, -other
    copies RECORD FOLDER N N records of other times
"""
import argparse
import html.parser
import json
import os
import shutil
import struct
import sys
import zlib

EVIL = "</script><script>document.title='broken out'</script><img src=x onerror=\"document.title='broken out'\">"


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.charts, self.attributes, self.texts, self.tags, self.stack = {}, {}, [], {}, []
        self.feed(open(path, encoding="utf-8").read())

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.stack.append(tag)
        if "data-chart" in a:
            assert a["data-chart"] not in self.charts, a
            self.charts[a["data-chart"]] = (int(a["data-series"]), int(a["data-points"]))
        for k in ("data-ready", "data-nodes", "data-rows", "data-marks", "data-job", "id"):
            if k in a:
                self.attributes.setdefault(k, []).append((a.get("id", tag), a[k]))

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop() != tag:
            pass

    def handle_data(self, data):
        if "script" not in self.stack and "style" not in self.stack:
            self.texts.append(data)

    def of(self, key, who=None):
        return [v for w, v in self.attributes.get(key, []) if who is None or w == who]


def check(args):
    p = Page(args.dom)
    assert p.of("data-ready") == ["1"], "the scripts of the page did not end"
    assert len(p.of("data-job")) == args.jobs, p.of("data-job")
    for c in args.drawn.split():
        assert c in p.charts, f"no chart {c}: {p.charts}"
        series, points = p.charts[c]
        assert series > 0 and points >= 2, f"chart {c}: {series} series, {points} points"
    if args.nodes:
        assert p.of("data-nodes", "graph") == [str(args.nodes)], p.attributes["data-nodes"]
    if args.marks:
        assert all(int(m) >= args.marks for m in p.of("data-marks")), p.of("data-marks")
    if args.settings:  # those that differ: the name, num_passes, and --set
        assert p.of("data-rows", "settings") == [str(args.settings)], p.of("data-rows", "settings")
    if args.failure:
        assert "failed" in p.texts, "no run has failed"
    assert "undefined" not in " ".join(p.texts) and "NaN" not in " ".join(p.texts)


def odd(path):
    p, text = Page(path), None
    text = "\n".join(p.texts)
    assert p.of("data-ready") == ["1"], "the scripts of the page did not end"
    assert len(p.of("data-job")) == 5, p.of("data-job")
    assert "broken out" not in open(path, encoding="utf-8").read().split("</title>")[0]
    assert p.tags.get("img", 0) == 0 and p.tags["script"] == 4, p.tags
    assert EVIL in text, "the text is not shown as it is"
    for said in ("run.json is of another version of paddlectl (2,", "run.json is damaged or cut off",
                 "of metrics.jsonl cannot be read", "metrics.jsonl cannot be read",
                 "These runs have 2 different networks"):
        assert said in text, said
    assert p.charts["cost"][0] >= 6, p.charts # four runs with their tests


USE = """<script>{
const change = (id, value, kind) => { const e = document.getElementById(id);
  if (e.type === "checkbox") e.checked = value; else e.value = value;
  e.dispatchEvent(new Event(kind || "change")); };
const cost = () => charts.find((c) => c.id === "cost");
const spread = (c) => { const v = c.rows.map((r) => r[1]).filter((x) => x !== null);
  return Math.max(...v) - Math.min(...v); };
const wrong = [];
const before = spread(cost()), last = cost().rows.at(-1)[0];
change("smooth", "0.9", "input");
if (!(spread(cost()) < before)) wrong.push("smoothing does not smooth");
change("log", true, "input");
if (!cost().graph.getOption("logscale")) wrong.push("no log scale");
change("x", "time");
if (cost().rows.at(-1)[0] === last) wrong.push("the x axis stays");
cost().graph.updateOptions({ dateWindow: [0, 1] });
if (!cost().graph.isZoomed()) wrong.push("no zoom");
change("job", "1");
change("trainer", "1");
if (!charts.find((c) => c.id === "time").n) wrong.push("no time of trainer 1");
const lines = cost().lines.length, box = document.querySelector("#runs input");
box.checked = false;
box.dispatchEvent(new Event("change"));
if (cost().lines.length >= lines) wrong.push("the run is still drawn");
change("differ", false);
if (document.querySelectorAll("#settings tbody tr").length < 10) wrong.push("not all settings");
document.documentElement.setAttribute("data-used", wrong.join("; ") || "yes");
}</script>"""
WIDE = """<script>document.documentElement.setAttribute("data-wide",
  document.documentElement.scrollWidth > innerWidth ? "yes" : "no");</script>"""


def with_script(script, source, to):
    text = open(source, encoding="utf-8").read()
    open(to, "w", encoding="utf-8").write(text.replace("</body>", script + "</body>"))


def pixels(args):
    seen = {}
    for path, width, scheme in zip(args[::3], args[1::3], args[2::3]):
        data = open(path, "rb").read()
        assert data[:8] == b"\x89PNG\r\n\x1a\n", path
        assert struct.unpack(">I", data[16:20])[0] == int(width), path
        at, packed = 8, b""
        while at < len(data):
            n, kind = struct.unpack(">I4s", data[at:at + 8])
            packed += data[at + 8:at + 8 + n] if kind == b"IDAT" else b""
            at += 12 + n
        first = zlib.decompress(packed)[1:4] # the first pixel is the same under every filter
        assert (sum(first) > 600) == (scheme == "light"), (path, list(first))
        assert len(data) > 50000, (path, len(data))
        seen[path] = first
    return seen


def copy(record, folder, name, change):
    to = os.path.join(folder, name)
    os.makedirs(to)
    for f in ("run.json", "metrics.jsonl", "train.ini"):
        shutil.copy(os.path.join(record, f), to)
    run = json.load(open(os.path.join(to, "run.json")))
    change(to, run)
    if run is not None and "cut" not in name and "empty" not in name:
        json.dump(run, open(os.path.join(to, "run.json"), "w"))


def edit(path, change):
    text = open(path).read()
    open(path, "w").write(change(text))


def damage(record, folder):
    def evil(to, run):
        run["name"], run["failure"] = EVIL, {"text": EVIL, "host": EVIL}
        mark = json.dumps({"t": run["started_ms"] + 10, "ev": "failed", "text": EVIL, "host": EVIL})
        edit(to + "/metrics.jsonl", lambda t: t + mark + "\n")
        edit(to + "/train.ini", lambda t: t + f"[layer odd]\nact = {EVIL}\n")

    def cut(to, run):
        edit(to + "/run.json", lambda t: t[:len(t) // 2])
        edit(to + "/metrics.jsonl", lambda t: t[:2 * len(t) // 3])

    def newer(to, run):
        run["version"], run["news"] = 2, {"what": [1, 2, 3]}
        edit(to + "/metrics.jsonl", lambda t: t + '{"t":1,"ev":"news","x":{"y":[1]}}\n')

    def empty(to, run):
        edit(to + "/run.json", lambda t: "")
        os.remove(to + "/metrics.jsonl")
        os.remove(to + "/train.ini")

    def other(to, run):
        edit(to + "/metrics.jsonl", lambda t: t.replace('"name":"p"', '"name":"quite_another"'))

    for name, change in (("html", evil), ("cut", cut), ("newer", newer), ("empty", empty), ("other", other)):
        copy(record, folder, "JOB-" + name, change)


def copies(record, folder, n):
    for i in range(int(n)):
        def later(to, run):
            run["name"], run["started_ms"] = f"copy {i}", run["started_ms"] + 10000000 + i
        copy(record, folder, f"JOB-copy-{i:03}", later)


def main():
    what, rest = sys.argv[1], sys.argv[2:]
    if what == "check":
        a = argparse.ArgumentParser()
        a.add_argument("dom")
        a.add_argument("--drawn", default="")
        a.add_argument("--failure", action="store_true")
        for k in ("jobs", "nodes", "marks", "settings"):
            a.add_argument("--" + k, type=int, default=0)
        check(a.parse_args(rest))
    elif what == "odd":
        odd(*rest)
    elif what == "pixels":
        pixels(rest)
    elif what in ("use", "wide"):
        with_script(USE if what == "use" else WIDE, *rest)
    elif what == "damage":
        damage(*rest)
    else:
        copies(*rest)


main()
