// A client: a connection to one instance, another where that is lost and `resume` says so, and what is heard over it.
import { RexError } from "./error.js";
import { Link, type CallOptions, type ConnectOptions, type SpawnOptions } from "./link.js";
import { Hosts, mayRepeat, Patience, unseen } from "./resuming.js";
import { Session } from "./session.js";
import type * as wire from "./wire.gen.js";

export type Handler<N extends keyof wire.ServerNotifications> = (params: wire.ServerNotifications[N]["params"]) => void;
type Opening = "session/attach" | "session/subscribe" | "file/watch";
type Closing = "session/detach" | "session/unsubscribe" | "file/unwatch";
type Hear = (method: string, params: unknown) => void;

/** What a server keeps telling; `id` is empty while no connection has it. */
export interface Followed<M extends Opening = Opening> {
  id: string;
  /** Its answer over a new connection; false: it is not the same any more. */
  again?(result: wire.Methods[M]["result"]): boolean;
  /** It cannot go on. */
  end?(error: RexError): void;
  readonly method: M;
  readonly closing: Closing;
  /** What the request of its opening is now. */
  params(): wire.Methods[M]["params"];
}

export class Rex {
  /** Settles, and never rejects, when the connection has ended, and no other will be opened: with why. */
  readonly closed: Promise<string>;

  private link!: Link;
  private settle!: (why: string) => void;
  private reopening: Promise<void> | undefined;
  private readonly listeners = new Map<string, Set<(params: never) => void>>();
  private readonly followed = new Set<Followed>();
  private readonly hosts = new Hosts();
  private readonly closing = new AbortController();
  private readonly patience = new Patience();

  private constructor(
    private readonly open: (signal: AbortSignal | undefined, hear: Hear) => Promise<Link>,
    private readonly resumes: boolean,
  ) {
    this.closed = new Promise((resolve) => (this.settle = resolve));
  }

  /** Starts an instance of one's own, which ends with this connection. */
  static spawn(options: SpawnOptions = {}): Promise<Rex> {
    return Rex.begin((changed, hear) => Link.spawn({ ...options, ...changed }, hear), options);
  }

  /** Connects to an instance that listens at `unix:PATH` or `tcp:127.0.0.1:PORT`. */
  static connect(address: string, options: ConnectOptions = {}): Promise<Rex> {
    return Rex.begin((changed, hear) => Link.connect(address, { ...options, ...changed }, hear), options);
  }

  private static async begin(
    open: (changed: { signal?: AbortSignal }, hear: Hear) => Promise<Link>,
    options: ConnectOptions,
  ): Promise<Rex> {
    const rex = new Rex((signal, hear) => open(signal ? { signal } : {}, hear), options.resume ?? false);
    rex.adopt(await rex.open(options.signal, rex.hear));
    return rex;
  }

  /** What `initialize` gave: the machine, the version, the limits in force. */
  get info(): wire.InitializeResult {
    return this.link.info;
  }

  private readonly hear: Hear = (method, params) => {
    for (const listener of [...(this.listeners.get(method) ?? [])]) listener(params as never);
  };

  private adopt(link: Link): void {
    this.link = link;
    void link.closed.then((why) => this.lost(why));
  }

  private lost(why: string): void {
    if (this.reopening) return; // it sees for itself
    for (const each of this.followed) each.id = "";
    if (!this.resumes || this.closing.signal.aborted) return this.settle(why);
    this.patience.lost();
    this.reopening = this.reopen(why);
  }

  /** Until a new connection has what the lost one had, or for as long as there is patience. */
  private async reopen(why: string): Promise<void> {
    const { patience, closing: { signal } } = this;
    while (patience.left() > 0 && !signal.aborted) {
      await patience.pause(signal);
      if (signal.aborted) break;
      for (const each of this.followed) each.id = "";
      await this.link.gone(); // so that there are never two
      const late = new AbortController();
      const giveUp = () => late.abort();
      const timer = setTimeout(giveUp, patience.left());
      signal.addEventListener("abort", giveUp, { once: true });
      try {
        const link = await this.open(late.signal, this.hear);
        this.adopt(link);
        late.signal.addEventListener("abort", () => link.kill(), { once: true });
        if (late.signal.aborted) link.kill();
        await this.restore(link);
        if (!link.isOver) {
          patience.held();
          this.reopening = undefined;
          return;
        }
      } catch (error) {
        if (error instanceof RexError && error.type !== "ConnectionClosed") break; // it does not let us in again
      } finally {
        clearTimeout(timer);
        signal.removeEventListener("abort", giveUp);
      }
    }
    this.reopening = undefined;
    this.settle(why);
  }

  /** As far as the new connection lives. Hosts that cannot be reached now are missing from then on. */
  private async restore(link: Link): Promise<void> {
    for (const level of this.hosts.levels()) {
      await Promise.allSettled(level.map((params) => link.call("host/connect", params)));
    }
    for (const each of [...this.followed]) {
      if (link.isOver) break;
      try {
        const result = await link.call(each.method, { ...each.params(), resumed: true });
        each.id = result.attachment;
        if (this.followed.has(each) && each.again?.(result) !== false) continue;
        await this.give(each);
        each.id = "";
        this.drop(each, new RexError("another session has its name by now", 1103, "SessionEnded", "unknown", false));
      } catch (error) {
        if (error instanceof RexError && error.type !== "ConnectionClosed") this.drop(each, error);
      }
    }
  }

