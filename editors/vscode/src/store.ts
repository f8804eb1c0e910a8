// Files of hosts: whole reads, saves that notice other writers, directories of any size. Knows nothing of the editor.
import { RexError, type FileChangedParams, type Rex, type Stat } from "rex-rpc";

/** The most that one file/read gives. */
const pieceBytes = 8 << 20;
/** The most that one file/list gives. */
const pageEntries = 10_000;
/**
 * How long a stat is not asked again, if no watch tells of a change: the editor asks several times for one thing that a
 * person does. A write looks for itself whether the file is the one that was seen.
 */
const freshMs = 5000;

export type Entry = Stat & { name: string };

export class Store {
  // The version of each file that the editor has seen last: what it may replace.
  private readonly etags = new Map<string, string>();

  private readonly fresh = new Map<string, Promise<Stat>>();

  constructor(
    private readonly reach: (host: string) => Promise<Rex>,
  ) {}

  stat(host: string, path: string): Promise<Stat> {
    const key = `${host}:${path}`;
    const known = this.fresh.get(key);
    if (known) return known;
    const asked = this.ask(host, path);
    this.keep(key, asked);
    return asked;
  }

  private async ask(host: string, path: string): Promise<Stat> {
    const rex = await this.reach(host);
    const stat = await rex.call("file/stat", { host, path });
    this.etags.set(`${host}:${path}`, stat.etag);
    return stat;
  }

  private keep(key: string, stat: Promise<Stat>): void {
    this.fresh.set(key, stat);
    const forget = () => void (this.fresh.get(key) === stat && this.fresh.delete(key));
    stat.then(() => setTimeout(forget, freshMs).unref(), forget);
  }

  /** One request, and one more for each 8 MiB; all of the same version, or it is begun anew. */
  async read(host: string, path: string): Promise<Uint8Array> {
    const rex = await this.reach(host);
    for (let tries = 0; ; ++tries) {
      const pieces: Uint8Array[] = [];
      let etag: string | undefined;
      for (let offset = 0; ; ) {
        const piece = await rex.call("file/read", { host, path, offset, length: pieceBytes, encoding: "base64" });
        if (etag !== undefined && piece.etag !== etag) break;
        etag = piece.etag;
        pieces.push(Buffer.from(piece.data, "base64"));
        offset = piece.next;
        if (piece.next >= piece.size || piece.next === piece.from) {
          this.etags.set(`${host}:${path}`, etag);
          return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
        }
      }
      if (tries === 3) throw new Error(`${path} changes faster than it can be read`);
    }
  }

  /** One request. Replaces the version that was seen last, and no other: else Conflict. */
  async write(host: string, path: string, content: Uint8Array, mayCreate: boolean, mayReplace: boolean): Promise<void> {
    const rex = await this.reach(host);
    const key = `${host}:${path}`;
    const etag = this.etags.get(key);
    const data = Buffer.from(content).toString("base64");
    const only = mayReplace && etag !== undefined ? { ifMatch: etag } : mayReplace ? {} : { ifAbsent: true };
    if (!mayCreate && etag === undefined) await this.stat(host, path);
    try {
      const stat = await rex.call("file/write", { host, path, data, encoding: "base64", parents: false, ...only });
      this.etags.set(key, stat.etag);
      this.keep(key, Promise.resolve(stat));
    } catch (error) {
      this.fresh.delete(key);
      this.etags.delete(key); // who saves again after this has been told, and means it
      throw error;
    }
  }

  /** One request for each 10,000 entries; links are told as what they lead to. */
  async list(host: string, path: string): Promise<(Entry & { leadsTo?: Stat["type"] })[]> {
    const rex = await this.reach(host);
    const all: (Entry & { leadsTo?: Stat["type"] })[] = [];
    let cursor: string | undefined;
    do {
      const page = await rex.call("file/list", { host, path, limit: pageEntries, ...(cursor !== undefined && { cursor }) });
      for (const entry of page.entries) {
        if (typeof entry.name === "string") all.push(entry as Entry); // others have names that a URI cannot have
      }
      cursor = page.cursor;
    } while (cursor !== undefined);
    const links = all.filter((entry) => entry.type === "symlink");
    const targets = links.map((entry) => rex.call("file/stat", { host, path: `${path}/${entry.name}` }).catch(() => null));
    (await Promise.all(targets)).forEach((stat, i) => stat && (links[i]!.leadsTo = stat.type));
    return all;
  }

  async mkdir(host: string, path: string): Promise<void> {
    await (await this.reach(host)).call("file/mkdir", { host, path });
    this.forget(host, path);
  }

  async remove(host: string, path: string, recursive: boolean): Promise<void> {
    await (await this.reach(host)).call("file/remove", { host, path, recursive });
    this.forget(host, path);
  }

  async rename(host: string, from: string, to: string, overwrite: boolean): Promise<void> {
    await (await this.reach(host)).call("file/rename", { host, from, to, overwrite });
    this.forget(host, from);
    this.forget(host, to);
  }

  private forget(host: string, path: string): void {
    this.etags.delete(`${host}:${path}`);
    this.fresh.clear(); // also what was below it
  }

  async watch(host: string, path: string, recursive: boolean, told: (changes: FileChangedParams) => void) {
    return (await this.reach(host)).watch({ host, path, recursive }, (changes) => {
      for (const change of changes.changes) this.fresh.delete(`${host}:${change.path}`);
      if (changes.overflow) this.fresh.clear();
      told(changes);
    });
  }
}

/** errno's name, where the operating system refused. */
export function errnoOf(error: unknown): string | undefined {
  return error instanceof RexError && error.type === "OsError" ? String(error.data["name"]) : undefined;
}
