// The extension's beginning: everything is made here, and every command is a function below.
import { createHash } from "node:crypto";
import * as vscode from "vscode";
import { Rex, type HostConnectParams, type HostPromptParams, type SessionInfo } from "rex-rpc";
import { authorityOf, labelOf } from "./address";
import { Files } from "./files";
import { Link } from "./link";
import { Results, search } from "./search";
import { Store } from "./store";
import { Tasks } from "./tasks";
import type { SessionTerminal } from "./terminal";
import { Terminals } from "./terminals";
import { statusBar, Tree, type Node } from "./tree";
import { World, type Place } from "./world";

const hostsKey = "hosts";
let link: Link | undefined;

async function ask({ host = "", kind, text, secret }: HostPromptParams): Promise<string> {
  const what = { password: "password", passphrase: "passphrase of a key", otp: "one-time code", hostKey: "is its key right?" };
  const title = `${labelOf(host)}: ${what[kind]}`;
  const answer = await vscode.window.showInputBox({
    title,
    prompt: kind === "hostKey" ? `${text} (“yes”, or the fingerprint you were told)` : text,
    password: secret,
    ignoreFocusOut: true,
  });
  if (answer === undefined) throw new Error("nobody answered");
  return answer;
}

/** What a person typed as a host: a URL, or a name of their ssh configuration. */
function target(text: string): HostConnectParams {
  const url = text.includes(":") ? text : `ssh://${text}`;
  const name = url.replace(/^\w+:(\/\/)?/, "").replace(/^.*@/, "").replace(/[^\w.+@:-]+/g, "-").replace(/^-+|-+$/g, "");
  return { name: name.slice(0, 100) || "host", url };
}

class Commands {
  constructor(
    private readonly link: Link,
    private readonly world: World,
    private readonly terminals: Terminals,
    private readonly results: Results,
    private readonly resultsView: vscode.TreeView<unknown>,
  ) {}

  async connect(): Promise<string | undefined> {
    const known = (await this.world.places()).filter((place) => place.kind === "host");
    const items = [
      { label: "$(add) A host by its name or URL…", description: "ssh://me@host, or a name of your ssh configuration" },
      ...known.map(({ host, info }) => ({ label: host, description: `${info?.state} · ${info?.url ?? ""}` })),
    ];
    const picked = items.length === 1 ? items[0] : await vscode.window.showQuickPick(items, { title: "Connect to a host" });
    if (!picked) return undefined;
    if (picked !== items[0]) return this.dial(picked.label, () => this.link.reach(picked.label).then((rex) => rex.call("ping", { host: picked.label })));
    const text = await vscode.window.showInputBox({ title: "Connect to a host", prompt: "A name of your ssh configuration, ssh://…, unix:///…, or exec: and a command" });
    if (!text) return undefined;
    const params = target(text);
    return this.dial(params.name, () => this.link.connect(params));
  }

  private async dial(host: string, work: () => Promise<unknown>): Promise<string> {
    const rex = await this.link.rex();
    const location = vscode.ProgressLocation.Notification;
    await vscode.window.withProgress({ location, title: `Connecting to ${host}` }, async (progress) => {
      const deaf = rex.on("host/status", ({ host: told, phase = "", detail = "" }) => {
        if (told === host) progress.report({ message: [phase, detail].filter(Boolean).join(", ") });
      });
      await work().finally(deaf);
    });
    return host;
  }

  async disconnect(node: { place: Place }): Promise<void> {
    await this.link.disconnect(node.place.host);
    this.world.changed();
  }

  private async pickHost(title: string): Promise<string | undefined> {
    const places = await this.world.places();
    if (places.length === 1) return "";
    const items = places.map(({ host, info }) => ({ label: labelOf(host), description: info?.state ?? "", host }));
    return (await vscode.window.showQuickPick(items, { title }))?.host;
  }

  /** A new terminal, or one on a session that is there, an agent's too. */
  async chooseTerminal(node?: { place: Place }): Promise<vscode.ExtensionTerminalOptions | undefined> {
    const host = node ? node.place.host : await this.pickHost("A terminal on");
    if (host === undefined) return undefined;
    const instances = await this.world.instances(host);
    const lists = await Promise.all([host, ...instances.map((place) => place.host)].map(async (at) => ({ at, sessions: await this.world.sessions(at) })));
    const there = lists.flatMap(({ at, sessions }) =>
      sessions
        .filter((info) => info.state !== "exited" && info.state !== "lost")
        .map((info) => ({ label: `$(eye) ${info.session}`, description: `${labelOf(at)} · ${info.state}`, at, info })),
    );
    const fresh = { label: "$(add) A new session", description: labelOf(host), at: host, info: undefined };
    const items: (typeof fresh | (typeof there)[number])[] = [fresh, ...there];
    const picked = there.length === 0 ? fresh : await vscode.window.showQuickPick(items, { title: "New, or attach to" });
    if (!picked) return undefined;
    return picked.info ? this.onSession(picked.info, picked.at) : this.terminals.newShell(host);
  }

  // What this editor has made is typed into again; everybody else's is watched.
  private onSession(info: SessionInfo, host: string): vscode.ExtensionTerminalOptions {
    return this.terminals.onSession(host, info.session, info.lifetime === "daemon" && info.labels["editor"] === "vscode");
  }

