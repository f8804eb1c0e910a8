"""An agent in thirty lines: a model proposes commands, a session runs them, and nothing it does can hang the loop.

Usage: agent_loop.py TASK. The model here is a list; put a call of yours in its place.
"""

import sys

from rex_rpc import Rex


def model(task, history):
    """Takes what was seen so far and gives the next command, or None when the task is done."""
    plan = ["python3 -q", "6 * 7", "exit()", "sleep 60", "echo 'the answer is 42' | tee answer.txt; rm answer.txt"]
    return plan[len(history)] if len(history) < len(plan) else None


def main(task):
    history = []
    with Rex() as rex, rex.session(cwd="/tmp") as session:
        state = "ready"
        while (command := model(task, history)) is not None:
            # A program that waits for input gets the next command as its input; one that works on is stopped.
            result = session.run(command, interactive=state == "waitingInput", waitMs=2000, maxOutputBytes=20000)
            if result["state"] == "running":
                result = session.interrupt(escalate=True).get("result", result)
            state = result["state"]
            history.append((command, result["output"], result["exitCode"]))
            print(f"$ {command}\n{result['output']}[{state}, code {result['exitCode']}]")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
