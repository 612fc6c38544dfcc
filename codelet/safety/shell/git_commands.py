"""The git commands that are read-only, each with its permitted options: data to review.

A plain git runs what the repository's configuration names: fsmonitor, filters, external diffs, text converters. In the
read-only sandbox these have no effect, and without one every git asks. What stays out although it looks harmless: `-c`,
`--git-dir`, `--exec-path` and `-p` before the command (they choose what is run or read), `--ext-diff`, `--textconv`,
`--show-signature`, `--remerge-diff`, `--output`, `--no-index`, `-O FILE`; `config --list`, which shows credentials;
`remote show`, `ls-remote` and `fetch`, which reach the network; `submodule`, `archive`, `bundle`, `fsck`, which run or
write.
"""

from __future__ import annotations

from collections.abc import Sequence

from codelet.safety.shell.program_arguments import Program
from codelet.system.git.hardening import OPTIONS

_FORMAT = (
    "--oneline --abbrev-commit --no-abbrev-commit --format:text --pretty?text --date:text --relative-date "
    "--encoding:text --expand-tabs?number --no-expand-tabs --notes?text --no-notes --decorate?text --no-decorate "
    "--decorate-refs:text --decorate-refs-exclude:text --color?text --no-color --abbrev?number -z"
)
_DIFF = (
    "-p -u --patch -s --no-patch -U:number --unified:number --raw --patch-with-raw --patch-with-stat --minimal "
    "--patience --histogram --diff-algorithm:text --anchored:text --stat?text --numstat --shortstat --dirstat?text "
    "--cumulative --summary --name-only --name-status --full-index --color-words?text --word-diff?text "
    "--word-diff-regex:text --color-moved?text --no-color-moved -M?text --find-renames?text --no-renames -C?text "
    "--find-copies?text --find-copies-harder -D -B?text --diff-filter:text -S:text -G:text --pickaxe-all "
    "--pickaxe-regex --find-object:rev -R -a --text --ignore-cr-at-eol --ignore-space-at-eol -b "
    "--ignore-space-change -w --ignore-all-space --ignore-blank-lines --inter-hunk-context:number -W "
    "--function-context --exit-code --quiet --relative?text --no-prefix --src-prefix:text --dst-prefix:text "
    "--line-prefix:text --indent-heuristic --no-indent-heuristic --no-ext-diff --no-textconv --binary "
    "--compact-summary --cc -c -m --check -1 -2 -3 -0 --merge-base"
)
_HISTORY = (
    "-NUM -n:number --max-count:number --skip:number --since:text --after:text --until:text --before:text "
    "--author:text --committer:text --grep:text --grep-reflog:text --all-match --invert-grep -i --regexp-ignore-case "
    "--basic-regexp -E --extended-regexp -F --fixed-strings -P --perl-regexp --merges --no-merges "
    "--min-parents:number --max-parents:number --first-parent --not --all --branches?text --tags?text --remotes?text "
    "--glob:text --exclude:text --reflog --no-walk?text --cherry-pick --cherry-mark --cherry --left-right "
    "--left-only --right-only --boundary --simplify-by-decoration --full-history --dense --sparse --simplify-merges "
    "--ancestry-path?rev --show-pulls --date-order --author-date-order --topo-order --reverse --graph --no-graph "
    "--parents --children --show-linear-break?text -g --walk-reflogs --follow --full-diff --log-size -L:text "
    "--source --count"
)
_LIST = (
    "--contains?rev --no-contains?rev --merged?rev --no-merged?rev --points-at?rev --sort:text "
    "--format:text --color?text --no-color --column?text --no-column -i --ignore-case"
)

