# SPDX-License-Identifier: Apache-2.0
# browser.sh - sourced after lib.sh: pages in headless Chromium, of a job with an evaluator and test data,
# which is prepared in $TMP (endless_job of tiny_model.sh).
#
#   browse NAME URL [OPTION...]   opens the page; its elements after 20 virtual seconds in NAME.dom,
#                                 Chromium's log in NAME.log
#   quiet NAME                    nothing was written to the page's console
#   address LOG                   the URL that paddlectl dashboard has printed
chrome=$(command -v chromium-headless-shell || command -v chromium) || skip "no headless Chromium"
. "$TOP/tests/support/hosts.sh"
. "$TOP/tests/support/tiny_model.sh"
[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3"
page=$TOP/tests/support/report_page.py
browse() {
    local name=$1 url=$2 root=
    shift 2
    [ "$(id -u)" != 0 ] || root=--no-sandbox
    timeout 300 "$chrome" $root --disable-gpu --hide-scrollbars --no-first-run \
        --user-data-dir="$TMP/browser" --virtual-time-budget=20000 --enable-logging=stderr "$@" \
        --dump-dom "$url" >"$TMP/$name.dom" 2>"$TMP/$name.log"
}
quiet() { ! grep 'CONSOLE' "$TMP/$1.log" || die "$1: an error on the console"; }
address() { grep -o 'http://127.0.0.1:[0-9]*/[0-9a-f]*/' "$1"; }
endless_job
sed -i "s#^\[optimizer\]#[evaluator err]\ntype = classification_error\ninput = p\nlabel = y\n&#;
    s#^train = .*#&\ntest = data/*#" ws/train.ini
