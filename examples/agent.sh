#!/usr/bin/env bash
# An agent's loop with bash and jq: what the model wants goes into one shell session, what comes of it goes back.
set -euo pipefail
coproc REX { exec "${REX_RPC:-rex-rpc}"; }

call() { # METHOD PARAMS, one at a time, so that the next line is the answer
  jq -nc --arg method "$1" --argjson params "$2" '{jsonrpc: "2.0", id: 1, $method, $params}' >&"${REX[1]}"
  read -r answer <&"${REX[0]}"
  jq -ec 'if .error then error(.error.message) else .result end' <<<"$answer"
}

# Stands for yours, which would choose by what it saw.
moves=("cd /usr && pwd" "read -p 'Who is there? ' who && echo hello \$who" "an agent" "ls /no/such 2>&1 | wc -l; exit 3")
model() { [ "$1" -lt ${#moves[@]} ] && printf '%s' "${moves[$1]}"; }

call session/create '{"session": "agent"}' >/dev/null
state=ready
for ((turn = 0; turn < 100; ++turn)); do
  move=$(model $turn) || break
  # A program that waits for input is typed to; whatever takes longer than a minute is looked at again, not killed.
  params=$(jq -nc --arg command "$move" --arg state "$state" \
    '{session: "agent", $command, interactive: ($state != "ready"), waitMs: 60000}')
  result=$(call session/run "$params")
  state=$(jq -r 'if .state == "waitingInput" or .state == "running" then .state else "ready" end' <<<"$result")
  jq -r --arg move "$move" '"> \($move)\n\(.output | rtrimstr("\n"))\n[\(.state) \(.exitCode)]"' <<<"$result"
done
