// What there is to show: hosts, the sessions on each, and the sessions of other programs' instances there. Knows nothing
// of the editor.
import type { HostInfo, HostListResult, Rex, SessionInfo } from "rex-rpc";
import { instanceName } from "./address";
import { Emitter } from "./event";
import type { Link } from "./link";

export interface Place {
  /** A path of hosts; of an agent's instance, one host further. */
  host: string;
  /** here, a host, or an instance on it that somebody else has started. */
  kind: "here" | "host" | "instance";
  info?: HostInfo;
}

/** A session, and of one that has ended how. */
export type Known = SessionInfo & { ended?: string };

// Where a user's instances on a machine listen, and their sockets there.
const findInstances =
  'd=$XDG_RUNTIME_DIR; [ -n "$d" ] && [ -O "$d" ] && d=$d/rex-rpc || d=/tmp/rex-rpc-$(id -u); echo "$d"; ls "$d" 2>/dev/null';

/** How long changes are put together before it is looked again. */
const settleMs = 100;

export class World {
  private readonly changes = new Emitter<void>();
  readonly onDidChange = this.changes.event;
  private readonly sights = new Emitter<void>();
  /** `seen` has changed. */
  readonly onDidSee = this.sights.event;
  private readonly followed = new Set<string>();
  private readonly gone = new Set<string>(); // sockets whose programs have ended, and ourselves as others see us
  private settling: NodeJS.Timeout | undefined;
  /** Sessions seen last, by host: for counts that cost nothing. */
  readonly seen = new Map<string, Known[]>();

  constructor(private readonly link: Link) {
    link.onDidChange((lost) => {
      // One that was looked for and not to be had is no news.
      if (lost !== undefined && instanceName.test(lost.slice(lost.lastIndexOf("/") + 1)) && !this.seen.has(lost)) return;
      for (const key of [...this.followed]) {
        if (lost === "" || (lost !== undefined && /^[^ ]*/.exec(key)![0].concat("/").startsWith(`${lost}/`))) {
          this.followed.delete(key);
        }
      }
      for (const path of [...this.seen.keys()]) {
        if (lost !== undefined && `${path}/`.startsWith(lost && `${lost}/`)) this.seen.delete(path);
      }
      this.sights.fire();
      this.changed();
    });
  }

  /** Looks at everything anew, also at what was not to be had. */
  refresh(): void {
    this.gone.clear();
    this.changed();
  }

  changed(): void {
    this.settling ??= setTimeout(() => {
      this.settling = undefined;
      this.changes.fire();
    }, settleMs);
  }

  /** This machine, its hosts, and those behind hosts that are connected. */
  async places(host = ""): Promise<Place[]> {
    const rex = await this.link.rex();
    const all: Place[] = host === "" ? [{ host: "", kind: "here" }] : [];
    const { hosts }: HostListResult = await rex.call("host/list", { host });
    for (const info of hosts) {
      if (instanceName.test(info.name)) continue;
      const path = host === "" ? info.name : `${host}/${info.name}`;
      all.push({ host: path, kind: "host", info });
      if (info.state === "ready") all.push(...(await this.places(path)));
    }
    return all;
  }

  /** The sessions of a place; from then on its changes are told. */
  async sessions(host: string): Promise<Known[]> {
    const rex = await this.link.reach(host);
    const { sessions } = await rex.call("session/list", { host });
    const instance = instanceName.test(host.slice(host.lastIndexOf("/") + 1));
    const before = this.seen.get(host) ?? [];
    const told = (info: SessionInfo) => before.find((each) => each.session === info.session && each.createdAt === info.createdAt)?.ended;
    const own: Known[] = await Promise.all(
      sessions
        .filter((info) => !instance || info.lifetime === "connection")
        .map(async (info) => (info.state === "exited" ? { ...info, ended: told(info) ?? (await this.howEnded(rex, host, info.session)) } : info)),
    );
    this.seen.set(host, own);
    this.sights.fire();
    await this.follow(rex, host, own);
    return own;
  }

  private async howEnded(rex: Rex, host: string, session: string): Promise<string> {
    const { result } = await rex.call("session/wait", { host, session, any: [{ exit: true }], waitMs: 0 }).catch(() => ({ result: undefined }));
    if (result?.signal) return `ended by signal ${result.signal}`;
    return typeof result?.exitCode === "number" ? `exited with ${result.exitCode}` : "exited";
  }

  private async follow(rex: Rex, host: string, sessions: SessionInfo[]): Promise<void> {
    const once = async (key: string, follow: () => Promise<unknown>) => {
      if (this.followed.has(key)) return;
      this.followed.add(key);
      await follow().catch(() => this.followed.delete(key)); // it has gone meanwhile, and so will its row
    };
    const heard = () => this.changed();
    await once(`${host} *`, () => rex.subscribe({ host }, heard));
    for (const { session, lifetime } of sessions) {
      if (lifetime === "daemon") await once(`${host} ${session}`, () => rex.subscribe({ host, session }, heard));
    }
  }

  /** The instance, once it can name this place, which may be somebody's instance. */
  async reach(host: string): Promise<Rex> {
    const cut = host.lastIndexOf("/");
    if (instanceName.test(host.slice(cut + 1))) await this.instances(host.slice(0, Math.max(cut, 0)));
    return this.link.reach(host);
  }

  /** Instances on a host that others have started and that have sessions, each reached as one host further. */
  async instances(host: string): Promise<Place[]> {
    const rex = await this.link.reach(host);
    const { stdout } = await rex.call("process/run", { command: findInstances, host });
    const [folder, ...sockets] = stdout.split("\n");
    const key = `${host} /`;
    if (!this.followed.has(key)) {
      this.followed.add(key);
      await rex.watch({ path: folder!, host }, () => this.changed()).catch(() => this.followed.delete(key));
    }
    const ours = host === "" ? rex.info.machine.instance : "";
    const names = sockets.filter((name) => name.endsWith(".sock")).map((name) => name.slice(0, -5));
    const found: Place[] = [];
    for (const name of names) {
      const path = host === "" ? name : `${host}/${name}`;
      if (name === ours || !instanceName.test(name) || this.gone.has(path)) continue;
      try {
        await rex.call("host/connect", { name, url: `unix://${folder}/${name}.sock`, host });
        if ((await this.sessions(path)).length > 0) found.push({ host: path, kind: "instance" });
      } catch {
        this.gone.add(path); // its name is never given again
      }
    }
    for (const path of this.seen.keys()) {
      const cut = path.lastIndexOf("/");
      const isThere = found.some((place) => place.host === path);
      if (path.slice(0, Math.max(cut, 0)) === host && instanceName.test(path.slice(cut + 1)) && !isThere) this.seen.delete(path);
    }
    this.sights.fire();
    return found;
  }
}