READ_ONLY_GIT: dict[str, Program] = {
    "status": Program(
        "-s --short -b --branch --no-branch --show-stash --porcelain?text --long -u?text "
        "--untracked-files?text --ignored?text -z --column?text --no-column --ahead-behind "
        "--no-ahead-behind --renames --no-renames --find-renames?text",
        "rev*",
    ),
    "log": Program(f"{_FORMAT} {_DIFF} {_HISTORY}", "rev*"),
    "show": Program(f"{_FORMAT} {_DIFF} {_HISTORY}", "rev*"),
    "shortlog": Program(
        f"-s --summary -n --numbered -e --email -c --committer -w?text --group:text {_HISTORY}",
        "rev*",
    ),
    "diff": Program(f"--cached --staged {_DIFF} --color?text --no-color -z --abbrev?number -NUM", "rev*"),
    "blame": Program(
        "-b --root --show-stats -L:text -l -t -s -e --show-email -w -p --porcelain --line-porcelain "
        "--date:text -M?text -C?text -f --show-name -n --show-number --score-debug --abbrev:number "
        "--color-lines --color-by-age --ignore-rev:rev --no-progress --first-parent --since:text --reverse",
        "rev*",
    ),
    "rev-parse": Program(
        "--show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-git-dir "
        "--is-inside-work-tree --is-bare-repository --is-shallow-repository --show-superproject-working-tree "
        "--abbrev-ref?text --symbolic --symbolic-full-name --short?number --verify -q --quiet --all --branches?text "
        "--tags?text --remotes?text --revs-only --no-revs --flags --no-flags --sq --show-object-format?text",
        "rev*",
    ),
    "rev-list": Program(f"{_FORMAT} {_HISTORY} --objects --disk-usage?text --timestamp", "rev*"),
    "ls-files": Program(
        "-c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u --unmerged -k "
        "--killed --directory --no-empty-directory -z -t -v -f --full-name --abbrev?number "
        "--exclude-standard -x:text --exclude:text --error-unmatch --deduplicate --eol --format:text",
        "rev*",
    ),
    "ls-tree": Program(
        "-d -r -t -l --long -z --name-only --name-status --object-only --full-name --full-tree "
        "--abbrev?number --format:text",
        "rev*",
    ),
    "cat-file": Program("-t -s -e -p --allow-unknown-type", "text rev"),
    "range-diff": Program(
        "--creation-factor:number --no-dual-color --left-only --right-only -s --no-patch --stat?text "
        "--color?text --no-color",
        "rev*",
    ),
    "describe": Program(
        "--all --tags --contains --abbrev?number --candidates:number --exact-match --debug --long "
        "--match:text --exclude:text --always --first-parent",
        "rev*",
    ),
    "name-rev": Program("--tags --refs:text --exclude:text --all --name-only --no-undefined --always", "rev*"),
    "merge-base": Program("-a --all --octopus --independent --is-ancestor --fork-point", "rev*"),
    "branch": Program(
        f"-a --all -r --remotes -l --list -v -vv --verbose -q --quiet --show-current --abbrev?number "
        f"--no-abbrev {_LIST}",
        "text*",
    ),
    "tag": Program(f"-l --list -n?number {_LIST}", "text*"),
    "for-each-ref": Program(f"--count:number {_LIST}", "text*"),
    "show-ref": Program(
        "--head --heads --branches --tags -d --dereference -s --hash?number --verify --abbrev?number -q --quiet",
        "text*",
    ),
    "symbolic-ref": Program("-q --quiet --short", "rev"),
    "reflog": Program(f"{_FORMAT} {_HISTORY} -p --stat?text --name-only --name-status", "rev*"),
    "stash": Program(f"{_FORMAT} {_DIFF} -NUM -n:number", "rev*"),
    "remote": Program("-v --verbose --all --push", "text*"),
    "worktree": Program("--porcelain -v --verbose -z", "text*"),
    "config": Program(
        "--get --get-all --local --global --type:text --bool --int -z --name-only --show-origin --show-scope",
        "text",
    ),
    "grep": Program(
        "-i --ignore-case -w --word-regexp -v --invert-match -h -H --full-name -E --extended-regexp -G "
        "--basic-regexp -P --perl-regexp -F --fixed-strings -n --line-number --column -l --files-with-matches "
        "--name-only -L --files-without-match -z --null -o --only-matching -c --count --color?text --no-color "
        "--break --heading -p --show-function -A:number --after-context:number -B:number --before-context:number "
        "-C:number --context:number -W --function-context -m:number --max-count:number --threads:number "
        "--max-depth:number -r --recursive --no-recursive -e:text --and --or --not --all-match -q --quiet -a --text "
        "-I --cached -NUM",
        "text!-e rev*",
    ),
    "count-objects": Program("-v --verbose -H --human-readable"),
    "check-ignore": Program("-q --quiet -v --verbose -z -n --non-matching --no-index", "rev*"),
    "check-attr": Program("-a --all --cached -z", "rev*"),
    "var": Program("", "text"),
    "version": Program("--build-options"),
}

PLAIN_OPTIONS = frozenset((*OPTIONS, "--literal-pathspecs", "--no-replace-objects"))
"""What may stand before the git command, besides `-C DIR`."""


def split_git(words: Sequence[str]) -> tuple[int, str | None]:
    """The index of the git command in the words after `git`, and its name; None where there is none."""
    index = 0
    while index < len(words) and (words[index] in PLAIN_OPTIONS or words[index] == "-C"):
        index += 1 + (words[index] == "-C")
    return min(index, len(words)), (words[index] if index < len(words) else None)


STASH_LISTS = ("list", "show")
CONFIG_SECTIONS = ("user.", "core.", "init.", "branch.", "remote.", "pull.", "push.", "color.", "diff.", "merge.")
"""Configuration that holds names and habits; the rest may hold credentials or headers."""

GIT_VARIABLES = ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT", "GIT_DEFAULT_BRANCH", "GIT_EDITOR", "GIT_PAGER")
