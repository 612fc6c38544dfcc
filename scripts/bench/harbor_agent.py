"""Codelet as an agent of Harbor, which runs Terminal-Bench and other suites in containers (Python 3.12 and newer).

Use: pip install harbor; from the root of this repository:
     harbor run -d terminal-bench@2.0 --agent scripts.bench.harbor_agent:Codelet -m anthropic/MODEL

Each trial installs codelet in the task's container, gives it the instruction as one prompt, with every command
allowed, and exports the session; the trajectory in ATIF is made from that export. `--ak package=FILE.whl` installs
a wheel of yours instead of the released version.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from harbor.agents.agent_auth_resolution import ModelConnectionSpec, with_canonical_provider_envs
from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext
from harbor.models.trial.paths import EnvironmentPaths

from scripts.bench.atif import trajectory

EXPORT = "codelet.json"
ON_PATH = 'export PATH="$HOME/.local/bin:$PATH"; '


class Codelet(BaseInstalledAgent):
    """One codelet run for each trial."""

    capabilities = AgentCapabilities(base_url=True, atif=True, mcp_servers=True)
    MODEL_CONNECTION = ModelConnectionSpec()

    def __init__(self, logs_dir: Path, *arguments: object, package: str = "codelet-repl", **options: object) -> None:
        self._package = package
        super().__init__(logs_dir, *arguments, **options)

    @staticmethod
    def name() -> str:
        return "codelet"

    def get_version_command(self) -> str:
        return ON_PATH + "codelet --version"

    def parse_version(self, stdout: str) -> str:
        return stdout.split()[-1]

    async def install(self, environment: BaseEnvironment) -> None:
        await self.ensure_system_dependencies(environment, ("curl", "bash", "git"))
        package = self._package
        if Path(package).is_file():
            uploaded = f"/tmp/{Path(package).name}"
            await environment.upload_file(package, uploaded)
            package = uploaded
        elif self._version:
            package += f"=={self._version}"
        command = (
            "set -e; command -v uv >/dev/null || curl -LsSf https://astral.sh/uv/install.sh | sh; "
            f"{ON_PATH}uv tool install --python 3.12 {shlex.quote(package)}"
        )
        await self.exec_as_agent(environment, command=command)

    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        """Answer the instruction; a status other than 0 is the trial's error, as Harbor words it."""
        logs = EnvironmentPaths.agent_dir
        connection = self.model_connection
        command = ["codelet", "-p", instruction, "--mode", "auto", "--yes"]
        command += ["--export", f"{logs}/{EXPORT}", "--export-archive", "--force"]
        if self.model_name:
            command += ["--model", self.model_name]
        if connection.execution_base_url:
            command += ["--api-base", connection.execution_base_url]
        before = ON_PATH
        if self.mcp_servers:
            servers: dict[str, dict[str, object]] = {}
            for server in self.mcp_servers:
                given = {name: getattr(server, name, None) for name in ("command", "args", "url")}
                servers[server.name] = {name: value for name, value in given.items() if value}
            before += f"printf %s {shlex.quote(json.dumps({'mcpServers': servers}))} > /tmp/mcp.json; "
            command += ["--mcp", "/tmp/mcp.json"]
        await self.exec_as_agent(
            environment,
            command=f"{before}{shlex.join(command)} </dev/null 2>&1 | tee {logs}/codelet.txt",
            env={**with_canonical_provider_envs(connection).env, **connection.env},
        )

    def populate_context_post_run(self, context: AgentContext) -> None:
        """Write the trajectory and count the tokens, also of a run that failed: codelet exports after each step."""
        try:
            export = json.loads((self.logs_dir / EXPORT).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            self.logger.warning(f"codelet left no readable export: {error}")
            return
        made = trajectory(export, self.version() or "unknown")
        (self.logs_dir / "trajectory.json").write_text(json.dumps(made, indent=2), encoding="utf-8")
        usage = export["token_usage"]
        context.n_input_tokens, context.n_output_tokens = usage["total_input"], usage["output"]
        context.n_cache_tokens, context.cost_usd = usage["cache_read"], usage["cost"]
