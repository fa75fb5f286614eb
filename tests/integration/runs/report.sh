#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl report, looked at with headless Chromium: real runs, one that failed, records that are damaged
# or of another version, texts that look like HTML, 100 runs. No error on the console, each chart has
# data. Screenshots stay in build/test-logs: report-light.png, report-dark.png, report-phone.png.
# release only
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/browser.sh"
# Passes that are longer than the time between two events.
for f in ws/data/*; do for _ in 1 2 3 4 5 6 7 8; do cat "$f"; done >one && mv one "$f"; done
sed -i 's/^batch_size = .*/batch_size = 4/' ws/train.ini
report() { expect 0 "$ctl" report --conf=conf.ini "$@"; }

# --- two runs that end and one that fails
expect 0 "$ctl" run --conf=conf.ini --name=plain --num_passes=6
expect 0 "$ctl" run --conf=conf.ini --name=fast --num_passes=6 --set optimizer.learning_rate=0.3
expect 1 "$ctl" run --conf=conf.ini --name=broken --num_passes=3 --set optimizer.learning_rate=1e6
report plain fast broken --out=three.html
has "three.html: 3 runs, "
[ "$(stat -c %s three.html)" -lt 300000 ] || die "$OUT"
browse three "file://$TMP/three.html"
quiet three
/usr/bin/python3 "$page" check three.dom --jobs=3 --drawn='cost metric.err speed throughput time wait sent received queue memory server-memory tables' \
    --nodes=5 --marks=6 --settings=3 --failure || die "three.dom: see above"
# One run, the newest; -o as in other programs.
report -o one.html
has "one.html: 1 run, "
expect 2 "$ctl" report --conf=conf.ini nobody
has "there is no record of a run 'nobody'"
expect 2 "$ctl" report --conf=conf.ini --last=none
mkdir -p none/JOB-bad && echo '{' >none/JOB-bad/run.json
expect 2 "$ctl" report --conf=conf.ini --outputs=none --out=none.html
has "no record in none can be read: none/JOB-bad/run.json"
[ ! -e none.html ] || die "a page of no run"

# --- the page is used: smoothing, log scale, time, another run and trainer, a run that is not drawn
/usr/bin/python3 "$page" use three.html used.html
browse used "file://$TMP/used.html"
quiet used
grep -q 'data-used="yes"' used.dom || die "the page was not used: $(grep -o 'data-used="[^"]*"' used.dom)"
# The test sees errors, and requests of other files.
sed 's#<script>#<script>nothing();</script><script src="http://127.0.0.1:1/x.js"></script>&#' three.html >wrong.html
browse wrong "file://$TMP/wrong.html"
[ "$(grep -c CONSOLE wrong.log)" -ge 2 ] || die "an error of the page is not seen: $(cat wrong.log)"

# --- how it looks: the first pixel tells the colour scheme
picture() { browse three "file://$TMP/three.html" --screenshot="$TMP/$1.png" "${@:2}" && quiet three && [ -s "$1.png" ] || die "no $1.png: $(cat three.log)"; }
picture report-light --window-size=1280,3600
picture report-dark --window-size=1280,3600 --blink-settings=preferredColorScheme=0
picture report-phone --window-size=390,6000
mkdir -p "$TOP/build/test-logs" && cp report-*.png "$TOP/build/test-logs/"
/usr/bin/python3 "$page" pixels report-light.png 1280 light report-dark.png 1280 dark report-phone.png 390 light ||
    die "the screenshots are not as they should be"
/usr/bin/python3 "$page" wide three.html phone.html
browse phone "file://$TMP/phone.html" --window-size=390,800
grep -q 'data-wide="no"' phone.dom || die "the page is wider than a phone"

# --- records that others made, and damaged ones: what can be shown is shown, the rest is said
plain=$(basename "$(dirname "$(grep -ls '"name": "plain"' output/JOB*/run.json)")")
/usr/bin/python3 "$page" damage "output/$plain" output || die "no damaged records"
report JOB-html JOB-cut JOB-newer JOB-empty JOB-other --out=odd.html
has "paddlectl: JOB-newer: run.json is of another version of paddlectl"
browse odd "file://$TMP/odd.html"
quiet odd
/usr/bin/python3 "$page" odd odd.dom || die "odd.dom: see above"

# --- 100 runs
/usr/bin/python3 "$page" copies "output/$plain" output 100
report --last=100 --out=many.html
size=$(stat -c %s many.html)
[ "$size" -lt 1500000 ] || die "100 runs: $size bytes"
browse many "file://$TMP/many.html"
quiet many
/usr/bin/python3 "$page" check many.dom --jobs=100 --drawn='cost metric.err speed throughput time' || die "many.dom: see above"
echo "a page of three runs: $(stat -c %s three.html) bytes, of 100 runs: $size bytes"
