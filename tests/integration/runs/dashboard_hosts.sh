#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl dashboard asks the hosts of conf.ini for jobs: one that another folder has started is on the page
# and in the metrics, in headless Chromium. A host whose connection ends, and one that hangs, are named and
# asked again. The job does not notice. An agent that is not ours cannot do more than fill the table.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/browser.sh"
get() { /usr/bin/python3 -c 'import sys, urllib.request
sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1], timeout=60).read())' "$1" >answer; }
# the data of the page satisfies this expression of Python, in which h is the part about hosts
hosts_have() { get "${url}data" && /usr/bin/python3 -c 'import json, sys
d = json.load(open("answer"))
h = d["hosts"]
jobs = {j["name"]: j for j in h.get("jobs", [])}
assert eval("(" + sys.argv[1] + ")"), h' "$1"; }
# A dashboard in the folder $1; its address is in $url, its pid in $dashboard
look() {
    start "$1-dashboard" env -C "$TMP/$1" "$ctl" dashboard "${@:2}"
    dashboard=$PID
    wait_for 60 "the dashboard's address" address "$1-dashboard.log"
    url=$(address "$1-dashboard.log")
}
stop_looking() { kill -INT "$dashboard" && wait "$dashboard" || die "the dashboard ended with $?"; }

# Three hosts, reached by a command that keeps its pid, so that a connection can be cut or stopped
cat >way <<END
#!/bin/sh
node=\$1
shift
[ ! -e $TMP/down.\$node ] || { echo "No route to host" >&2; exit 1; }
echo \$\$ >$TMP/way.\$node
exec "\$@"
END
chmod +x way
mkdir alice bob
port=$((10000 + RANDOM % 10000))
for who in alice bob; do
    printf '[cluster]\nhosts = %s\nconnect = %s/way %%n\nroot_dir = %s/root%%n\nport = %s\n[job]\njob_dispatch_package = %s/ws\n' \
        "$([ $who = alice ] && echo 'gpu-[0-2]' || echo 'gpu-[0-1]')" "$TMP" "$TMP" "$port" "$TMP" >$who/conf.ini
done

# --- nothing runs
look alice
wait_for 60 "the hosts answer" hosts_have 'h["answered"] == 3 and h["n_jobs"] == 0 and not h["silent"]'
browse empty "$url"
quiet empty
grep -q '3 of 3 hosts of conf.ini answer. They have no job.' empty.dom || die "no jobs: $(head -c 2000 empty.dom)"
grep -q 'There is no run yet' empty.dom || die "there is a run"

# --- bob's job, of which alice has no record
start bobs env -C "$TMP/bob" "$ctl" run --name=bobs --batch_size=2
bobs=$PID
cd "$TMP/bob" && wait_for 120 "bob's job trains" grep -q "Pass 2" "$TMP/bobs.log" && cd "$TMP" || die cd
wait_for 60 "alice sees bob's job" hosts_have 'jobs["bobs"]["progress"] and jobs["bobs"]["progress"]["metrics"] and jobs["bobs"]["progress"]["pass"] >= 1'
# what is shown: state, nodes, owner, pass, cost, metrics, speed, who follows it and that it moves
hosts_have 'jobs["bobs"]["state"] == "running" and jobs["bobs"]["running"] == 2 == jobs["bobs"]["nodes"]
    and jobs["bobs"]["user"] == "'"$(id -un)"'" and jobs["bobs"]["attached"] and not jobs["bobs"]["record"]
    and jobs["bobs"]["progress"]["pass"] >= 1 and jobs["bobs"]["progress"]["cost"] > 0
    and jobs["bobs"]["progress"]["rate"] > 0 and jobs["bobs"]["started_ms"] > 0' || die "see above"
moves() { hosts_have 'jobs["bobs"]["changed_ms"]'; }
wait_for 60 "its progress moves" moves
browse bobs-page "$url"
quiet bobs-page
/usr/bin/python3 - bobs-page.dom "$(id -un)" <<'END' || die "bobs-page.dom: see above"
import html.parser, sys
class Rows(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.rows, self.inside, self.texts, self.hidden, self.script = [], False, [], {}, False
        self.feed(text)
    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        self.script = tag in ("script", "style")
        if tag == "tr" and "data-host-job" in a:
            self.rows.append([a["data-host-job"]])
            self.inside = True
        elif self.inside and tag == "td":
            self.rows[-1].append("")
        if tag == "section":
            self.hidden[a.get("id")] = "hidden" in a
    def handle_endtag(self, tag):
        self.script = False
        if tag == "tr":
            self.inside = False
    def handle_data(self, data):
        self.texts += [] if self.script else [data]
        if self.inside and len(self.rows[-1]) > 1:
            self.rows[-1][-1] += data
p = Rows(open(sys.argv[1], encoding="utf-8").read())
assert not p.hidden["hosts"] and len(p.rows) == 1, (p.hidden, p.rows)
job, name, user, state, nodes, started, took, passes, cost, metrics, speed, live, record = p.rows[0]
assert name.startswith("bobs") and job in name and user == sys.argv[2] and state == "running" and nodes == "2/2", p.rows
assert started != "-" and took != "-" and passes[0].isdigit() and float(cost) > 0 and "err " in metrics, p.rows
assert speed.endswith("/s") and live.startswith("attached, moved ") and record == "none here", p.rows
text = " ".join(p.texts)
assert "A job whose record is not in this folder has no curves, settings, events and files below" in text
assert "undefined" not in text and "NaN" not in text
END
# the metrics, by their documented names
get "${url}metrics"
cp answer metrics
for m in running hosts start_time_seconds lost_hosts_total pass pass_ratio cost units_per_second 'train_metric{.*metric="perplexity"' 'test_metric{.*metric="test.err"'; do
    grep -qE "^paddle_job_$m" metrics && grep -E "^paddle_job_$m" metrics | grep -q "job_name=\"bobs\",user=\"$(id -un)\"" || die "no paddle_job_$m of bob: $(cat metrics)"
done
grep -q '^paddle_job_running{.*job_name="bobs".*} 1$' metrics && grep -q '^paddle_job_hosts{.*job_name="bobs".*} 2$' metrics || die "$(cat metrics)"
[ "$(grep -c '^paddle_host_up{host="gpu-[012]"} 1$' metrics)" = 3 ] || die "three hosts are up: $(cat metrics)"
! command -v promtool >/dev/null || promtool check metrics <metrics || die "promtool: see above"

# --- a host whose connection ends and that cannot be reached: named, asked again; the others go on
: >down.2
kill "$(cat way.2)"
wait_for 60 "gpu-2 is named" hosts_have 'h["answered"] == 2 and len(h["silent"]) == 1 and h["silent"][0].startswith("gpu-2: ") and jobs["bobs"]["running"] == 2'
browse silent "$url"
quiet silent
grep -q 'No answer, asked again: gpu-2: ' silent.dom && grep -q '2 of 3 hosts of conf.ini answer' silent.dom || die "the page does not name gpu-2"
get "${url}metrics"
grep -q '^paddle_host_up{host="gpu-2"} 0$' answer || die "gpu-2 is up: $(cat answer)"
rm down.2
wait_for 90 "gpu-2 answers again" hosts_have 'h["answered"] == 3 and not h["silent"]'
# a host that hangs: its answer is waited for, and no other host's
kill -STOP "$(cat way.2)"
hung=$(cat way.2)
wait_for 60 "gpu-2 hangs" hosts_have 'h["answered"] == 2 and "gpu-2: " in h["silent"][0]'
before=$(/usr/bin/python3 -c 'import json; print([j["changed_ms"] for j in json.load(open("answer"))["hosts"]["jobs"]][0])')
wait_for 60 "bob's job still moves" hosts_have "jobs['bobs']['changed_ms'] > $before"
kill -CONT "$hung" 2>/dev/null # the dashboard may have ended it
wait_for 90 "gpu-2 answers again" hosts_have 'h["answered"] == 3'

# --- bob's job has not noticed; a job with a record here is marked so, and is not in the metrics twice
kill -0 "$bobs" || die "bob's job has ended: $(tail bobs.log)"
! grep -iE 'lost|claim|client|warning' bobs.log || die "bob's job has noticed"
(cd alice && expect 0 "$ctl" run --name=own --num_passes=2 --hosts=gpu-2) || exit 1
wait_for 60 "alice's own job" hosts_have 'jobs["own"]["record"] and jobs["own"]["state"] == "done" and not jobs["bobs"]["record"]'
own() { get "${url}metrics" && [ "$(grep -c '^paddle_job_running{.*job_name="own"' answer)" = 1 ]; }
wait_for 60 "one line of alice's job" own
browse both "$url"
quiet both
/usr/bin/python3 "$page" check both.dom --jobs=1 || die "both.dom: see above"
# the job ends: seen, and its state is shown
kill -INT "$bobs"
wait "$bobs"
wait_for 60 "bob's job has ended" hosts_have 'jobs["bobs"]["state"] == "stopped" and not jobs["bobs"]["running"] and jobs["bobs"]["ended_ms"]'
get "${url}metrics"
grep -q '^paddle_job_running{.*job_name="bobs".*} 0$' answer || die "bob's job runs: $(cat answer)"
stop_looking
for n in 0 1 2; do ! kill -0 "$(cat way.$n)" 2>/dev/null || die "a connection to gpu-$n is left"; done

# --- a job below another root_dir, as of another account: its id, owner, start and hosts
look alice
wait_for 60 "the hosts answer" hosts_have 'h["answered"] == 3'
mkdir carol
sed "s#$TMP/root#$TMP/carol#; s/gpu-\[0-2\]/gpu-0/" alice/conf.ini >carol/conf.ini
start carols env -C "$TMP/carol" "$ctl" run --name=carols
carols=$PID
wait_for 120 "carol's job trains" grep -q "Pass 2" carols.log
elsewhere() { hosts_have 'any(j["elsewhere"] and j["state"] == "running" and j["user"] == "'"$(id -un)"'" and j["running"] == 3 and not j["name"] for j in h["jobs"])'; }
wait_for 90 "alice sees that there is carol's job" elsewhere
browse carols-page "$url"
quiet carols-page
grep -q 'Of a job under another root_dir' carols-page.dom && grep -q '>another root_dir<' carols-page.dom || die "the page does not say what is not known"
get "${url}metrics"
grep -q '^paddle_job_running{job_id="JOB[^"]*",job_name="",user="'"$(id -un)"'"} 1$' answer || die "no metric of carol's job: $(cat answer)"
kill -INT "$carols"
wait "$carols"
! grep -iE 'lost|claim|warning' carols.log || die "carol's job has noticed"
stop_looking

# --- without hosts
look alice --no-hosts
get "${url}data"
! grep -q '"hosts":{' answer || die "hosts without asking: $(head -c 300 answer)"
stop_looking
mkdir nowhere
look nowhere
hosts_have '"names hosts" in h["why_not"]' || die "no reason"
browse nowhere "$url"
quiet nowhere
grep -q 'The hosts are not asked for jobs: there is no conf.ini that names hosts' nowhere.dom || die "no reason on the page"
stop_looking

# --- an agent that is not ours
export PADDLECTL_LIBEXEC=$TMP/libexec FAKE_AGENT=$TMP/scenario XDG_CACHE_HOME=$TMP/cache
mkdir libexec evil
cp "$TOP/tests/support/agent/fake_agent.py" libexec/paddle_agent
cp "$TOP"/tests/support/agent/agent_{client,package}.py libexec/
echo worker >libexec/paddle_worker
printf '[cluster]\nhosts = local\nroot_dir = %s/evil-root%%n\n' "$TMP" >evil/conf.ini
# A folder that paddlectl does not read itself: others may write to it.
mkdir -p evil-root0/.paddlectl && chmod 777 evil-root0
scenario() { /usr/bin/python3 - "$1" <<'END'
import json, sys
EVIL = "</script><script>document.title='broken out'</script><img src=x onerror=1>\x1b[2J\n\"\\\u202e" + "\u00e9" * 40
def job(i, **more):
    return {"job": "JOB20260101%06d-%04x" % (i, i), "name": EVIL, "node": 0, "state": "\u00e9trange\n\"", "pid": i % 2,
            "user": EVIL, "started_us": 1 + i, "ended_us": 2**62, "n_nodes": 65536, "attached": True, **more}
odd = {"ev": "progress", "rank": 0, "pass": 2**62, "num_passes": -1, "batch": 2**62, "unit": EVIL, "cost": -1e308, "rate": 1e308,
       "fraction": 77, "metrics": {EVIL: 1e308, "test." + EVIL: -1e308, "a\"b\\": 1, "text": "x", "none": None}}
what = sys.argv[1]
jobs = {"evil": [job(i, progress=odd, lost=[{"node": i, "host": EVIL, "reason": EVIL}] * 3) for i in range(300)]
        + [{"job": j} for j in ("../x", "", "a/b", "\x1b[2J", "x" * 64, 7, None)] + [7, None, "x", []],
        "long": [{"job": "J%d" % i} for i in range(10001)], "many": [{"job": "J%d" % i, "pid": 1} for i in range(10000)]}[what]
others = [{"job": j, "user": EVIL, "waits": True, "since_us": 2**62, "cpus": EVIL} for j in (EVIL, "", "x" * 99, "\x1b[2J", "ok")] + [7, None]
answer = {"answers": {"LIST": {"jobs": jobs, "others": others}}}
json.dump({"*": answer}, open("scenario", "w"))
END
}
scenario evil
look evil
wait_for 60 "the odd jobs" hosts_have 'h["n_jobs"] == 301 and len(h["jobs"]) == 64'
[ "$(stat -c %s answer)" -lt 100000 ] || die "the data has $(stat -c %s answer) bytes"
browse evil "$url"
quiet evil
/usr/bin/python3 - evil.dom <<'END' || die "evil.dom: see above"
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
body = text.split("<script")[0]
assert "<img" not in body and "broken out" not in text.split("</title>")[0]
assert len(re.findall("data-host-job=", body)) == 64 and 'data-ready="1"' in text
assert "64 of 301 jobs are shown" in body
END
get "${url}metrics"
! command -v promtool >/dev/null || promtool check metrics <answer || die "promtool: see above"
# only the list of jobs was asked for: nothing is joined, claimed or subscribed to
[ "$(sort -u scenario.-1.log | tr '\n' ' ')" = "LIST " ] || die "asked: $(sort scenario.-1.log | uniq -c)"
stop_looking
for what in long many; do
    scenario $what
    look evil
    case $what in
    long) wait_for 60 "a list that is too long" hosts_have '"10001 elements are outside 0 to 10000" in h["silent"][0] and not h["jobs"]' ;;
    many) wait_for 60 "the longest list" hosts_have 'h["n_jobs"] == 10001 and len(h["jobs"]) == 64' ;;
    esac
    stop_looking
done
exit 0