  private drop(followed: Followed, error: RexError): void {
    if (this.followed.delete(followed)) followed.end?.(error);
  }

  /** It goes on over every new connection, until what this returns is called. */
  follow<M extends Opening>(followed: Followed<M>): () => void {
    this.followed.add(followed as unknown as Followed);
    return () => void this.followed.delete(followed as unknown as Followed);
  }

  /** One request. Rejects with a RexError only; a command's failure is in the result. */
  async call<M extends keyof wire.Methods>(
    method: M,
    params: wire.Methods[M]["params"],
    options: CallOptions = {},
  ): Promise<wire.Methods[M]["result"]> {
    if (!this.resumes) return this.link.call(method, params, options);
    const { signal, onProgress } = options;
    const more = onProgress ? { signal, onProgress: unseen(onProgress) } : options;
    const plain = params as Readonly<Record<string, unknown>>;
    let told: RexError | undefined;
    for (;;) {
      if (this.reopening) {
        const aborted = new Promise((resolve) => signal?.addEventListener("abort", resolve, { once: true }));
        if (!signal?.aborted) await Promise.race([this.reopening, aborted]);
        if (signal?.aborted) {
          throw new RexError("cancelled without a connection", -32800, "RequestCancelled", told?.executed ?? "no", true);
        }
      }
      const link = this.link;
      try {
        const result = await link.call(method, params, more);
        this.hosts.answered(method, plain);
        return result;
      } catch (error) {
        if (!(error instanceof RexError)) throw error;
        if (error.type !== "ConnectionClosed") {
          const isDoubtful = told?.executed === "unknown" && "key" in plain && error.executed === "no";
          if (!isDoubtful) throw error; // else it speaks of the last time, not of the first
          throw new RexError(error.message, error.code, error.type, "unknown", error.retryable, error.data);
        }
        if (told?.executed !== "unknown") told = error;
        if (!mayRepeat(method, plain, error.executed === "no")) throw told;
        await link.closed;
        if (!this.reopening && this.link === link) throw told;
      }
    }
  }

  /** A notification; it goes out in order with the calls. After the end it goes nowhere. */
  notify<N extends keyof wire.ClientNotifications>(method: N, params: wire.ClientNotifications[N]["params"]): Promise<void> {
    return this.link.notify(method, params);
  }

  /** Hears a notification; returns what ends that. */
  on<N extends keyof wire.ServerNotifications>(method: N, handler: Handler<N>): () => void {
    const handlers = this.listeners.get(method) ?? new Set();
    this.listeners.set(method, handlers.add(handler));
    return () => void handlers.delete(handler);
  }

  async createSession(params: wire.SessionCreateParams = {}, options: CallOptions = {}): Promise<Session> {
    const info = await this.call("session/create", params, options);
    return new Session(this, info.session, params.host ?? "");
  }

  /** A session that is there already, perhaps somebody else's; nothing is asked. */
  session(name: string, host = ""): Session {
    return new Session(this, name, host);
  }

  /** What happens in a session, or in all of the instance `host`, as events; returns what ends that. */
  async subscribe(
    params: wire.SessionSubscribeParams,
    handler: Handler<"session/event">,
  ): Promise<() => Promise<void>> {
    const { attachment: id } = await this.call("session/subscribe", params);
    const mine: Followed<"session/subscribe"> = {
      id, method: "session/subscribe", closing: "session/unsubscribe", params: () => params,
    };
    const off = this.on("session/event", (event) => {
      if (event.attachment === mine.id) handler(event);
    });
    return this.followUntil(mine, off);
  }

  /** What changes under a path; returns what ends that. */
  async watch(params: wire.FileWatchParams, handler: Handler<"file/changed">): Promise<() => Promise<void>> {
    const { attachment: id } = await this.call("file/watch", params);
    const mine: Followed<"file/watch"> = { id, method: "file/watch", closing: "file/unwatch", params: () => params };
    const off = this.on("file/changed", (change) => {
      if (change.attachment === mine.id) handler(change);
    });
    return this.followUntil(mine, off);
  }

  private followUntil<M extends Opening>(followed: Followed<M>, off: () => void): () => Promise<void> {
    const forget = this.follow(followed);
    return () => (off(), forget(), this.give(followed));
  }

  /** Ends an attachment, or finds that it has ended. */
  async give<M extends Opening>(followed: Followed<M>): Promise<void> {
    const params = { attachment: followed.id, host: followed.params().host ?? "" };
    if (followed.id) await this.link.call(followed.closing, params).catch(() => {});
  }

  /** Ends this connection and all that is this client's, and waits until a spawned instance has gone. */
  async close(): Promise<void> {
    this.closing.abort();
    await this.reopening;
    await this.link.close();
  }

  /** Ends the connection now; a spawned instance is killed, and its sessions end with it. */
  kill(): void {
    this.closing.abort();
    this.link.kill();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
