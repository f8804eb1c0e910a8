// An agent's loop in Go: what the model wants goes into one shell session, what comes of it goes back.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
)

type params map[string]any
type result struct {
	State, Output string
	ExitCode      *int
}

// Stands for yours, which would choose by what it saw.
var moves = []string{"cd /usr && pwd", "read -p 'Who is there? ' who && echo hello $who", "an agent", "ls /no/such 2>&1 | wc -l; exit 3"}

func model(seen []string) (move string, more bool) {
	if more = len(seen) < len(moves); more {
		move = moves[len(seen)]
	}
	return move, more
}

func main() {
	rex := exec.Command("rex-rpc")
	if named := os.Getenv("REX_RPC"); named != "" {
		rex = exec.Command(named)
	}
	input, _ := rex.StdinPipe()
	output, _ := rex.StdoutPipe()
	if err := rex.Start(); err != nil {
		log.Fatal(err)
	}
	requests, answers := json.NewEncoder(input), json.NewDecoder(output)
	call := func(method string, with params) result { // one at a time, so that the next line is the answer
		var answer struct {
			Result result
			Error  *struct{ Message string }
		}
		requests.Encode(params{"jsonrpc": "2.0", "id": 1, "method": method, "params": with})
		if err := answers.Decode(&answer); err != nil {
			log.Fatalf("%s: the server has ended: %v", method, err)
		} else if answer.Error != nil {
			log.Fatalf("%s: %s", method, answer.Error.Message)
		}
		return answer.Result
	}

	call("session/create", params{"session": "agent"})
	seen, last := []string{}, result{}
	for move, more := model(seen); more; move, more = model(seen) {
		// A program that waits for input is typed to; whatever takes longer than a minute is looked at again, not killed.
		interactive := last.State == "waitingInput" || last.State == "running"
		last = call("session/run", params{"session": "agent", "command": move, "interactive": interactive, "waitMs": 60000})
		code, _ := json.Marshal(last.ExitCode)
		seen = append(seen, fmt.Sprintf("> %s\n%s\n[%s %s]", move, strings.TrimSuffix(last.Output, "\n"), last.State, code))
		fmt.Println(seen[len(seen)-1])
	}
	input.Close()
	rex.Wait()
}
