#include "hosts/script.h"

#include <string_view>

#include "base/digest.h"

namespace rex::hosts {
namespace {

// $1$2 is the sentinel: in two halves, so that a shell that echoes or traces its line does not say it. The rest are
// names of agents. A directory is used only if it is ours and closed to others: what is in it, nobody else has put
// there. `umask` is put back before the rex-rpc begins.
constexpr std::string_view start = R"sh(
set +vx; t=$1$2; shift 2; k=$*; m=$(umask);
say() { echo "$t $*"; };
own() { case $(ls -ld "$1" 2>/dev/null) in drwx------*) [ -O "$1" ];; *) return 1;; esac; };
become() { umask "$m"; say ready "$1"; exec "$1" --private serve --stdio; };
look() { [ -d "$1" ] && own "$1" || return;
 for h in $k; do f=$1/$h/rex-rpc; [ -x "$f" ] && [ "$("$f" agent verify "$h" </dev/null 2>/dev/null)" = "$h" ] && become "$f"; done; };
[ -n "$XDG_CACHE_HOME" ] && look "$XDG_CACHE_HOME/rex-rpc";
[ -n "$HOME" ] && { look "$HOME/.cache/rex-rpc"; look "$HOME/.rex-rpc"; };
u=$(id -u 2>/dev/null) || u=${USER:-${LOGNAME:-me}};
for q in /var/tmp /tmp /dev/shm; do look "$q/rex-rpc-agent-$u"; done;
say need "$(uname -s 2>/dev/null)/$(uname -m 2>/dev/null)"; IFS= read -r c && eval "$c"
)sh";

// Goes on from the script above. Whatever fails, the pushed bytes are read to their last, or the stream would be lost:
// hence the second cat. A script of the pushed program's own name proves that programs may run in a directory before
// one is sent there. What a pushed program is asked, it answers in its words, not by an exit code: a shell takes an
// empty file for a script that ends well.
constexpr std::string_view install = R"sh(
umask 077;
tell() { say tried "$p: $*"; };
fit() {
 q=${p%/*};
 [ -d "$q" ] || { case $q in */.cache) mkdir "$q";; *) false;; esac; } 2>/dev/null || { tell "there is no $q"; return 1; };
 case $(ls -ld "$q") in d???????w[!tT]*) tell "others may rename what is in $q"; return 1;; esac;
 [ -d "$p" ] || [ -L "$p" ] || e=$(mkdir "$p" 2>&1) || { tell "$e"; return 1; };
 own "$p" || { tell "it is not a directory that is ours and closed to others"; return 1; };
 f=$p/.new-$x;
 e=$({ echo "#!/bin/sh" >"$f" && echo "exit 7" >>"$f" && chmod 700 "$f"; } 2>&1) || { rm -f "$f"; tell "$e"; return 1; };
 "$f" >/dev/null 2>&1 </dev/null; s=$?; rm -f "$f";
 [ "$s" = 7 ] || { tell "programs may not run there"; return 1; };
};
take() { if head -c 0 </dev/null >/dev/null 2>&1; then head -c "$n"; else dd bs=1 count="$n" 2>/dev/null; fi; };
put() {
 trap 'rm -f "$f"; exit 1' HUP INT PIPE TERM;
 say send "$p";
 e=$({ take | { cat >"$f"; s=$?; cat >/dev/null; exit $s; }; } 2>&1) &&
 e=$({ chmod 700 "$f" && "$f" agent adopt "$h" "$p/$h" </dev/null; } 2>&1); [ "$e" = "$h" ] && return;
 d=$(df -k "$p" 2>/dev/null | tail -n 1); rm -f "$f"; tell "${e:-it does not run}${d:+ (df -k: $d)}"; return 1;
};
for p in "${XDG_CACHE_HOME:+$XDG_CACHE_HOME/rex-rpc}" "${HOME:+$HOME/.cache/rex-rpc}" "${HOME:+$HOME/.rex-rpc}"
 "/var/tmp/rex-rpc-agent-$u" "/tmp/rex-rpc-agent-$u" "/dev/shm/rex-rpc-agent-$u"; do
 case $p in //*) ;; /*) fit && put && become "$p/$h/rex-rpc";; esac;
done; say none
)sh";

// Of the same version only: an older one may lack what we ask for.
constexpr std::string_view on_path = R"sh(
f=$(command -v rex-rpc 2>/dev/null) && [ "$("$f" --version 2>/dev/null </dev/null)" = "rex-rpc $v" ] && become "$f"; say none
)sh";

std::string on_one_line(std::string_view script) {
  std::string line;
  for (const char c : script.substr(1, script.size() - 2)) {
    line += c == '\n' ? ' ' : c;
  }
  return line;
}

}  // namespace

StartScript make_start_script(const std::vector<Agent>& agents) {
  const std::string first = "rex-rpc-" + random_hex(8);
  const std::string second = random_hex(8);
  StartScript script{first + second, "exec /bin/sh -c '" + on_one_line(start) + "' sh " + first + " " + second};
  for (const Agent& agent : agents) {
    script.line += " " + agent.name;
  }
  return script;
}

std::string install_command(const Agent& agent) {
  return "n=" + std::to_string(agent.size) + " h=" + agent.name + " x=" + random_hex(8) + "; " + on_one_line(install);
}

std::string path_command() { return "v=" REX_RPC_VERSION "; " + on_one_line(on_path); }

}  // namespace rex::hosts
