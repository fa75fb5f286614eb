#!/usr/bin/env bash
# Eight trainers and eight pservers on this machine against two and two: bytes a second of all, synchronous steps of 16 MB
. "$(dirname "$0")/ps.sh"
GROUP=build/release/bench/ps_group
best_many=0 best_few=0
for ((i = 0; i < ROUNDS; i++)); do
    few=$("$GROUP" 2 16 "${FOR_S:-3}" | awk '{print $8}') many=$("$GROUP" 8 16 "${FOR_S:-3}" | awk '{print $8}')
    echo "2 + 2: $few GB/s   8 + 8: $many GB/s"
    best_many=$(max "$best_many" "$many") best_few=$(max "$best_few" "$few")
done
line ps_many "$(ratio "$best_many" "$best_few")" '>=0.70' "2 trainers + 2 pservers" "$best_many GB/s" "$best_few GB/s"
