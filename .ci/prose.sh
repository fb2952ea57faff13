#!/bin/bash
# Checks the language of the repository in a few seconds: codespell over all files, the word list
# .ci/prose/words.txt over documents, comments and user-visible strings, and relative links in
# Markdown files. Prints `file:line: word: reason` for each finding and fails if there is one.
set -uo pipefail
cd "$(dirname "$0")/.."

status=0
log=$(mktemp)  # First the log of the unit tests, then the list of ignored words.
trap 'rm -f "$log"' EXIT
python3 -B -m unittest discover -s .ci/prose -p '*_test.py' --buffer 2>"$log" || {
  cat "$log" >&2
  status=1
}

python3 -B .ci/prose/check.py || status=1

# Fuzzer corpora and generated tables are data. spelling.txt lists ignored words with a reason each.
sed 's/ *#.*//; /^$/d' .ci/prose/spelling.txt >"$log"
git ls-files -z -- ':!tests/fuzz/corpus' ':!*.svg' ':!*.csv' ':!.ci/prose/words.txt' |
  xargs -0 codespell --ignore-words "$log" || status=1

if ((status)); then
  echo "prose: FAILED. .ci/prose/words.txt explains each word; CONTRIBUTING.md describes the style." >&2
fi
exit $status