  async terminal(node?: { place: Place }): Promise<void> {
    const options = await this.chooseTerminal(node);
    if (options) this.terminals.show(options);
  }

  watch(node: { session: SessionInfo; host: string }): void {
    const open = this.terminals.find(node.host, node.session.session);
    if (open) open[0].show();
    else this.terminals.show(this.onSession(node.session, node.host));
  }

  async takeOver(node?: { session: SessionInfo; host: string }): Promise<void> {
    if (!node) return this.terminals.active?.type(true);
    const open = this.terminals.find(node.host, node.session.session);
    if (open) {
      open[0].show();
      return open[1].type(true);
    }
    const options = this.onSession(node.session, node.host);
    this.terminals.show(options);
    await (options.pty as SessionTerminal).type(true);
  }

  async handBack(): Promise<void> {
    await this.terminals.active?.type(false);
  }

  async endSession(node: { session: SessionInfo; host: string }): Promise<void> {
    const name = node.session.session;
    const really = await vscode.window.showWarningMessage(`End ${name} on ${labelOf(node.host)}, with all it started?`, { modal: true }, "End It");
    if (really) await (await this.link.reach(node.host)).session(name, node.host).close();
    this.world.changed();
  }

  private async pickPath(title: string, node?: { place: Place }): Promise<{ host: string; path: string } | undefined> {
    const host = node ? node.place.host : await this.pickHost(title);
    if (host === undefined) return undefined;
    const rex = await this.link.reach(host);
    const { path: home } = await rex.call("file/realpath", { host, path: "." });
    const path = await vscode.window.showInputBox({ title: `${title} ${labelOf(host)}`, prompt: "An absolute path", value: home ?? "/" });
    return path ? { host, path } : undefined;
  }

  async openFolder(node?: { place: Place }): Promise<void> {
    const place = await this.pickPath("Open a folder on", node);
    if (!place) return;
    const uri = vscode.Uri.from({ scheme: "rex", authority: authorityOf(place.host), path: place.path });
    const name = `${place.path.split("/").at(-1) || "/"} (${labelOf(place.host)})`;
    vscode.workspace.updateWorkspaceFolders(vscode.workspace.workspaceFolders?.length ?? 0, 0, { uri, name });
  }

  async openFile(node?: { place: Place }): Promise<void> {
    const place = await this.pickPath("Open a file on", node);
    if (!place) return;
    await vscode.window.showTextDocument(vscode.Uri.from({ scheme: "rex", authority: authorityOf(place.host), path: place.path }));
  }

  async search(node?: { place: Place }): Promise<void> {
    const place = await this.pickPath("Search", node);
    if (place) await search(this.link, this.results, this.resultsView, place.host, place.path);
  }

  refresh(): void {
    this.world.refresh();
  }
}

function workspaceName(context: vscode.ExtensionContext): string {
  return createHash("sha256").update(context.storageUri?.toString() ?? "").digest("hex").slice(0, 16);
}

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("rex-rpc");
  const start = () =>
    Rex.spawn({
      command: vscode.workspace.getConfiguration("rex").get("command", "rex-rpc"),
      clientInfo: { name: "vscode", version: vscode.version },
      stderr: (text) => log.append(text),
      onPrompt: ask,
    });
  link = new Link(start, {
    load: () => context.workspaceState.get(hostsKey, {}),
    save: (targets) => void context.workspaceState.update(hostsKey, targets),
  });
  const ours = link;
  const world = new World(ours);
  const terminals = new Terminals(ours, world, context.workspaceState, workspaceName(context));
  const results = new Results();
  const resultsView = vscode.window.createTreeView("rex.results", { treeDataProvider: results });
  const commands = new Commands(ours, world, terminals, results, resultsView);
  const files = new Files(new Store((host) => ours.reach(host)));
  context.subscriptions.push(
    log,
    terminals,
    resultsView,
    statusBar(world),
    vscode.workspace.registerFileSystemProvider("rex", files, { isCaseSensitive: true }),
    vscode.window.createTreeView<Node>("rex.sessions", { treeDataProvider: new Tree(world) }),
    vscode.window.onDidOpenTerminal((terminal) => terminals.adopt(terminal)),
    vscode.tasks.registerTaskProvider("rex", new Tasks(ours)),
    vscode.window.registerTerminalProfileProvider("rex.terminal", {
      provideTerminalProfile: async () => {
        const options = await commands.chooseTerminal();
        return options && terminals.await(options);
      },
    }),
  );
  for (const name of ["connect", "disconnect", "terminal", "watch", "takeOver", "handBack", "endSession", "openFolder", "openFile", "search", "refresh"] as const) {
    const run = async (node: never) => {
      try {
        await commands[name](node);
      } catch (error) {
        void vscode.window.showErrorMessage(error instanceof Error ? error.message : String(error));
      }
    };
    context.subscriptions.push(vscode.commands.registerCommand(`rex.${name}`, run));
  }
  void terminals.restore((text) => log.appendLine(text)); // commands need not wait for hosts that are slow to answer
}

export async function deactivate(): Promise<void> {
  await link?.close();
}
