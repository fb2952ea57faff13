#include "api/cli/completion.h"

namespace svcmap::api {

// Splits the line at whitespace, because bash also splits words at colons and equal signs. Bash
// replaces only the part of the word after the last of these characters.
const char kBashCompletion[] = R"(_svcmapctl() {
  local line=${COMP_LINE:0:COMP_POINT} words current kept candidate
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  current=${words[-1]}
  kept=
  [[ $current == *[:=]* ]] && kept=${current%"${current##*[:=]}"}
  COMPREPLY=()
  while IFS= read -r candidate; do
    if [[ $candidate == :file ]]; then
      compopt -o filenames
      while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
      done < <(compgen -f -- "${current#*=}")
    else
      candidate=${candidate%%$'\t'*}
      COMPREPLY+=("${candidate#"$kept"}")
    fi
  done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _svcmapctl svcmapctl
)";

const char kZshCompletion[] = R"(#compdef svcmapctl
_svcmapctl() {
  local line
  local -a candidates
  for line in "${(@f)$(svcmapctl __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    if [[ $line == :file ]]; then
      _files
    elif [[ -n $line ]]; then
      candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    fi
  done
  _describe svcmapctl candidates
}
# zsh runs a file in $fpath as the function _svcmapctl. `source` only defines the function.
if [[ $funcstack[1] == _svcmapctl ]]; then
  _svcmapctl "$@"
else
  compdef _svcmapctl svcmapctl
fi
)";

const char kFishCompletion[] = R"(function __svcmapctl_complete
  set -l words (commandline -opc) (commandline -ct)
  for line in (svcmapctl __complete $words[2..-1] 2>/dev/null)
    if test "$line" = ":file"
      __fish_complete_path (commandline -ct)
    else
      echo $line
    end
  end
end
complete -c svcmapctl -f -a '(__svcmapctl_complete)'
)";

}  // namespace svcmap::api
