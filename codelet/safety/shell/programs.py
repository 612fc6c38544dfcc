"""The programs that only read, each with the options and operands that keep it so: data to review.

How to read a line: see `program_arguments`. An option that is not listed asks, so what writes (`sort -o`), runs
(`rg --pre`, `find -exec`), reads another file (`wc --files0-from`, `grep -f`), follows links out (`ls -L` in
a tree), reaches the network (`hostname -i`) or never ends (`tail -f`) is kept out by not being there.
The programs read standard input, which is empty, or what is piped to them, where they have no operand.
"""

from __future__ import annotations

from codelet.safety.shell.program_arguments import Program

_HASH = Program("-b --binary -t --text --tag -z --zero", "read*")
_GREP = (
    "-i --ignore-case --no-ignore-case -v --invert-match -w --word-regexp -x --line-regexp -c --count -l "
    "--files-with-matches -L --files-without-match -n --line-number -H --with-filename -h --no-filename -o "
    "--only-matching -q --quiet --silent -s --no-messages -b --byte-offset -a --text -I -Z --null -z --null-data -T "
    "--initial-tab -E --extended-regexp -F --fixed-strings -G --basic-regexp -P --perl-regexp -r --recursive -R "
    "--dereference-recursive --line-buffered -e:text --regexp:text -m:number --max-count:number -A:number "
    "--after-context:number -B:number --before-context:number -C:number --context:number --color?text --colour?text "
    "--include:text --exclude:text --exclude-dir:text --label:text --binary-files:text -NUM"
)
_GREP_PROGRAM = Program(_GREP, "text!-e,--regexp read*")
_AWK = Program("-F:text --field-separator:text -v:text --assign:text", "text read*", language=True, permutes=False)

