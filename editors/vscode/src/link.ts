// The one instance this window has started, and the hosts it has named, dialled again when they are needed. Knows
// nothing of the editor.
import { Rex, RexError, type HostConnectParams, type HostInfo } from "rex-rpc";
import { instanceName, prefixesOf } from "./address";
import { Emitter } from "./event";

/** What to dial for a host, by its path; kept over reloads by whoever gives it. */
export interface Memory {
  load(): Record<string, HostConnectParams>;
  save(targets: Record<string, HostConnectParams>): void;
}

export class Link {
  private readonly changes = new Emitter<string | undefined>();
  /** A host came, or went: then its path, and for the instance itself "". */
  readonly onDidChange = this.changes.event;
  private current: Promise<Rex> | undefined;
  private readonly targets: Map<string, HostConnectParams>;
  private readonly dials = new Map<string, Promise<HostInfo>>();
  private over = false;

  constructor(
    private readonly start: () => Promise<Rex>,
    private readonly memory: Memory,
  ) {
    this.targets = new Map(Object.entries(memory.load()));
  }

  /** The instance, started where there is none. */
  rex(): Promise<Rex> {
    if (this.over) return Promise.reject(RexError.closed("this window is closing", "no"));
    this.current ??= this.begin();
    return this.current;
  }

  private async begin(): Promise<Rex> {
    try {
      const rex = await this.start();
      rex.on("host/status", ({ host = "", state }) => {
        if (state !== "ready" && state !== "lost" && state !== "closed") return;
        const lost = state === "lost" || state === "closed";
        // Others' instances are dialled by looking at what there is; to look again for that would never end.
        const cut = host.lastIndexOf("/");
        const instance = instanceName.test(host.slice(cut + 1));
        if (!lost && instance) return;
        if (lost) this.forget(host);
        if (state === "lost" && instance) {
          // Its name is never given again: it need not be looked for.
          void rex.call("host/disconnect", { name: host.slice(cut + 1), host: host.slice(0, Math.max(cut, 0)) }).catch(() => {});
        }
        this.changes.fire(lost ? host : undefined);
      });
      void rex.closed.then(() => this.lost());
      this.changes.fire(undefined);
      return rex;
    } catch (error) {
      this.current = undefined;
      throw error;
    }
  }

  private lost(): void {
    this.current = undefined;
    this.dials.clear();
    this.changes.fire("");
  }

  private forget(host: string): void {
    for (const path of [...this.dials.keys()]) {
      if (`${path}/`.startsWith(`${host}/`)) this.dials.delete(path);
    }
  }

  /** The instance, once every host on the way is connected; hosts that nobody has connected are left to it. */
  async reach(host: string): Promise<Rex> {
    for (const path of prefixesOf(host)) {
      const target = this.targets.get(path);
      if (target) await this.dial(path, target);
    }
    return this.rex();
  }

  private dial(path: string, target: HostConnectParams): Promise<HostInfo> {
    let dial = this.dials.get(path);
    if (!dial) {
      dial = this.rex().then((rex) => rex.call("host/connect", target));
      this.dials.set(path, dial);
      dial.then(
        () => this.changes.fire(undefined),
        () => this.dials.get(path) === dial && this.dials.delete(path),
      );
    }
    return dial;
  }

  /** Names a host, here or behind the host that `target` names, and remembers how. */
  async connect(target: HostConnectParams): Promise<string> {
    const path = target.host ? `${target.host}/${target.name}` : target.name;
    await this.reach(target.host ?? "");
    await this.dial(path, target);
    this.targets.set(path, target);
    this.memory.save(Object.fromEntries(this.targets));
    return path;
  }

  async disconnect(host: string): Promise<void> {
    this.targets.delete(host);
    this.memory.save(Object.fromEntries(this.targets));
    this.forget(host);
    const cut = host.lastIndexOf("/");
    const rex = await this.rex();
    await rex.call("host/disconnect", { name: host.slice(cut + 1), host: host.slice(0, Math.max(cut, 0)) });
  }

  /** Ends the instance; daemon sessions go on. */
  async close(): Promise<void> {
    const current = this.current;
    this.over = true;
    await (await current?.catch(() => undefined))?.close();
  }
}
