// The tree of hosts and sessions, and what the status bar says of them.
import * as vscode from "vscode";
import type { SessionInfo } from "rex-rpc";
import { labelOf } from "./address";
import { Emitter } from "./event";
import type { Known, Place, World } from "./world";

export type Node = { place: Place } | { session: Known; host: string } | { problem: string };

const icons: Record<SessionInfo["state"], vscode.ThemeIcon> = {
  ready: new vscode.ThemeIcon("terminal"),
  running: new vscode.ThemeIcon("sync~spin"),
  waitingInput: new vscode.ThemeIcon("bell-dot", new vscode.ThemeColor("charts.yellow")),
  stopped: new vscode.ThemeIcon("debug-pause"),
  unmanaged: new vscode.ThemeIcon("terminal"),
  exited: new vscode.ThemeIcon("circle-slash"),
  lost: new vscode.ThemeIcon("warning"),
};

function describe(info: Known): string {
  if (info.ended) return info.ended;
  if (info.state === "waitingInput") return `waits for input: ${info.waiting?.text ?? ""}`;
  const program = info.foreground?.command ?? info.argv?.join(" ") ?? "";
  return [info.state === "unmanaged" ? "" : info.state, info.job ? program : "", info.writer ? "typed into" : ""]
    .filter((part) => part !== "")
    .join(" · ");
}

export class Tree implements vscode.TreeDataProvider<Node> {
  private readonly changes = new Emitter<void>();
  readonly onDidChangeTreeData = this.changes.event;

  constructor(private readonly world: World) {
    world.onDidChange(() => this.changes.fire());
  }

  getTreeItem(node: Node): vscode.TreeItem {
    if ("problem" in node) return Object.assign(new vscode.TreeItem(node.problem), { iconPath: new vscode.ThemeIcon("error") });
    return "place" in node ? this.placeItem(node.place) : this.sessionItem(node.session, node.host);
  }

  private placeItem({ host, kind, info }: Place): vscode.TreeItem {
    const open = kind !== "host" || info?.state === "ready";
    const states = vscode.TreeItemCollapsibleState;
    const item = new vscode.TreeItem(kind === "instance" ? host.slice(host.lastIndexOf("/") + 1) : labelOf(host), open ? states.Expanded : states.Collapsed);
    item.id = `place ${host} ${open}`;
    item.contextValue = { here: "hostHere", host: "hostFar", instance: "instance" }[kind];
    item.iconPath = new vscode.ThemeIcon({ here: "vm", host: open ? "remote" : "vm-outline", instance: "hubot" }[kind]);
    item.description = kind === "instance" ? "somebody's sessions" : kind === "host" ? (info?.detail ?? info?.state) : "";
    if (info) item.tooltip = [info.url || info.argv?.join(" "), info.took, info.detail].filter(Boolean).join("\n");
    return item;
  }

  private sessionItem(info: Known, host: string): vscode.TreeItem {
    const item = new vscode.TreeItem(info.session);
    item.id = `session ${host} ${info.session}`;
    item.description = describe(info);
    item.iconPath = icons[info.state] ?? icons.unmanaged;
    item.contextValue = info.state === "exited" || info.state === "lost" ? "ended" : "session";
    item.tooltip = `${info.argv?.join(" ") ?? ""}\n${info.cwd ?? ""}\nsince ${info.createdAt}`;
    item.command = { command: "rex.watch", title: "Watch", arguments: [{ session: info, host }] };
    return item;
  }

  async getChildren(node?: Node): Promise<Node[]> {
    try {
      if (!node) return (await this.world.places()).map((place) => ({ place }));
      if (!("place" in node)) return [];
      const { host, kind } = node.place;
      const [sessions, instances] = await Promise.all([
        this.world.sessions(host),
        kind === "instance" ? [] : this.world.instances(host),
      ]);
      return [...sessions.map((session) => ({ session, host })), ...instances.map((place) => ({ place }))];
    } catch (error) {
      return [{ problem: error instanceof Error ? error.message : String(error) }];
    }
  }
}

export function statusBar(world: World): vscode.Disposable {
  const item = vscode.window.createStatusBarItem("rex.status", vscode.StatusBarAlignment.Left);
  item.name = "rex-rpc";
  item.command = "rex.sessions.focus";
  const say = () => {
    const all = [...world.seen.values()].flat();
    const [running, waiting] = ["running", "waitingInput"].map((state) => all.filter((info) => info.state === state).length);
    const parts = [running ? `${running} running` : "", waiting ? `${waiting} waiting` : ""].filter(Boolean);
    item.text = `$(terminal) rex${parts.length ? `: ${parts.join(", ")}` : ""}`;
    item.tooltip = `rex-rpc: ${all.length} sessions`;
  };
  say();
  item.show();
  const heard = world.onDidSee(say);
  return vscode.Disposable.from(item, heard);
}
