#!/usr/bin/env bash
# What the action runs: installs codelet from the action's own checkout, reviews, and fills in the summary of the job.
# Nothing of the repository under review is run, and Python does not look for modules in it.
set -u
base=${REVIEW_BASE:-}
if [ -z "${base//[[:space:]]/}" ]; then
  # Only events of a pull request name one: for push, merge_group or workflow_dispatch it has to be given.
  echo "::error title=codelet review::there is no base to compare with: set the input base of the action"
  echo "The change was **not reviewed**: no base was given." >>"$GITHUB_STEP_SUMMARY"
  echo "status=2" >>"$GITHUB_OUTPUT"
  exit 2
fi
root=$(cd "$GITHUB_ACTION_PATH/../../.." && pwd)
if [ -z "${CODELET:-}" ]; then
  tools=$RUNNER_TEMP/codelet
  {
    python3 -I -m venv "$tools" &&
      "$tools/bin/pip" install --quiet --require-hashes -r "$root/requirements.txt" &&
      "$tools/bin/pip" install --quiet --no-deps "$root"
  } || { echo "::error title=codelet review::codelet could not be installed: nothing was reviewed"; exit 2; }
  export CODELET=$tools/bin/codelet
fi

read -r -a more <<<"${REVIEW_ARGUMENTS:-}"
REVIEW_LOG=github "$root/scripts/ci/review.sh" --base "$base" --fail-on "$REVIEW_FAIL_ON" "${more[@]}"
status=$?

echo "status=$status" >>"$GITHUB_OUTPUT"
if [ -f "$REVIEW_DIR/review.md" ]; then
  head -c 900000 "$REVIEW_DIR/review.md" >>"$GITHUB_STEP_SUMMARY"
else
  echo "The change was **not reviewed** (status $status)." >>"$GITHUB_STEP_SUMMARY"
fi
exit "$status"
