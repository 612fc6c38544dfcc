#!/usr/bin/env bash
# What the action runs: reviews, and fills in the summary of the job. Nothing of the repository under review is run, and
# Python does not look for modules in it.
set -u
root=$(cd "$GITHUB_ACTION_PATH/../../.." && pwd)
REVIEW_DIR=${REVIEW_DIR:-$RUNNER_TEMP/codelet-review}
export REVIEW_DIR
echo "reports=$REVIEW_DIR" >>"$GITHUB_OUTPUT"

# Says that nothing was reviewed, and why, in the annotations and in the summary; ends with the status.
not_reviewed() {
  local why=${2//%/%25}
  echo "::error title=codelet review::not reviewed (status $1): ${why//$'\r'/ }"
  printf 'The change was **not reviewed** (status %s).\n\n    %s\n' "$1" "$2" >>"$GITHUB_STEP_SUMMARY"
  echo "status=$1" >>"$GITHUB_OUTPUT"
  exit "$1"
}

base=${REVIEW_BASE:-}
if [ -z "${base//[[:space:]]/}" ]; then
  # Only events of a pull request, a merge group or a push name one: for others, such as a schedule, it has to be given.
  not_reviewed 2 "there is no base to compare with: set the input base of the action"
fi
arguments=${REVIEW_ARGUMENTS:-}
if [[ $arguments == *$'\n'* ]]; then
  mapfile -t more <<<"${arguments%$'\n'}"
else
  read -r -a more <<<"$arguments"
fi
log=$(mktemp "$RUNNER_TEMP/review.XXXXXX")
REVIEW_LOG=github "$root/scripts/ci/review.sh" --base "$base" --fail-on "$REVIEW_FAIL_ON" "${more[@]}" 2>"$log"
status=$?
cat "$log" >&2

if [ ! -f "$REVIEW_DIR/review.md" ]; then
  not_reviewed "$status" "$(grep -a '^codelet: ' "$log" | tail -n 1 | tr -d '\n`')"
fi
head -c 900000 "$REVIEW_DIR/review.md" >>"$GITHUB_STEP_SUMMARY"
echo "status=$status" >>"$GITHUB_OUTPUT"
exit "$status"
