// The editor's terminals on sessions: new ones, others' to watch, those of before a reload, and what ends with which.
import * as vscode from "vscode";
import type { SessionCreateParams } from "rex-rpc";
import type { Link } from "./link";
import { labelOf } from "./address";
import { SessionTerminal, type Opening } from "./terminal";
import type { World } from "./world";

/** The hosts where terminals are, for the next window. */
const memoryKey = "terminalHosts";

export class Terminals implements vscode.Disposable {
  private readonly all = new Map<vscode.Terminal, SessionTerminal>();
  private readonly closing: vscode.Disposable;
  private readonly awaited = new Set<vscode.Pseudoterminal>();

  constructor(
    private readonly link: Link,
    private readonly world: World,
    private readonly memory: vscode.Memento,
    /** Names this workspace in the labels of its sessions: they, not the editor, remember what is to be shown again. */
    private readonly workspace: string,
  ) {
    this.closing = vscode.window.onDidCloseTerminal((terminal) => this.closed(terminal));
  }

  dispose(): void {
    this.closing.dispose();
  }

  /** The one a person looks at, if it is ours. */
  get active(): SessionTerminal | undefined {
    const terminal = vscode.window.activeTerminal;
    return terminal && this.all.get(terminal);
  }

  // A reload closes terminals too, and must end nothing: only what a person closes ends its session.
  private closed(terminal: vscode.Terminal): void {
    const shown = this.all.get(terminal);
    const reason = terminal.exitStatus?.reason;
    this.all.delete(terminal);
    if (!shown || reason === vscode.TerminalExitReason.Shutdown || reason === vscode.TerminalExitReason.Unknown) return;
    if (shown.own && reason === vscode.TerminalExitReason.User) void shown.session?.close().catch(() => {});
  }

  private pty(opening: (size: vscode.TerminalDimensions | undefined) => Promise<Opening>): SessionTerminal {
    return new SessionTerminal(
      opening,
      ({ session }) => {
        const hosts = new Set(this.memory.get<string[]>(memoryKey, []));
        if (!hosts.has(session!.host)) void this.memory.update(memoryKey, [...hosts.add(session!.host)]);
        this.world.changed();
      },
      () => vscode.window.setStatusBarMessage("This terminal watches. To type into it: “Rex: Take Over Session”", 5000),
    );
  }

  /** A shell on a host, whose session outlives this window. */
  newShell(host: string): vscode.ExtensionTerminalOptions {
    let made: string | undefined;
    const pty = this.pty(async (size) => {
      const rex = await this.link.reach(host);
      if (made !== undefined) return { session: rex.session(made, host), rex, own: true };
      const { shell, home } = host === "" ? rex.info.machine : ((await this.machineOf(host)) ?? {});
      const ttlMs = vscode.workspace.getConfiguration("rex").get<number>("ttlMinutes", 1440) * 60_000;
      const params: SessionCreateParams = { host, profile: "human", lifetime: "daemon", ttlMs };
      params.labels = { editor: "vscode", workspace: this.workspace };
      params.argv = [typeof shell === "string" ? shell : "/bin/sh", host === "" ? "-i" : "-l"];
      const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
      const cwd = host === "" && folder?.scheme === "file" ? folder.fsPath : home;
      if (typeof cwd === "string") params.cwd = cwd;
      if (size) [params.rows, params.cols] = [size.rows, size.columns];
      const session = await rex.createSession(params);
      made = session.name;
      return { session, rex, own: true };
    });
    return this.options(labelOf(host), pty);
  }

  private async machineOf(host: string): Promise<Record<string, unknown> | undefined> {
    const cut = host.lastIndexOf("/");
    const rex = await this.link.rex();
    const info = await rex.call("host/info", { name: host.slice(cut + 1), host: host.slice(0, Math.max(cut, 0)) });
    return info.machine;
  }

  /** A terminal on a session that is there; `own` ones are typed into. */
  onSession(host: string, session: string, own: boolean, name = session): vscode.ExtensionTerminalOptions {
    const opening = async () => {
      const rex = await this.world.reach(host);
      return { session: rex.session(session, host), rex, own };
    };
    return this.options(name, this.pty(opening));
  }

  private options(name: string, pty: SessionTerminal): vscode.ExtensionTerminalOptions {
    return { name, pty, iconPath: new vscode.ThemeIcon("terminal") };
  }

  show(options: vscode.ExtensionTerminalOptions): vscode.Terminal {
    const terminal = vscode.window.createTerminal(options);
    terminal.show();
    return terminal;
  }

  /** What the editor opens out of its list of profiles, and leaves behind the terminal of before. */
  await(options: vscode.ExtensionTerminalOptions): vscode.TerminalProfile {
    this.awaited.add(options.pty);
    return new vscode.TerminalProfile(options);
  }

  /** Whatever opened it, also the list of profiles: ours are told from others' by their pty. */
  adopt(terminal: vscode.Terminal): void {
    const { pty } = terminal.creationOptions as vscode.ExtensionTerminalOptions;
    if (pty instanceof SessionTerminal) this.all.set(terminal, pty);
    if (this.awaited.delete(pty)) terminal.show();
  }

  /** A terminal on that session, new or the one there is. */
  find(host: string, session: string): [vscode.Terminal, SessionTerminal] | undefined {
    return [...this.all].find(([, shown]) => shown.session?.name === session && shown.session.host === host);
  }

  /** Opens again what this workspace had open before a reload and still lives. */
  async restore(tell: (text: string) => void): Promise<void> {
    for (const host of new Set(["", ...this.memory.get<string[]>(memoryKey, [])])) {
      try {
        for (const info of await this.world.sessions(host)) {
          const ours = info.labels["editor"] === "vscode" && info.labels["workspace"] === this.workspace;
          if (!ours || info.state === "exited" || info.state === "lost" || this.find(host, info.session)) continue;
          this.show(this.onSession(host, info.session, true, labelOf(host)));
        }
      } catch (error) {
        tell(`no terminals of ${labelOf(host)}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  }
}
