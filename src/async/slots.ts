import { type Release, Semaphore } from "./semaphore.ts";
import { type Holder, type Portion, SharedPot, type SharedPotOptions } from "./shared-pot.ts";

/** Bounds of slots. `size`: calls that run or wait, of which one workspace alone has half. */
export interface SlotsOptions extends SharedPotOptions {
  /** Maximum number of calls that run. */
  readonly permits: number;
}

/**
 * Semaphore that workspaces share. Calls that wait are served by workspaces in turn, those of a workspace by its agents in turn, each
 * agent's in the order of arrival. The calls that run or wait are a pot.
 */
export class Slots {
  readonly #turns: Semaphore;
  readonly #places: SharedPot;

  constructor({ permits, ...pot }: SlotsOptions) {
    this.#turns = new Semaphore({ permits });
    this.#places = new SharedPot(pot);
  }

  /**
   * Waits for a slot and returns the function that releases it. Rejects with the pot's refusal, and with the signal's reason once it
   * aborts.
   */
  async acquire(holder: Holder, signal?: AbortSignal): Promise<Release> {
    const release = await this.#enter(this.#places.take(holder), holder, signal);
    if (release === undefined) throw signal?.reason;
    return release;
  }

  /** Does as `acquire`, but resolves with undefined where that rejects. */
  async acquireIfRoom(holder: Holder, signal?: AbortSignal): Promise<Release | undefined> {
    const place = this.#places.takeIfRoom(holder);
    return place && this.#enter(place, holder, signal);
  }

  /** Runs work in a slot. Rejects as `acquire` and the work do. */
  async run<T>(work: () => Promise<T>, holder: Holder, signal?: AbortSignal): Promise<T> {
    const release = await this.acquire(holder, signal);
    try {
      return await work();
    } finally {
      release();
    }
  }

  async #enter(
    place: Portion,
    { workspaceId: key, agentId }: Holder,
    signal: AbortSignal | undefined,
  ): Promise<Release | undefined> {
    const release = await this.#turns.acquire({ key, member: agentId ?? "", signal });
    if (release === undefined) {
      place.release();
      return undefined;
    }
    return () => {
      place.release();
      release();
    };
  }
}