READ_ONLY_PROGRAMS: dict[str, Program] = {
    # Names and sizes of files
    "ls": Program(
        "-a --all -A --almost-all -l -h --human-readable -R --recursive -t -r --reverse -S -1 -d --directory -F "
        "--classify?text -p --file-type -i --inode -s --size -n --numeric-uid-gid -o -g -G --no-group -k -m -x -C -c "
        "-u -U -X -v -b --escape -q -Q --quote-name -N --literal -f -B --ignore-backups -Z --full-time --author "
        "--group-directories-first --si --color?text --time:text --time-style:text --sort:text --format:text "
        "--hide:text --ignore:text -I:text --indicator-style:text -w:number -T:number --block-size:text "
        "--hyperlink?text --quoting-style:text",
        "list*",
    ),
    "tree": Program(
        "-a -d -f -i -s -h -D -C -n -p -u -g -t -c -r -v -U -J -X -N -Q -q -A -S -F --du --si --prune "
        "--dirsfirst --filesfirst --noreport --inodes --device --gitignore --ignore-case --matchdirs "
        "-L:number -I:text -P:text --filelimit:number --timefmt:text --charset:text --sort:text",
        "list*",
        attaches=False,
    ),
    "stat": Program("-f --file-system -t --terse -c:text --format:text --printf:text", "list*"),
    "du": Program(
        "-a --all -s --summarize -h --human-readable -c --total -b --bytes -k -m -0 --null --apparent-size -S "
        "--separate-dirs -x --one-file-system --inodes --si -l -P -d:number --max-depth:number -B:text "
        "--block-size:text -t:text --threshold:text --exclude:text --time?text --time-style:text",
        "list*",
    ),
    "df": Program(
        "-a -h -H -i -k -l -P -T --all --human-readable --si --inodes --local --portability --print-type "
        "--total -t:text --type:text -x:text --exclude-type:text -B:text --block-size:text --output?text",
        "read*",
    ),
    "basename": Program("-a --multiple -z --zero -s:text --suffix:text", "text*"),
    "dirname": Program("-z --zero", "text*"),
    "realpath": Program(
        "-e --canonicalize-existing -m --canonicalize-missing -L --logical -P --physical -q --quiet -s "
        "--strip --no-symlinks -z --zero --relative-to:list --relative-base:list",
        "list*",
    ),
    "readlink": Program(
        "-f --canonicalize -e --canonicalize-existing -m --canonicalize-missing -n --no-newline -q "
        "--quiet -s --silent -v --verbose -z --zero",
        "list*",
    ),
    "find": Program(raw=True),
    "test": Program(raw=True),
    "pathchk": Program("-p -P --portability", "text*"),
    # Content of files
    "cat": Program(
        "-n --number -b --number-nonblank -s --squeeze-blank -A --show-all -e -E --show-ends -t -T "
        "--show-tabs -u -v --show-nonprinting",
        "read*",
    ),
    "tac": Program("-b --before -r --regex -s:text --separator:text", "read*"),
    "rev": Program("", "read*"),
    "nl": Program(
        "-p --no-renumber -b:text --body-numbering:text -d:text -f:text -h:text -i:number -l:number -n:text "
        "--number-format:text -s:text --number-separator:text -v:number -w:number --number-width:number",
        "read*",
    ),
    "head": Program(
        "-n:number --lines:number -c:number --bytes:number -q --quiet --silent -v --verbose -z --zero-terminated -NUM",
        "read*",
    ),
    "tail": Program(
        "-n:number --lines:number -c:number --bytes:number -q --quiet --silent -v --verbose -z --zero-terminated -NUM",
        "read*",
    ),
    "less": Program("-N -S -R -F -X -i -n -e -E -s -m -M -q -Q", "read*"),
    "wc": Program("-l --lines -w --words -c --bytes -m --chars -L --max-line-length --total:text", "read*"),
    "cut": Program(
        "-b:text --bytes:text -c:text --characters:text -d:text --delimiter:text -f:text --fields:text -n "
        "--complement -s --only-delimited -z --zero-terminated --output-delimiter:text",
        "read*",
    ),
    "paste": Program("-s --serial -z --zero-terminated -d:text --delimiters:text", "read*"),
    "join": Program(
        "-a:number -e:text -i --ignore-case -j:number -o:text -t:text -v:number -1:number -2:number "
        "--check-order --nocheck-order --header -z",
        "read read",
    ),
    "comm": Program(
        "-1 -2 -3 --check-order --nocheck-order --total -z --zero-terminated --output-delimiter:text",
        "read read",
    ),
    "tr": Program("-c -C --complement -d --delete -s --squeeze-repeats -t --truncate-set1", "text text"),
    "expand": Program("-i --initial -t:text --tabs:text -NUM", "read*"),
    "unexpand": Program("-a --all --first-only -t:text --tabs:text", "read*"),
    "fold": Program("-b --bytes -s --spaces -w:number --width:number -NUM", "read*"),
    "fmt": Program(
        "-c -s -t -u -w:number --width:number -g:number -p:text --split-only --uniform-spacing",
        "read*",
    ),
    "column": Program(
        "-t --table -s:text --separator:text -o:text --output-separator:text -x --fillrows -c:number "
        "--output-width:number --table-name:text -N:text --table-columns:text -R:text --table-right:text -H:text "
        "--table-hide:text -E:text -J --json -L",
        "read*",
    ),
    "sort": Program(
        "-b --ignore-leading-blanks -d --dictionary-order -f --ignore-case -g --general-numeric-sort -i "
        "--ignore-nonprinting -M --month-sort -h --human-numeric-sort -n --numeric-sort -R --random-sort "
        "-r --reverse -V --version-sort -c -C --check?text -k:text --key:text -m --merge -s --stable "
        "-t:text --field-separator:text -u --unique -z --zero-terminated --debug --sort:text",
        "read*",
    ),
    "uniq": Program(
        "-c --count -d --repeated -D --all-repeated?text -f:number --skip-fields:number -i --ignore-case "
        "-s:number --skip-chars:number -u --unique -w:number --check-chars:number -z --group?text",
        "read",
        # The second operand is written to, and what looks like an option behind the first may be one.
        permutes=False,
    ),
    "diff": Program(
        "-q --brief -s --report-identical-files -c -C:number --context?number -u -U:number --unified?number -e --ed "
        "-n --rcs -y --side-by-side -W:number --width:number --left-column --suppress-common-lines -p "
        "--show-c-function -F:text --label:text -t -T -a --text -i --ignore-case -b --ignore-space-change -w "
        "--ignore-all-space -B --ignore-blank-lines -Z -E --strip-trailing-cr -d --minimal --color?text -NUM",
        "read read",
    ),
    "cmp": Program(
        "-b --print-bytes -i:text --ignore-initial:text -l --verbose -n:number --bytes:number -s --quiet --silent",
        "read read number number",
    ),
    "od": Program(
        "-A:text --address-radix:text -j:text --skip-bytes:text -N:text --read-bytes:text -t:text --format:text -v "
        "--output-duplicates -w?number --width?number -a -b -c -d -f -i -l -o -s -x --endian:text",
        "read*",
    ),
    "hexdump": Program("-b -c -C -d -o -x -v -n:number -s:text -e:text --canonical --length:number", "read*"),
    "xxd": Program(
        "-a -b -c:number -C -E -e -g:number -i -l:number -o:number -p -ps -plain -s:number -u",
        "read",
        permutes=False,
        bundles=False,
    ),
    "strings": Program(
        "-a --all -f --print-file-name -n:number --bytes:number -t:text --radix:text -o -w "
        "--include-all-whitespace -e:text --encoding:text -NUM",
        "read*",
    ),
    "base64": Program("-d --decode -i --ignore-garbage -w:number --wrap:number", "read"),
    "base32": Program("-d --decode -i --ignore-garbage -w:number --wrap:number", "read"),
    "cksum": Program("", "read*"),
    "sum": Program("-r -s", "read*"),
    "md5sum": _HASH,
    "sha1sum": _HASH,
    "sha224sum": _HASH,
    "sha256sum": _HASH,
    "sha384sum": _HASH,
    "sha512sum": _HASH,
    "b2sum": _HASH,
    "shasum": Program("-a:number -b -t -U -0", "read*"),
    "file": Program(
        "-b --brief -i --mime --mime-type --mime-encoding --extension -k --keep-going -h --no-dereference "
        "-L --dereference -N --no-pad -n --no-buffer -r --raw -0 --print0 -F:text --separator:text",
        "read*",
    ),
    "grep": _GREP_PROGRAM,
    "egrep": _GREP_PROGRAM,
    "fgrep": _GREP_PROGRAM,
    "rg": Program(
        "-i --ignore-case -s --case-sensitive -S --smart-case -v --invert-match -w --word-regexp -x --line-regexp -c "
        "--count --count-matches -l --files-with-matches --files-without-match --files -n --line-number -N "
        "--no-line-number -H --with-filename -I --no-filename -o --only-matching -q --quiet -a --text -F "
        "--fixed-strings -P --pcre2 -U --multiline --multiline-dotall -p --pretty --heading --no-heading --json "
        "--stats --trim --vimgrep --column --no-column -b --byte-offset --no-messages --no-config --null -0 "
        "--passthru --type-list --crlf --no-follow -e:text --regexp:text -A:number --after-context:number -B:number "
        "--before-context:number -C:number --context:number -m:number --max-count:number -d:number "
        "--max-depth:number --maxdepth:number -g:text --glob:text --iglob:text -t:text --type:text -T:text "
        "--type-not:text -r:text --replace:text -M:number --max-columns:number --max-filesize:text -j:number "
        "--threads:number --sort:text --sortr:text --color:text --colors:text --context-separator:text "
        "--max-columns-preview --engine:text --hidden -. --no-ignore -u --unrestricted",
        "text!-e,--regexp,--files,--type-list read*",
    ),
    "sed": Program(
        "-n --quiet --silent -E -r --regexp-extended -u --unbuffered -z --null-data -s --separate "
        "-e:text --expression:text --posix -l:number --debug --sandbox",
        "text!-e,--expression read*",
        language=True,
    ),
    "awk": _AWK,
    "gawk": _AWK,
    "mawk": _AWK,
    "jq": Program(raw=True, language=True),
    # The system, without names of others, environments or command lines
    "pwd": Program("-L -P", ""),
    "whoami": Program(),
    "id": Program("-u -g -G -n -r -z -Z --user --group --groups --name --real --zero", "text"),
    "groups": Program("", "text"),
    "logname": Program(),
    "uname": Program("-a -s -n -r -v -m -p -i -o --all --kernel-name --nodename --kernel-release --machine"),
    "arch": Program(),
    "nproc": Program("--all --ignore:number"),
    "hostname": Program("-s --short"),
    "tty": Program("-s --silent --quiet"),
    "uptime": Program("-p -s --pretty --since"),
    "free": Program("-b -k -m -g -h -t -w -l --human --total --wide --mega --giga"),
    "locale": Program("-a -m --all-locales --charmaps"),
    "getconf": Program("-a", "text"),
    "date": Program(
        "-u --utc --universal -d:text --date:text -R --rfc-email -I?text --iso-8601?text --rfc-3339:text "
        "-r:list --reference:list",
        "text",
    ),
    "cal": Program("-1 -3 -y -m -s -j -w -h", "number number number"),
    "which": Program("-a -s", "text*"),
    "type": Program("-a -f -p -P -t", "text*"),
    "command": Program("-v -V", "text*", permutes=False),
    # Text and numbers
    "echo": Program(raw=True),
    "printf": Program(raw=True),
    "expr": Program("", "text*"),
    "seq": Program("-w -s:text -f:text --equal-width --separator:text --format:text", "number*"),
    "factor": Program("", "number*"),
    "numfmt": Program(
        "--from:text --to:text --from-unit:text --to-unit:text --suffix:text --field:text --format:text "
        "--padding:number --grouping --header?number --round:text -d:text --delimiter:text",
        "text*",
    ),
    "true": Program("", "text*"),
    "false": Program("", "text*"),
    ":": Program("", "text*"),
    "exit": Program("", "number"),
}

