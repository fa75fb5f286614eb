#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package paddle_ps: mypy finds nothing, `make wheel` gives the same bytes in another folder, and what pip installs from it
# trains without anything else of paddlectl.
# release only
. "$(dirname "$0")/../../support/lib.sh"
cd "$TMP" || exit 1
python=/usr/bin/python3
for module in mypy build pip numpy; do
    $python -c "import $module" 2>/dev/null || skip "$python has no $module"
done

if $python -c 'import torch' 2>/dev/null; then
    (cd "$TOP/src/capi/python" && $python -m mypy --strict --cache-dir="$TMP/cache" paddle_ps) >mypy.log 2>&1 || die "mypy: $(cat mypy.log)"
else
    echo "skipped: mypy: $python has no torch"
fi

wheel() { make -s -C "$TOP" wheel >wheel.log 2>&1 || die "make wheel: $(tail -5 wheel.log)"; cp "$TOP"/build/wheel/*.whl "$1"; }
mkdir one two
export SOURCE_DATE_EPOCH=1700000000
wheel one
wheel two
cmp one/*.whl two/*.whl || die "another wheel the second time"
[[ $(echo one/*.whl) == one/paddle_ps-*-py3-none-manylinux_2_[0-9]*_$(uname -m).whl ]] || die "the name: $(ls one)"
PIP_ROOT_USER_ACTION=ignore $python -m pip install -q --no-index --no-deps --target "$TMP/site" one/*.whl >pip.log 2>&1 || die "pip: $(cat pip.log)"
[ -s site/paddle_ps/NOTICES ] && [ -s site/paddle_ps/LICENSE ] && [ -e site/paddle_ps/py.typed ] || die "$(ls site/paddle_ps)"
cat >use.py <<'END'
import sys
import numpy as np
import paddle_ps
assert paddle_ps.__file__.startswith(sys.argv[1]), paddle_ps.__file__
with paddle_ps.join("optimizer=sgd optimizer.learning_rate=0.5 local=1") as ps:
    w = ps.dense("w", (2, 3), mean=1)
    ps.start()
    x = ps.pull_dense(w)
    ps.wait()
    assert (x == 1).all(), x
    ps.push_dense(w, np.full((2, 3), 4.0))
    ps.step_end(2, [7.0])
    ps.pull_dense(w, out=x)
    ps.wait()
    assert (x == 0).all(), x
    assert [(s, n, v.tolist()) for s, n, v in ps.step_sums(1)] == [(0, 2, [7.0])]
    with open("/proc/self/maps") as f:
        libraries = {line.split()[-1] for line in f if "lib" in line and ".so" in line}
    for name in "libpaddle_ps", "libuv", "libsodium", "libjansson", "libinih":
        its = [p for p in libraries if name in p]
        assert len(its) == 1 and its[0].startswith(sys.argv[1]), (name, its)
END
env -u PADDLE_PS_LIBRARY PYTHONPATH="$TMP/site" $python use.py "$TMP/site" || die "use.py"
