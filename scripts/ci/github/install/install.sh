#!/usr/bin/env bash
# Installs codelet from the action's own checkout: its dependencies by their hashes into a virtual environment that a
# cache keeps, codelet itself as it lies there. Nothing is built, so nothing unpinned is fetched.
set -eu
root=$(cd "$GITHUB_ACTION_PATH/../../../.." && pwd)
if [ "$1" = place ]; then
  # The versions of Python and of the dependencies decide whether a kept environment fits.
  digest=$({ python3 -I -VV; uname -sm; cat "$root/requirements.txt"; } | sha256sum | cut -c1-40)
  {
    echo "packages=$RUNNER_TEMP/codelet-packages"
    echo "program=$RUNNER_TEMP/codelet-program"
    echo "key=codelet-$digest"
  } >>"$GITHUB_OUTPUT"
  exit
fi
if [ ! -x "$PACKAGES/bin/python" ] || [ ! -f "$PACKAGES/complete" ]; then
  rm -rf -- "$PACKAGES"
  python3 -I -m venv "$PACKAGES"
  "$PACKAGES/bin/python" -I -m pip install --quiet --no-input --require-hashes --only-binary :all: -r "$root/requirements.txt"
  touch "$PACKAGES/complete"
fi
# -P: Python looks for no modules in the repository under review.
printf '#!/bin/sh\nPYTHONPATH=%s exec %s -P -m codelet "$@"\n' "'$root'" "'$PACKAGES/bin/python'" >"$PROGRAM"
chmod +x "$PROGRAM"
"$PROGRAM" --version
