#!/bin/sh
# Reviews a change in a pipeline and leaves the reports of every kind in a folder.
#
# Use: review.sh [WORD…]    the words go to `codelet review`, such as --base origin/main, or A..B
# REVIEW_DIR  the folder of the reports, ./codelet-review unless told
# REVIEW_EMPTY  ok: a change without any file ends with 0, not with 5
# REVIEW_SINCE  github or gitlab: of a request whose last review passed, only what is new since then (GITHUB_TOKEN, GITLAB_TOKEN)
# CODELET     the program, `codelet` unless told
# The model and its key are in the environment, as codelet wants them: CODELET_MODEL, ANTHROPIC_API_KEY, …
#
# The exit status is that of `codelet review`: 0 clean, 1 findings at or above --fail-on, 2 used wrongly, 3 no answer from
# the model, 4 a limit was reached, 5 not complete. Only 0 and 1 are whole reviews.
set -u
dir=${REVIEW_DIR:-codelet-review}
# A change could bring a link of that name, and files elsewhere would be removed and written.
part=${dir%/}
while [ -n "$part" ]; do
  if [ -L "$part" ]; then
    echo "review: $part is a link; name the real folder with REVIEW_DIR" >&2
    exit 2
  fi
  case $dir,$part in /*) break ;; *,*/*) part=${part%/*} ;; *) break ;; esac
done
mkdir -p -- "$dir" || exit 2
# A report of an earlier run must not be taken for one of this run.
rm -f -- "$dir/review.json" "$dir/review.sarif" "$dir/review.md" "$dir/review.xml" \
  "$dir/gl-code-quality-report.json" "$dir/review.rdjson" || exit 2

# The base and the head that our own comment on the request names. The same commit again is reviewed as a whole.
since=
case ${REVIEW_SINCE:-} in
  github | gitlab) since=$("${CODELET:-codelet}" review post "--$REVIEW_SINCE" --last-reviewed </dev/null) || since= ;;
esac
if [ -n "$since" ] && [ "${since##*.}" != "$(git rev-parse HEAD)" ]; then
  set -- "$@" --since "$since"
fi

"${CODELET:-codelet}" review \
  --output "json=$dir/review.json" \
  --output "sarif=$dir/review.sarif" \
  --output "markdown=$dir/review.md" \
  --output "junit=$dir/review.xml" \
  --output "gitlab=$dir/gl-code-quality-report.json" \
  --output "rdjson=$dir/review.rdjson" \
  --output "${REVIEW_LOG:-text}=-" \
  "$@" </dev/null
status=$?

# A change without any file is no review: the base may be wrong. REVIEW_EMPTY=ok takes it for one.
if [ "$status" -eq 0 ] && [ "${REVIEW_EMPTY:-}" != ok ] && grep -q '^ "hunks": \[\]' "$dir/review.json"; then
  echo "review: the change is empty: there was nothing to review; is the base right?" >&2
  exit 5
fi

case $status in
  0 | 1) ;;
  2) echo "review: the review was not started: see the line above" >&2 ;;
  3) echo "review: the model gave no answer: nothing was reviewed" >&2 ;;
  4) echo "review: a limit was reached: only a part was reviewed" >&2 ;;
  5) echo "review: the review is not complete: see the report" >&2 ;;
  *) echo "review: codelet ended with status $status" >&2 ;;
esac
exit "$status"
