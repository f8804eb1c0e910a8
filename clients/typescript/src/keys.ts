// Names for requests, by which one that is sent again takes place once. Knows no method and sends nothing.
import { randomUUID } from "node:crypto";
import type { Key } from "./wire.gen.js";

/**
 * Gives each new request a key of its own. Send a request again with the key it had, over any connection, until it is
 * answered; then it is `done`. With the next key the server learns what will never be asked for again.
 */
export class Keys {
  private last = 0;
  private readonly open = new Set<number>();

  /** `client`: a name that nobody else has and had; absent: a random one, for what this process asks. */
  constructor(readonly client: string = `node-${randomUUID()}`) {}

  next(): Key {
    const [first = this.last + 1] = this.open; // a Set keeps the order in which they came
    this.last += 1;
    this.open.add(this.last);
    return { client: this.client, seq: this.last, acked: first - 1 };
  }

  /** Its answer is here, an error too; it is never sent again. */
  done(key: Key): void {
    this.open.delete(key.seq);
  }
}
