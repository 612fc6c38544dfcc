"""Record the sources of each setting, its accepted values, and which of two sources wins, in a version of codelet.

Every setting is tried from every source with good and bad values, and from two sources together; `--help` is kept too.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_VALUES = [*"1 0 7 100 -3 1.5 true off on auto ask native a,b 5,30,15,50".split(), "", "x" * 40]
# Runs in the version that is looked at.
_PROBE = """
import json, sys
from pathlib import Path
from codelet.errors import CodeletError
from codelet.settings import SETTINGS, Settings, load_settings

home, workspace, values = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
user, project = home / ".config/codelet/config.toml", workspace / ".codelet/config.toml"

def loaded(key, **sources):
    environment = {"HOME": str(home)}
    for path in (user, project):
        path.unlink(missing_ok=True)
    if "variable" in sources:
        environment[f"CODELET_{key.upper()}"] = sources["variable"]
    for name, path in (("user", user), ("project", project)):
        if name in sources:
            path.write_text(f"{key} = {json.dumps(sources[name])}\\n")
    flags = {key: sources["flag"]} if "flag" in sources else {}
    try:
        found = load_settings(flags, workspace=workspace, trust=True, environment=environment)
    except CodeletError as error:
        return "error: " + str(error).replace(str(home), "HOME").replace(str(workspace), "WORKSPACE")
    return repr(getattr(found, key))

result = {"defaults": {key: repr(getattr(Settings(), key)) for key in SETTINGS}}
for key in SETTINGS:
    rows = {}
    for source in ("user", "project", "variable", "flag"):
        for value in values:
            rows[f"{source} {value!r}"] = loaded(key, **{source: value})
    good = [value for value in values if not loaded(key, flag=value).startswith("error")][:2]
    if len(good) == 2:
        for low, high in (("user", "project"), ("user", "variable"), ("project", "variable"), ("variable", "flag")):
            rows[f"{low} and {high}"] = loaded(key, **{low: good[0], high: good[1]})
    result[key] = rows
json.dump(result, sys.stdout)
"""


def main(command: Sequence[str], root: Path, names: Sequence[str]) -> dict[str, Any]:
    """The settings' behaviour, and the lines of `--help`."""
    with tempfile.TemporaryDirectory() as folder:
        home, workspace = Path(folder, "home"), Path(folder, "workspace")
        (home / ".config/codelet").mkdir(parents=True)
        (workspace / ".codelet").mkdir(parents=True)
        probe = [*command, "-c", _PROBE, str(home), str(workspace), json.dumps(_VALUES)]
        environment = {"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "COLUMNS": "100"}
        found = subprocess.run(probe, env=environment, capture_output=True, text=True, check=True)
        helped = [*command, "-m", "codelet", "--help"]
        shown = subprocess.run(helped, env=environment, cwd=workspace, capture_output=True, text=True, check=True)
    return {"settings": json.loads(found.stdout), "help": shown.stdout.splitlines()}