_SAY_THEIR_VERSION = (
    "python python2 python3 ruby php node gcc g++ cc clang make cmake bash tar gzip zip curl wget vim docker "
    "gh javac rg jq sed awk gawk grep find ls tree ruff mypy shellcheck"
)
_IN_ANOTHER_WAY = {
    "python": "-V",
    "python3": "-V",
    "node": "-v",
    "java": "-version",
    "ssh": "-V",
    "tmux": "-V",
    "perl": "-v",
    "lua": "-v",
}

VERSIONS: frozenset[tuple[str, str]] = frozenset(
    [(name, "--version") for name in _SAY_THEIR_VERSION.split()] + list(_IN_ANOTHER_WAY.items())
)
"""How programs say their version: none of these takes code or plug-ins from the folder it starts in.

Not here, because they run the folder's code first: yarn, npm, pnpm, cargo, rustc, go, gradle, mvn, bundle.
"""

_JAVA = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH")
LOADING_VARIABLES: dict[str, tuple[str, ...]] = {
    "java": _JAVA,
    "javac": (*_JAVA, "JDK_JAVAC_OPTIONS"),
    "lua": ("LUA_INIT", "LUA_INIT_5_2", "LUA_INIT_5_3", "LUA_INIT_5_4", "LUA_INIT_5_5"),
    "php": ("PHPRC", "PHP_INI_SCAN_DIR"),
    "mypy": ("PYTHONPATH", "PYTHONHOME"),
    "shasum": ("PERL5LIB", "PERL5OPT", "PERLLIB", "PERL5DB"),  # a script of perl
}
"""Variables by which a program may load code, even where it only reads or says its version: with one set it asks."""
