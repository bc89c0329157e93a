import type { Portion } from "../async/shared-pot.ts";
import { watchedBody } from "./watched-body.ts";

/** Messages of a server that a stream holds for its reader, in bytes. */
export class Unread {
  readonly #portion: Portion;

  constructor(portion: Portion) {
    this.#portion = portion;
  }

  /** Counts a message. Returns false, and then counts nothing, if there is no room for it. */
  add(bytes: number): boolean {
    try {
      this.#portion.add(bytes);
      return true;
    } catch {
      return false;
    }
  }

  /** Counts so many bytes in place of those before. Returns false, and then counts nothing, if there is no room. */
  set(bytes: number): boolean {
    this.#portion.empty();
    return this.add(bytes);
  }

  /** Returns a response that counts its bytes off as they are read, and the rest once it is over. */
  of(response: Response): Response {
    return watchedBody(response, {
      onRead: (bytes) => void this.set(Math.max(0, this.#portion.amount - bytes)),
      onEnd: () => this.release(),
    });
  }

  release(): void {
    this.#portion.release();
  }
}
