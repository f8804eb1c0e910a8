// `rex:` in the editor: its calls to the store, and the store's refusals in the editor's words.
import * as vscode from "vscode";
import { RexError, type FileType as RexFileType } from "rex-rpc";
import { hostOf } from "./address";
import { Emitter } from "./event";
import { errnoOf, type Store } from "./store";

function typeOf(type: RexFileType): vscode.FileType {
  if (type === "directory") return vscode.FileType.Directory;
  if (type === "symlink") return vscode.FileType.SymbolicLink;
  return type === "file" ? vscode.FileType.File : vscode.FileType.Unknown;
}

/** What the editor throws for it; `uri` is what it was about. */
function translated(error: unknown, uri: vscode.Uri): unknown {
  switch (errnoOf(error)) {
    case "ENOENT":
      return vscode.FileSystemError.FileNotFound(uri);
    case "EEXIST":
      return vscode.FileSystemError.FileExists(uri);
    case "ENOTDIR":
      return vscode.FileSystemError.FileNotADirectory(uri);
    case "EISDIR":
      return vscode.FileSystemError.FileIsADirectory(uri);
    case "EACCES":
    case "EPERM":
    case "EROFS":
      return vscode.FileSystemError.NoPermissions(uri);
  }
  if (!(error instanceof RexError)) return error;
  if (error.type === "Conflict") {
    return vscode.FileSystemError.Unavailable(
      `${uri.path} was changed by somebody else since you read it. Nothing was written; save again to replace it.`,
    );
  }
  return vscode.FileSystemError.Unavailable(error.message);
}

export class Files implements vscode.FileSystemProvider {
  private readonly changes = new Emitter<vscode.FileChangeEvent[]>();
  readonly onDidChangeFile = this.changes.event;

  constructor(private readonly store: Store) {}

  private async at<T>(uri: vscode.Uri, work: (host: string, path: string) => Promise<T>): Promise<T> {
    try {
      return await work(hostOf(uri.authority), uri.path);
    } catch (error) {
      throw translated(error, uri);
    }
  }

  stat(uri: vscode.Uri): Promise<vscode.FileStat> {
    return this.at(uri, async (host, path) => {
      const stat = await this.store.stat(host, path);
      const [ctime, mtime] = [Date.parse(stat.ctime), Date.parse(stat.mtime)];
      const readOnly = (stat.mode & 0o222) === 0;
      return { type: typeOf(stat.type), ctime, mtime, size: stat.size, ...(readOnly && { permissions: vscode.FilePermission.Readonly }) };
    });
  }

  readDirectory(uri: vscode.Uri): Promise<[string, vscode.FileType][]> {
    return this.at(uri, async (host, path) =>
      (await this.store.list(host, path)).map(({ name, type, leadsTo }) => [
        name,
        leadsTo === undefined ? typeOf(type) : typeOf(leadsTo) | vscode.FileType.SymbolicLink,
      ]),
    );
  }

  readFile(uri: vscode.Uri): Promise<Uint8Array> {
    return this.at(uri, (host, path) => this.store.read(host, path));
  }

  writeFile(uri: vscode.Uri, content: Uint8Array, options: { create: boolean; overwrite: boolean }): Promise<void> {
    return this.at(uri, (host, path) => this.store.write(host, path, content, options.create, options.overwrite));
  }

  createDirectory(uri: vscode.Uri): Promise<void> {
    return this.at(uri, (host, path) => this.store.mkdir(host, path));
  }

  delete(uri: vscode.Uri, options: { recursive: boolean }): Promise<void> {
    return this.at(uri, (host, path) => this.store.remove(host, path, options.recursive));
  }

  rename(from: vscode.Uri, to: vscode.Uri, options: { overwrite: boolean }): Promise<void> {
    if (from.authority !== to.authority) throw vscode.FileSystemError.Unavailable("these are two hosts: copy it instead");
    return this.at(from, (host, path) => this.store.rename(host, path, to.path, options.overwrite));
  }

  watch(uri: vscode.Uri, options: { recursive: boolean }): vscode.Disposable {
    const kinds = {
      created: vscode.FileChangeType.Created,
      modified: vscode.FileChangeType.Changed,
      removed: vscode.FileChangeType.Deleted,
    };
    const watching = this.store.watch(hostOf(uri.authority), uri.path, options.recursive, ({ changes, overflow }) => {
      const told = changes
        .filter((change) => change.path !== undefined)
        .map((change) => ({ type: kinds[change.kind], uri: uri.with({ path: change.path! }) }));
      if (overflow) told.push({ type: vscode.FileChangeType.Changed, uri });
      this.changes.fire(told);
    });
    watching.catch(() => {}); // of what is not there nothing is told
    return { dispose: () => void watching.then((stop) => stop(), () => {}) };
  }
}
