#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Records the README's example on three ssh hosts of this machine as an animated SVG.

    tests/support/documents/record.py OUT.svg [--share=0.1]       (make recording)

Each command is typed at a prompt and runs in a pseudo-terminal (screen.py). Its real screens are
the frames. A pause in which nothing changes is cut to PAUSE_S, and a command that takes longer than
RUN_S is shown faster, with at most one frame each STEP_S. The hosts are the sshds of sshd-fixture,
the folder is a temporary one below TMP or build/.
"""
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # tests/support
sys.path.insert(0, HERE)
from screen import Screen  # noqa: E402

TOP = os.path.dirname(os.path.dirname(HERE))
COLS, ROWS = 108, 24
STEP_S, PAUSE_S, END_S, KEY_S, RUN_S = 0.25, 1, 6, 0.06, 12
CELL_W, CELL_H, MARGIN = 8.0, 17, 12
STYLE = """
text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre }
.typed { fill: #a3d977 }
#film { animation: film %.2fs step-end infinite }
@media (prefers-reduced-motion: reduce) { #film { animation: none; transform: translateX(%dpx) } }
"""


class Film:
    """Frames: (seconds that it is shown, lines of the screen)."""

    def __init__(self):
        self.done, self.frames = [], []

    def show(self, seconds, lines):
        lines = (self.done + lines)[-ROWS:]
        if self.frames and (self.frames[-1][1] == lines or self.frames[-1][0] < STEP_S / 2):
            self.frames[-1] = [self.frames[-1][0] + seconds, lines]
        else:
            self.frames.append([seconds, lines])

    def type(self, command):
        """A command line appears at the prompt, some keys a frame."""
        for n in range(0, len(command) + 4, 4):
            self.show(KEY_S * 4, ["$ " + command[:n]])
        self.done.append("$ " + command)
        self.show(STEP_S, [])

    def run(self, command, env, folder):
        """Runs the command, and keeps its screens. Returns the exit status."""
        self.type(command)
        screen = Screen(["sh", "-c", "cd \"$0\" && exec sh -c \"$1\"", folder, command],
                        cols=COLS, rows=ROWS, env=env)
        taken, seen, since = [], [], time.monotonic()
        while screen.read(STEP_S):
            now, lines = time.monotonic(), screen.shown()
            if lines != seen:
                taken.append((min(now - since, PAUSE_S), seen))
                seen, since = lines, now
        factor = min(1, RUN_S / max(sum(t[0] for t in taken), 1))
        for seconds, lines in taken:
            self.show(seconds * factor, lines)
        self.show(STEP_S, screen.shown())
        self.done += [line.rstrip() for line in screen.lines if line.strip("\0 ")]
        return screen.wait()


def svg(frames, title):
    """All frames side by side; an animation with steps moves the film."""
    width, height = int(COLS * CELL_W) + 2 * MARGIN, ROWS * CELL_H + 2 * MARGIN
    total = sum(f[0] for f in frames)
    ids, defs, film, keys, at = {}, [], [], [], 0.0
    for n, (seconds, lines) in enumerate(frames):
        keys.append("%.3f%% { transform: translateX(%dpx) }" % (100 * at / total, -n * width))
        at += seconds
        for row, line in enumerate(lines):
            line = line.replace("\0", "").rstrip()[:COLS]
            if not line:
                continue
            if line not in ids:
                ids[line] = "l%d" % len(ids)
                typed = ' class="typed"' if line.startswith("$ ") else ""
                defs.append('<text id="%s"%s xml:space="preserve">%s</text>' %
                            (ids[line], typed, html.escape(line)))
            film.append('<use href="#%s" x="%d" y="%d"/>' %
                        (ids[line], n * width + MARGIN, MARGIN + (row + 1) * CELL_H - 4))
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img">' %
        (width, height, width), "<title>%s</title>" % html.escape(title),
        "<style>" + STYLE % (total, -(len(frames) - 1) * width),
        "@keyframes film { %s }</style>" % " ".join(keys), "<defs>", *defs, "</defs>",
        '<rect width="100%" height="100%" rx="6" fill="#1e2430"/>',
        '<g id="film">', *film, "</g></svg>", ""])


def main():
    out = sys.argv[1]
    share = dict(a[2:].split("=") for a in sys.argv[2:]).get("share", "0.1")
    programs = os.environ.get("PADDLE_BUILD", TOP + "/build/release")
    folder = tempfile.mkdtemp(prefix="recording-", dir=os.environ.get("TMP", TOP + "/build"))
    hosts = folder + "/hosts"
    fixture = HERE + "/sshd-fixture"
    subprocess.run([fixture, "start", hosts], check=True)
    env = {"PATH": programs + ":" + os.environ["PATH"], "SSH_AUTH_SOCK": "",
           "PADDLECTL": programs + "/paddlectl"}
    film, status = Film(), 0
    try:
        status |= film.run("paddlectl init word2vec", env, folder)
        status |= film.run("workspace/prepare --shards=3 --share=" + share, env, folder + "/word2vec")
        conf = open(hosts + "/conf.ini").read()
        path = folder + "/word2vec/conf.ini"
        own = open(path).read()
        for key, value in re.findall(r"(?m)^(\w+) = (.*)$", conf):
            own = re.sub(r"(?m)^%s *=.*$" % key, lambda _: "%s = %s" % (key, value), own)
        open(path, "w").write(own)
        film.type("grep ^hosts conf.ini")
        film.done.append(re.search(r"(?m)^hosts.*", own).group(0))
        film.show(PAUSE_S, [])
        status |= film.run("paddlectl run", env, folder + "/word2vec")
    finally:
        subprocess.run([fixture, "stop", hosts], check=False)
    film.show(END_S, [])
    if status:
        sys.exit("\n".join(film.done + ["record.py: a command failed"]))
    with open(out, "w") as f:
        f.write(svg(film.frames, "paddlectl run on three hosts"))
    print("%s: %d frames, %.0f s" % (out, len(film.frames), sum(f[0] for f in film.frames)))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
