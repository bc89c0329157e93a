import type { Holder } from "../../src/async/shared-pot.ts";
import { LargeRequests } from "../../src/server/large-requests.ts";

/** Turns of large requests that are counted, and that a test can hold back. */
export class HeldTurns extends LargeRequests {
  /** Workspaces of the steps that wait, in the order in which they came. */
  readonly waiting: string[] = [];
  /** Steps that were taken. */
  taken = 0;
  /** Steps of requests that were given up while they waited. */
  left = 0;
  #gate: PromiseWithResolvers<void> | undefined;

  /** Holds every step from now on back until `release`. */
  hold(): void {
    this.#gate = Promise.withResolvers();
  }

  release(): void {
    this.#gate?.resolve();
    this.#gate = undefined;
  }

  override async turn(holder: Holder, signal?: AbortSignal): Promise<void> {
    const { workspaceId } = holder;
    this.waiting.push(workspaceId);
    try {
      const aborted = Promise.withResolvers<void>();
      signal?.addEventListener("abort", () => aborted.resolve(), { once: true });
      if (this.#gate !== undefined) await Promise.race([this.#gate.promise, aborted.promise]);
      await super.turn(holder, signal);
      this.taken += 1;
    } catch (error) {
      this.left += 1;
      throw error;
    } finally {
      this.waiting.splice(this.waiting.indexOf(workspaceId), 1);
    }
  }
}
