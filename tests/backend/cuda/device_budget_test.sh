#!/usr/bin/env bash
# device_budget_test.sh SOURCE TREE OUT: a folder that is too large is refused; a rehearsal with a few seconds only ends
# in time, with a record for each stage that says how it ended or why it was not run, the first ones while it still runs.
set -euo pipefail
source=$1 tree=$2 out=$3
stages=(device probes blocks f16 plans rates tune-1x128)  # what QuickRehearsal has prepared
budget=10        # too little for a search, which has a quarter of what is left: there is always a stage without time
most_seconds=24  # for a busy machine; without a limit these stages take more
results=$out/results.jsonl

fail() { echo "device_budget_test: $1; see $out" >&2; exit 1; }
rehearse() { "$source/tools/device_check" --rehearse --tree "$tree" --only "${stages[*]}" "$@"; }

rm -rf "$out"
mkdir -p "$out"
code=0
rehearse --most 1 2>"$out/refusal" || code=$?
cat "$out/refusal" >&2
[[ $code = 1 ]] && grep -q 'too large to be moved: [0-9]* bytes, more than 1 MiB' "$out/refusal" ||
  fail "a folder of more than a MiB is not refused, exit code $code"

rehearse --out "$out" --budget "$budget" &
check=$! early=false code=0
while kill -0 "$check" 2>/dev/null; do
  if grep -qs '"item":"device"' "$out/results.json"; then
    if ! grep -q '"item":"end"' "$out/results.json"; then early=true; fi
    break
  fi
  sleep 0.1
done
wait "$check" || code=$?
$early || fail "results.json had nothing before the end"
[[ $code = 1 ]] || fail "exit code $code instead of 1, although there was no time for all"
for stage in "${stages[@]}"; do
  grep -q "^{\"stage\":\"run\",\"item\":\"$stage\"," "$results" || fail "no record of stage $stage"
done
grep -q "\"item\":\"tune-1x128\",\"ok\":false,\"skipped\":\"no time left of $budget s\"" "$results" ||
  fail "the search does not say that there was no time left"
seconds=$(sed -n 's/.*"item":"end","ok":true,"seconds":\([0-9]*\),.*/\1/p' "$results")
[[ -n $seconds ]] || fail "no record of the end"
((seconds <= most_seconds)) || fail "took $seconds s with a budget of $budget s"
