#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""fetch_screen.py PADDLECTL JOB - tests the progress of fetch, and the last lines of run, on
terminals of 140, 80 and 40 columns. Runs in a folder with conf.ini; JOB has a pass of 40 MB. See
fetch_pass.sh."""
import os
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from screen import Screen  # noqa: E402

ctl, job = sys.argv[1:]
# every object takes its time, so that the progress is seen on any machine
slow = {"PADDLECTL_FAULT": "slow.assemble.put:2"}
size = r"[\d.]+ (bytes|kB|MB)"
forms = {
    140: rf"fetch \[[=>-]{{30}}\] +\d+ %  {size} of 40\.\d MB  \d of 3 nodes  {size}/s  ETA \d+ (s|min)$",
    80: rf"fetch \[[=>-]{{9}}\] +\d+ %  {size} of 40\.\d MB  \d of 3 nodes  {size}/s  ET",
    40: rf"fetch +\d+ %  {size}/s  ETA \d+ (s|min)$",
}


def text_of(s):
    """All that is left on the screen, without the line ends that the width made."""
    return "".join(line if len(line) == s.cols else line + "\n" for line in s.lines)


for cols, form in forms.items():
    shutil.rmtree("seen", ignore_errors=True)
    s = Screen([ctl, "fetch", "--conf=conf.ini", "--pass=4", "--to=seen", job], cols=cols, rows=24, env=slow)
    s.until(lambda: any(re.match(form, line) for line in s.shown()), f"the progress at {cols} columns")
    assert s.wait() == 0, s.shown()
    text = text_of(s)
    assert not re.search(r"^fetch ", text, re.M), text  # the line is gone
    assert re.search(rf"fetched 40\.\d MB in [\d.]+ s; {size} came over the links\n", text), text

# q stops it, and the next one goes on
shutil.rmtree("seen", ignore_errors=True)
slower = {"PADDLECTL_FAULT": "slow.assemble.put:20"}
s = Screen([ctl, "fetch", "--conf=conf.ini", "--pass=4", "--to=seen", job], cols=80, rows=24, env=slower)
s.until(lambda: any(line == "keys: q stop, ? help" for line in s.shown()), "the keys")
time.sleep(0.4)
s.type("q")
s.until(lambda: s.shown()[-1].startswith("stop the fetch? y"), "a question")
s.type("y")
assert s.wait() == 130, s.shown()
assert f"'paddlectl fetch {job}' goes on where this one stopped" in text_of(s), s.shown()

# at the end of run the same line takes the place of the live block
for cols in forms:
    s = Screen([ctl, "run", "--conf=conf.ini"], cols=cols, rows=40, env={"PADDLECTL_FAULT": "slow.assemble.put:30"})
    s.until(lambda: any(re.match(r"fetch [\[ ]", line) for line in s.shown()), f"the fetch of run at {cols} columns")
    assert not any(re.match(r"pass \d/\d .*\[", line) for line in s.shown()), s.shown()
    assert s.wait() == 0, s.shown()
    text = text_of(s)
    tested = r"\d+ s; test after pass 4/4: cost [\d.]+, perplexity [\d.]+, err ([\d.]+)"
    last = re.search(r"paddlectl \| done in " + tested, text)
    assert last, text
    assert re.search(r"paddlectl \| best pass \d/4: err [\d.]+, output/JOB[-0-9a-f]+/pass-0000\d", text), text
    assert re.search(r"paddlectl \| next: paddlectl infer --model=output/JOB[-0-9a-f]+/pass-00003 --data=FILE\n*$", text), text
    # the line of the block that stays has the value of the last test, not of the one before
    assert f"test.err {float(last.group(1)):.4g}"[:14] in text, text
