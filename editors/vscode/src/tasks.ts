// Tasks of type `rex`: a command on a host, in a terminal, with its exit code.
import * as vscode from "vscode";
import type { Link } from "./link";
import { labelOf } from "./address";
import { SessionTerminal } from "./terminal";

interface Definition extends vscode.TaskDefinition {
  command: string;
  host?: string;
  cwd?: string;
}

export class Tasks implements vscode.TaskProvider {
  constructor(private readonly link: Link) {}

  provideTasks(): vscode.Task[] {
    return []; // what to run where is for tasks.json to say
  }

  resolveTask(task: vscode.Task): vscode.Task {
    const definition = task.definition as Definition;
    const host = definition.host ?? "";
    const name = task.name || definition.command;
    const scope = task.scope ?? vscode.TaskScope.Workspace;
    const run = new vscode.CustomExecution(async () => this.terminal(definition, host));
    return new vscode.Task(definition, scope, name, `rex ${labelOf(host)}`, run, task.problemMatchers);
  }

  private terminal({ command, cwd }: Definition, host: string): vscode.Pseudoterminal {
    return new SessionTerminal(async (size) => {
      const rex = await this.link.reach(host);
      const session = await rex.createSession({
        host,
        argv: ["/bin/sh", "-c", command],
        labels: { editor: "vscode", task: command.slice(0, 100) },
        ...(cwd !== undefined && { cwd }),
        ...(size && { rows: size.rows, cols: size.columns }),
      });
      return { session, rex, own: true };
    });
  }
}
