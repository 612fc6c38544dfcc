"""The names that decide: secret files, protected files, delicate files. Data that a person can review."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

from codelet.record import Record

# Files that hold keys, tokens or passwords; one pattern for the last component, lower case; `*` is any text.
SECRET_FILES = (
    ".env", ".env.*", "*.env", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx",
    "*.ppk", "*.asc", "*.gpg", "*.age", "*.ovpn", "*.tfstate", "*.tfstate.backup", "*.tfvars",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*_rsa", "*_ed25519", "ssh_host_*_key", "ssh_host_key",
    ".netrc", "_netrc", ".pgpass", ".my.cnf", ".mylogin.cnf", ".npmrc", ".yarnrc.yml", ".pypirc", ".htpasswd",
    ".git-credentials", ".dockercfg", ".dockerconfigjson", ".s3cfg", ".boto", ".vault-token", ".terraformrc",
    "credentials", "credentials.*", "credential.*", "*credentials*.json", "client_secret*.json",
    "service-account*.json", "service_account*.json", "secret", "secrets", "secret.*", "secrets.*",
    "*.secret",
    "*.secrets", "kubeconfig", "*.kubeconfig", "shadow", "gshadow", "master.key", ".vault_pass*",
    "vault_pass*",
    "token", "token.*", "*.token", "tokens.json", ".pw", "passwords.*", "password.*", "passwd.*",
    ".bash_history", ".zsh_history", ".python_history", ".psql_history", ".mysql_history",
    ".node_repl_history",
    "auth.json", "secring.*", ".cargo/credentials*",
    ".env-*", ".env_*", "*.env.json", "*.env.yml", "*.env.yaml", "*.env.local", ".dev.vars", ".dev.vars.*",
    "*.p8", "*.pkcs12", "*.jceks", "*.bks", "*.keytab", "*.kdb", "id_xmss*", "*.tfstate.*", "*.tfvars.json",
    "terraform.rc", "kubeconfig.*", "kubeconfig-*", "*service-account*.json", "*service_account*.json",
    "*serviceaccount*.json", "*firebase-adminsdk*.json", "gha-creds-*.json", "*-key.json", "*_key.json",
    "*_credentials", "*-credentials", "*credentials*.csv", "*credentials*.yml", "*credentials*.yaml",
    "*accesskeys*.csv", "rootkey.csv", ".secrets.*", "*-secret.yml", "*-secret.yaml", "*-secrets.yml",
    "*-secrets.yaml", "*_secret.yml", "*_secret.yaml", "*_secrets.yml", "*_secrets.yaml", "*-secret.json",
    "*-secrets.json", "*_secret.json", "*_secrets.json", "*_token.json", "*-token.json", "private_key",
    "private-key", "privatekey", "private_key.txt", "private-key.txt", "privatekey.txt", "private.key.txt",
    "local.settings.json", "settings-security.xml", "keystore.properties", "pip.conf", "pip.ini", "pgpass.conf",
    "rclone.conf", ".databrickscfg", ".authinfo", ".authinfo.*", ".msmtprc", ".fetchmailrc", ".renviron",
    ".ftpconfig", "sftp-config.json", ".claude.json", "wallet.dat", "wp-config.php", "htpasswd", ".*_history",
    "api_key", ".api_key", "api_key.txt", "apikey", ".apikey", "apikey.txt", "access_token", ".access_token",
    "access_token.txt", "github_token", ".github_token", "github_token.txt", "client_secret",
    "client_secret.txt", "secret_key", ".secret_key", "secret_key.txt", ".sentryclirc", ".erlang.cookie",
    "kaggle.json", ".smbcredentials", ".passwd-s3fs", ".wakatime.cfg", "ngrok.yml",
)  # fmt: skip
# What programs append to the name of a file that they copy before they change it.
COPIES = ("~", ".bak", ".backup", ".old", ".orig", ".save", ".swp", ".swo", ".tmp")
# Files that hold keys by where they stand: the last components, lower case.
SECRET_PLACES = (
    ".config/gh/hosts.yml", ".config/hub", ".m2/settings.xml", ".gradle/gradle.properties",
    ".config/glab-cli/config.yml", ".bundle/config",
)  # fmt: skip
# What those patterns take in though it holds no secret.
NOT_SECRET = (
    ".env.example", ".env.sample", ".env.template", ".env.dist", "*.env.example", ".env-example", ".env-sample",
    ".env_example", ".env_sample", ".secrets.baseline", "*.pub", "*.asc.sig",
    "token.py", "tokens.py", "token.ts", "token.js", "token.go", "token.rs", "token.c", "token.h",
    "token.java",
    "credentials.py", "credentials.ts", "credentials.go", "credentials.rs", "credentials.md", "secrets.py",
    "secrets.ts", "secrets.go", "secrets.rs", "secrets.md", "secret.py", "secret.ts", "secret.go",
    "secret.rs",
    "password.py", "passwords.py", "password.ts", "password.go", "password.rs", "passwd.c", "token.md",
    "credential.py", "credential.go", "credential.c", "credential.h", "secret.c", "secret.h", "secrets.c",
)  # fmt: skip
# Folders whose every file counts as secret.
SECRET_FOLDERS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".gcloud", ".kube", ".docker", ".password-store", ".vault", "secrets",
    ".secrets", ".credentials",
)  # fmt: skip

# Folders and files, at any depth, that nothing the model does may change: the next program to start would
# run what stands there, or the policy itself would change.
PROTECTED_FOLDERS = {
    ".git": "belongs to git, which runs what stands in it",
    ".hg": "belongs to Mercurial, which runs what stands in it",
    ".svn": "belongs to Subversion",
    ".codelet": "holds codelet's own settings",
    ".claude": "holds another agent's settings",
    ".codex": "holds another agent's settings",
    ".gemini": "holds another agent's settings",
    ".cursor": "holds another agent's settings",
    ".windsurf": "holds another agent's settings",
    ".opencode": "holds another agent's settings",
    ".vibe": "holds another agent's settings",
    ".continue": "holds another agent's settings",
    ".roo": "holds another agent's settings",
    ".cline": "holds another agent's settings",
    ".kiro": "holds another agent's settings",
    ".vscode": "holds an editor's settings, which can run commands",
    ".idea": "holds an editor's settings, which can run commands",
    ".zed": "holds an editor's settings, which can run commands",
    ".ssh": "decides who may log in",
    ".gnupg": "holds keys",
}
PROTECTED_FILES = {
    ".git": "belongs to git, which runs what stands in it",
    ".mcp.json": "starts another agent's servers",
    ".aider.conf.yml": "holds another agent's settings",
    ".codelet.toml": "holds codelet's own settings",
    ".gitconfig": "belongs to git, which runs what stands in it",
    "opencode.json": "holds another agent's settings",
    "opencode.jsonc": "holds another agent's settings",
}

# Names that a person must see: what stands there acts later, on another agent, on CI, or on the next command.
DELICATE_FILES = (
    "claude.md", "claude.local.md", "agents.md", "agents.override.md", "gemini.md", "copilot-instructions.md",
    ".cursorrules", ".windsurfrules", ".clinerules", ".goosehints", "conventions.md", "skill.md",
    ".gitattributes", ".gitmodules", "mcp.json", ".gitlab-ci.yml", ".travis.yml", "appveyor.yml",
    ".appveyor.yml", "azure-pipelines.yml",
    "bitbucket-pipelines.yml", "jenkinsfile", ".drone.yml", "cloudbuild.yaml", ".pre-commit-config.yaml",
    ".pre-commit-hooks.yaml", ".lintstagedrc*", ".huskyrc*", "codeowners",
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc",
    ".zshenv",
    ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", "config.fish",
    ".xprofile", ".xinitrc", ".xsession", ".pam_environment", ".envrc", ".npmrc", ".yarnrc", ".yarnrc.yml",
    ".pnpmfile.cjs", ".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".gdbinit", ".lldbinit", ".emacs",
    ".dir-locals.el",
    ".tmux.conf", ".screenrc", ".wgetrc", ".curlrc", ".ripgreprc", "sitecustomize.py", "usercustomize.py",
    "*.pth", ".pythonrc", ".rprofile", ".irbrc", ".pryrc", ".mise.toml", "mise.toml", ".tool-versions",
    "devcontainer.json", ".devcontainer.json", "*.code-workspace",
    # CI
    ".woodpecker.yml", ".woodpecker.yaml", ".build.yml", ".cirrus.yml", ".cirrus.star", ".gitlab-ci.yaml",
    "azure-pipelines.yaml", "cloudbuild.yml", "buildspec.yml", "buildspec.yaml", "bitrise.yml", "wercker.yml",
    "screwdriver.yaml", ".drone.yaml", ".drone.jsonnet", "codefresh.yml", ".vsts-ci.yml", "jenkinsfile.*",
    ".gitpod.yml", ".gitpod.dockerfile", "renovate.json", ".renovaterc", ".renovaterc.json", "dependabot.yml",
    # Hooks
    "lefthook*.yml", "lefthook*.yaml", "lefthook*.toml", "lefthook*.json", ".lefthook*", ".overcommit.yml",
    ".simple-git-hooks.*", "simple-git-hooks.*", "lint-staged.config.*", ".hooksrc", ".pre-commit-config.yml",
    # Agents
    "qwen.md", "crush.json", ".crush.json", "crush.md", ".opencode.json", ".opencode.jsonc", "warp.md", ".rules",
    "review.md", ".roomodes", ".goosehints.*", ".junie.md", "jules.md", "amp.md", ".aiderrules", "copilot.md",
    # Editors and shells
    ".lazy.lua", ".lvimrc", ".nvim.*", "*.sublime-project", ".projectile", ".pdbrc", ".pdbrc.py", ".ghci", ".ocamlinit",
    ".sqliterc", ".psqlrc", ".guile", ".gdbinit.*", ".pythonstartup", ".ipython", ".dir-locals-2.el",
    # Builds
    ".bazelrc", ".bazeliskrc", ".buckconfig", ".pnp.cjs", ".pnp.loader.mjs", "bunfig.toml", "mise.*.toml",
    ".mise.*.toml", ".sbtopts", ".jvmopts", "gradle-wrapper.properties", "maven-wrapper.properties",
    "init.gradle", "init.gradle.kts", ".rtx.toml", ".direnvrc",
)  # fmt: skip
DELICATE_FOLDERS = (
    ".github/workflows", ".github/actions", ".github/instructions", ".github/prompts", ".github/agents",
    ".githooks", ".hooks", ".husky", ".circleci", ".gitlab", ".buildkite", ".woodpecker", ".drone",
    ".forgejo", ".gitea", ".devcontainer", ".agents", ".config/fish", ".config/systemd", ".config/autostart",
    ".semaphore", ".builds", ".tekton", ".teamcity", ".harness", ".azuredevops", ".azure-pipelines", ".buildbot",
    ".qwen", ".amp", ".junie", ".kilocode", ".trae", ".augment", ".clinerules", ".goose", ".openhands", ".cody",
    ".tabnine", ".codeium", ".factory", ".warp", ".agent", ".crush", ".iflow", ".zencoder", ".copilot", ".aider",
    ".idx", ".nvim", ".helix", ".fleet", ".vim", ".mvn", ".yarn/releases", ".yarn/plugins", ".cargo", ".mise",
    ".config/mise", ".git-hooks", ".overcommit", ".lefthook", "gradle/wrapper", ".gradle/init.d",
)  # fmt: skip


# Ordinary files of a project that run at the next build, test or start: written unasked, and named after the turn.
RUN_LATER = (
    "makefile", "gnumakefile", "justfile", "taskfile.yml", "taskfile.yaml", "package.json", "conftest.py",
    "setup.py", "pyproject.toml", "noxfile.py", "tox.ini", "tasks.py", "fabfile.py", "dodo.py", "sconstruct",
    "wscript", "dockerfile", "dockerfile.*", "containerfile", "docker-compose*.yml", "docker-compose*.yaml",
    "compose.yml", "compose.yaml", "vagrantfile", "rakefile", "gemfile", "guardfile", "fastfile", "podfile",
    "procfile", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "pom.xml",
    "build.sbt", "build.xml", "build.rs", "build.zig", "cmakelists.txt", "meson.build", "configure", "configure.ac",
    "gulpfile.*", "gruntfile.*", "*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts", ".eslintrc.js",
    ".eslintrc.cjs", "composer.json", "mix.exs", "flake.nix", "shell.nix", "default.nix", "build.bazel",
    "module.bazel", "*.bzl", "makefile.am", "*.mk", "*.targets", "directory.build.props", "deno.json", "turbo.json",
    "nx.json", "skaffold.yaml", "tiltfile", "earthfile", "*.service",
)  # fmt: skip


class _Patterns(Record, kw_only=True):
    """Patterns by kind: whole names, what begins a name, what ends one, and what begins, stands in and ends the others.

    In no name do pieces of one pattern share letters, unless that name is listed itself.
    No regular expression: to compile one would cost each start 2 ms.
    """

    names: frozenset[str]
    begins: tuple[str, ...]
    ends: tuple[str, ...]
    others: tuple[tuple[str, str, str], ...]


@cache
def _parsed(patterns: tuple[str, ...]) -> _Patterns:
    names, begins, ends, others = [], [], [], []
    for pattern in patterns:
        match pattern.split("*"):
            case [name]:
                names.append(name)
            case [first, ""]:
                begins.append(first)
            case ["", last]:
                ends.append(last)
            case [first, last]:
                others.append((first, "", last))
            case pieces:
                first, inside, last = pieces
                others.append((first, inside, last))
    return _Patterns(names=frozenset(names), begins=tuple(begins), ends=tuple(ends), others=tuple(others))


def _any(patterns: tuple[str, ...], spelled: Iterable[str]) -> bool:
    """Whether a name is of one of the patterns."""
    known = _parsed(patterns)
    return any(
        name in known.names
        or name.startswith(known.begins)
        or name.endswith(known.ends)
        or any(
            name.startswith(first) and name.endswith(last) and inside in name for first, inside, last in known.others
        )
        for name in spelled
    )


def _original(name: str) -> str:
    """The name without what programs append to copies."""
    while name.endswith(COPIES):
        name = name.removesuffix(next(copy for copy in COPIES if name.endswith(copy)))
    return name


def _components(path: str) -> list[str]:
    # Case is folded because some file systems fold it: .GIT is .git there.
    return [part.casefold() for part in path.split("/") if part not in ("", ".")]


@lru_cache(maxsize=1 << 13)  # a line of several searches asks for each file of the tree several times
def secret(path: str) -> str | None:
    """Why the content of `path` (relative inside the workspace) may be a secret, or None."""
    parts = _components(path)
    if not parts:
        return None
    for folder in parts:
        if folder in SECRET_FOLDERS:
            return f"stands in {folder}, a place for secrets"
    if any("/".join(parts[-place.count("/") - 1 :]) == place for place in SECRET_PLACES):
        return "holds a program's credentials"
    original = _original(parts[-1])
    spelled = (parts[-1], original, original.removeprefix("."))
    if _any(SECRET_FILES, spelled) and not _any(NOT_SECRET, spelled[:2]):
        return "has the name of a file with secrets"
    if ".git" in parts[:-1] and (original == "config" or original.startswith("config.")):
        return "may hold credentials of a remote"
    return None


def protected(path: str) -> str | None:
    """Why nothing may write at `path`, or None."""
    parts = _components(path)
    for folder in parts:
        # Windows and macOS drop trailing dots and spaces and some invisible letters from a name.
        if folder.rstrip(". ") in PROTECTED_FOLDERS:
            return PROTECTED_FOLDERS[folder.rstrip(". ")]
    if "/.config/codelet/" in "/" + "/".join(parts) + "/":
        return PROTECTED_FOLDERS[".codelet"]
    return PROTECTED_FILES.get(parts[-1].rstrip(". ")) if parts else None


def delicate(path: str) -> str | None:
    """Why a person must see a write at `path`, or None."""
    parts = _components(path)
    if not parts:
        return None
    if _any(DELICATE_FILES, parts[-1:]):
        return "acts later, on an agent, on CI or on a program that starts here"
    joined = "/" + "/".join(parts) + "/"
    for folder in DELICATE_FOLDERS:
        if f"/{folder}/" in joined:
            return f"stands in {folder}, whose files act later"
    return None


def runs_later(name: str) -> bool:
    """Whether a file of this name runs at the next build, test or start of a project."""
    return _any(RUN_LATER, [name.casefold()])
