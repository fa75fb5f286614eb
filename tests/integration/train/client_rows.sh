#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Rows that come and go, from Python (paddle_ps.py): two trainers bring shows and clicks, an id gets its row when both have shown it often
# enough, the day's end takes what nobody clicked; what does not fit raises with the library's words.
# release only (a sanitizer's runtime can't come with a library into somebody's Python)
. "$(dirname "$0")/../../support/lib.sh"
. "$TOP/tests/support/hosts.sh"
/usr/bin/python3 -c 'import numpy' 2>/dev/null || skip "no /usr/bin/python3 with numpy"
export XDG_CACHE_HOME=$TMP/cache PYTHONDONTWRITEBYTECODE=1
cd "$TMP" || exit
mkdir ws && cp -R "$TOP/src/capi/python/paddle_ps" ws && cp "$BIN/libpaddle_ps.so.1" ws/paddle_ps || die "no client library in $BIN"
{ local_nodes 2; cat; } >conf.ini <<END
[job]
job_dispatch_package = ws
trainer_command = /usr/bin/python3 rows.py
END
cat >ws/rows.py <<'END'
import numpy as np
import paddle_ps

# score = 0.1 * shows without a click + clicks, times a half at a day's end; with less than 1 a row goes
LIFE = dict(admit_count=3, admit_zero=1, mean=10, ageing=1, show_decay=0.5, delete_score=1)
SGD = "optimizer=sgd optimizer.learning_rate=1"


def ones(*shape):
    return np.ones(shape, np.float32)


def expect(what, got, want):
    if not np.allclose(got, want):
        raise SystemExit("%s: %s, not %s" % (what, got, want))


def refused(text, call, *args):
    try:
        call(*args)
    except paddle_ps.Error as e:
        if text in str(e):
            return
        raise
    raise SystemExit("not refused: " + text)


ps = paddle_ps.join(SGD)
me = ps.trainer_id
expect("trainers", ps.n_trainers, 2)
t = ps.table("t", 1, **LIFE)
ps.start()


def read(*ids):
    rows = ps.pull_rows(t, ids)
    ps.wait()
    return rows[:, 0]


def end_step():
    ps.step_end(1)
    ps.wait()


ps.push_rows(t, [9, 4][:1 + me], ones(1 + me, 1))  # 9 is shown by both, 4 by trainer 1: nobody three times
end_step()
expect("shown twice and once", read(4, 9), [0, 0])
ps.push_rows(t, [9], ones(1, 1))  # a mean gradient of 1
end_step()
expect("9 has a row", read(4, 9), [0, 9])
if me == 0:  # 4 is shown five times and always clicked, by one trainer: a mean gradient of 1/2
    ps.push_seen_rows(t, [[4, 9]], ones(1, 2, 1), [[5, 1]], [[5, 0]])
end_step()
expect("4 has a row", read(4, 9), [9.5, 8.5])
ps.pass_end()
expect("rows that went, are left, and wait", ps.day_end(), (1, 1, 0))
expect("9 went", read(4, 9), [9.5, 0])
ps.leave()

alone = paddle_ps.join(SGD + " local=1 num_gradient_servers=1 trainer_id=0")
plain, t = alone.table("plain", 1), alone.table("t", 1, **LIFE)
alone.start()
refused("the gradient has shape", alone.push_seen_rows, t, [1, 2], ones(1, 1), [1, 1], [0, 0])
refused("table 0 has no admission and ageing of rows", alone.push_seen_rows, plain, [1], ones(1, 1), [1], [0])
alone.close()
alone = paddle_ps.join(SGD + " local=1 num_gradient_servers=1 trainer_id=0")
t = alone.table("t", 1, **LIFE)
alone.start()
refused("id 7 was clicked 2 times of 1 shows", alone.push_seen_rows, t, [7], ones(1, 1), [1], [2])
alone.close()
print("trainer %d has seen it all" % me)
END
expect 0 "$BIN/paddlectl" run
has "trainer 0 has seen it all"
has "trainer 1 has seen it all"
