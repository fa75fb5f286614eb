#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddlectl dashboard: a job that runs, in headless Chromium; the page follows it to its end. Metrics are
# checked by promtool, scraped and queried by a real Prometheus. The server refuses requests without the
# token, with another host's name, or with a body.
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/browser.sh"
# ask METHOD URL [NAME: VALUE]...: the status in $OUT, the answer in answer; 1: nobody answers
ask() {
    OUT=$(/usr/bin/python3 - "$@" <<'PY'
import sys
import urllib.error
import urllib.request

headers = dict(h.split(": ") for h in sys.argv[3:])
r = urllib.request.Request(sys.argv[2], method=sys.argv[1], headers=headers, data=b"x" if sys.argv[1] == "POST" else None)
try:
    a = urllib.request.urlopen(r, timeout=60)
except urllib.error.HTTPError as e:
    a = e
open("answer", "wb").write(a.read())
print(a.status, a.headers)
PY
    )
}
status() { [ "${OUT%% *}" = "$1" ] || die "status ${OUT%% *}, not $1: $(head -c 300 answer)"; }
metric() { grep "^$1{" answer | sed 's/.*} //'; }

# --- no runs yet
start dashboard "$ctl" dashboard --conf=conf.ini
dashboard=$PID
wait_for 60 "the dashboard's address" address dashboard.log
url=$(address dashboard.log)
port=${url#http://127.0.0.1:} port=${port%%/*}
browse none "$url"
quiet none
grep -q 'There is no run yet' none.dom || die "no runs: $(head -c 2000 none.dom)"

# --- a job that runs
start job "$ctl" run --conf=conf.ini --name=live
job=$PID
running() { ask GET "${url}metrics" && [ "$(metric paddle_job_running)" = 1 ] && [ -n "$(metric paddle_job_test_cost)" ] && grep -q '^paddle_pserver_table_rows{.*table="e.w",pserver="1"' answer; }
wait_for 120 "metrics of the job" running
browse live "$url"
quiet live
/usr/bin/python3 "$page" check live.dom --jobs=1 --drawn='cost metric.err speed time' || die "live.dom: see above"
live=$(grep -o 'data-live="[0-9]*"' live.dom | tr -dc 0-9)
[ "${live:-0}" -ge 2 ] || die "the page did not ask again: $live"
[ "$(stat -c %s live.dom)" -gt 10000 ] || die "an empty page"
ask GET "$url"
[ "$(stat -c %s answer)" -lt 300000 ] || die "the page has $(stat -c %s answer) bytes"

# --- metrics
ask GET "${url}metrics"
status 200
cp answer metrics
for m in pass cost units_per_second passes_total test_metric table_rows start_time_seconds; do
    grep -q "^paddle_job_$m{job_id=\"JOB.*\",job_name=\"live\"" metrics || die "no paddle_job_$m: $(cat metrics)"
done
for m in {pserver,trainer}_{sent,received}_bytes_per_second pserver_{waiting_requests,queued_bytes,table_rows}; do
    [ "$(grep -cE "^paddle_$m{.*,${m%%_*}=\"[01]\",host=\"" metrics)" = 2 ] || die "not two of $m: $(cat metrics)"
done
[ "$(grep -c '^paddle_trainer_peak_memory_bytes{.*trainer="[01]",host="' metrics)" = 2 ] || die "not two trainers: $(cat metrics)"
if command -v promtool >/dev/null; then
    promtool check metrics <metrics || die "promtool: see above"
    printf 'scrape_configs:\n  - job_name: paddle\n    scrape_interval: 1s\n    metrics_path: /%s/metrics\n    static_configs:\n      - targets: ["127.0.0.1:%s"]\n' \
        "$(cut -d/ -f4 <<<"$url")" "$port" >prometheus.yml
    own_port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    start prometheus prometheus --config.file=prometheus.yml --storage.tsdb.path="$TMP/tsdb" --web.listen-address="127.0.0.1:$own_port"
    scraped() {
        ask GET "http://127.0.0.1:$own_port/api/v1/query?query=paddle_job_running%7Bjob_name%3D%22live%22%7D" &&
            grep -q '"job_name":"live".*"value":\[[0-9.]*,"1"\]' answer
    }
    wait_for 120 "Prometheus has the metrics" scraped
    kill "$PID" && wait "$PID"
else
    echo "skipped: no Prometheus here"
fi

# --- who is refused
ask GET "${url%/}"
status 404
ask GET "http://127.0.0.1:$port/00000000000000000000000000000000/"
status 404
ask GET "http://127.0.0.1:$port/"
status 404
ask GET "${url}../etc/passwd"
status 404
ask POST "$url"
status 405
ask GET "$url" "Host: example.org:$port"
status 403
ask HEAD "$url"
status 200
has "no-store"
! (: <>"/dev/tcp/127.0.0.2/$port") 2>/dev/null || die "it listens on 127.0.0.2"
expect 1 "$ctl" dashboard --conf=conf.ini --port="$port"
has "port $port of 127.0.0.1: Address already in use"
# Runs that cannot be read: an error, each time, and the server lives.
: >none
start broken "$ctl" dashboard --conf=conf.ini --outputs=none
broken=$PID
wait_for 60 "its address" address broken.log
for i in 1 2 3; do
    ask GET "$(address broken.log)$([ $i = 1 ] || echo data)"
    status 500
done
grep -q 'none: Not a directory' answer || die "another error: $(cat answer)"
kill -INT "$broken" && wait "$broken" || die "the server of no runs: $?"
expect 2 "$ctl" dashboard --conf=conf.ini --port=nine
has "--port=nine: give a port"
# Requests that are cut off or no HTTP harm nobody.
for text in 'GET / HT' $'\x16\x03\x01\x02' "GET /$(printf '%9000s' | tr ' ' a) HTTP/1.1"; do
    (printf '%s\r\n' "$text" >"/dev/tcp/127.0.0.1/$port") 2>/dev/null
done
ask GET "${url}data"
status 200

# --- the job ends, and the page follows
kill -INT "$job"
wait "$job"
ended() { ask GET "${url}metrics" && [ "$(metric paddle_job_running)" = 0 ]; }
wait_for 60 "the job's end in the metrics" ended
browse ended "$url"
grep -q '<span class="warn">stopped</span>' ended.dom || die "the page has another state"

# --- another one begins
expect 0 "$ctl" run --conf=conf.ini --name=next --num_passes=2
two() { ask GET "${url}metrics" && [ "$(metric paddle_job_running | xargs)" = "0 0" ]; }
wait_for 60 "the second job" two
ask GET "${url}data"
/usr/bin/python3 -c 'import json
jobs = json.load(open("answer"))["jobs"]
assert [(j["run"]["name"], j["state"]) for j in jobs] == [("next", "done"), ("live", "stopped")], jobs' || die "the jobs"

# --- Ctrl-C
kill -INT "$dashboard"
wait "$dashboard" || die "exit status $?: $(cat dashboard.log)"
! (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || die "the port is open"

# --- an address that stays
start dashboard "$ctl" dashboard --conf=conf.ini --token-file=token
wait_for 60 "the address" address dashboard.log
[ "$(address dashboard.log | cut -d/ -f4)" = "$(cat token)" ] && [ "$(stat -c %a token)" = 600 ] || die "the token: $(cat token dashboard.log)"
kill -INT "$PID" && wait "$PID"
start dashboard "$ctl" dashboard --conf=conf.ini --token-file=token
wait_for 60 "the address" address dashboard.log
[ "$(address dashboard.log | cut -d/ -f4)" = "$(cat token)" ] || die "another token"
kill -INT "$PID" && wait "$PID"
chmod 644 token
expect 2 "$ctl" dashboard --conf=conf.ini --token-file=token
has "token: others can read or write it"
chmod 600 token && echo short >token
expect 2 "$ctl" dashboard --conf=conf.ini --token-file=token
has "token: a token has 32 hexadecimal digits"
exit 0
