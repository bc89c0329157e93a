import type { JsonObject } from "@bufbuild/protobuf";
import type { Holder, IdleThing, Portion, SharedPot } from "../async/shared-pot.ts";
import { Uses } from "../async/uses.ts";
import type { StatelessBridge } from "./bridges.ts";
import type { Endpoint, EndpointRequest } from "./endpoint.ts";
import { createBridgePot } from "./pots.ts";
import { watchedBody } from "./watched-body.ts";

/** Milliseconds after which an unused bridge is closed. */
const IDLE_MS = 900_000;
const SWEEP_MS = 60_000;

/** Bridge that is wanted: one for each server, agent and set of abilities. */
export interface WantedBridge {
  readonly key: string;
  readonly holder: Holder;
  /** Opens the bridge. */
  readonly open: () => Promise<StatelessBridge>;
}

/** Bridge that is open, or being opened. */
class HeldBridge implements IdleThing {
  readonly holder: Holder;
  readonly bridge: Promise<StatelessBridge>;
  readonly #portion: Promise<Portion>;
  readonly #onClose: () => void;
  #opened: StatelessBridge | undefined;
  readonly #uses = new Uses();
  #closing: Promise<void> | undefined;

  constructor({ holder, open }: WantedBridge, portion: Promise<Portion>, onClose: () => void) {
    this.holder = holder;
    this.#portion = portion;
    this.#onClose = onClose;
    this.bridge = portion.then(open);
    this.bridge.then(
      (opened) => {
        this.#opened = opened;
      },
      () => void this.close(),
    );
  }

  get opened(): StatelessBridge | undefined {
    return this.#opened;
  }

  /** True while no call is at the server, no response is read, and no call waits for its client. */
  get isIdle(): boolean {
    return this.#uses.isIdle && this.#opened?.isWaiting !== true;
  }

  get idleSinceMs(): number {
    return this.#uses.idleSinceMs;
  }

  /** Begins a use. Returns the function that ends it, which may be called repeatedly. */
  use(): () => void {
    return this.#uses.begin();
  }

  /** Releases the portion, and ends the session in the background. */
  async close(): Promise<void> {
    this.#onClose();
    this.#closing ??= this.bridge.then((bridge) => bridge.close()).catch(() => undefined);
    (await this.#portion.catch(() => undefined))?.release();
  }

  /** Closes the bridge, and resolves when its session has ended. */
  async end(): Promise<void> {
    await this.close();
    await this.#closing;
  }
}

/**
 * Bridges of stateless clients to servers with sessions. A bridge in use is never closed to make room: not while a call is at the
 * server or waits for its client, and not while a response is read. Idle ones are, and are opened again when they are wanted.
 */
export class StatelessBridges {
  readonly #pot: SharedPot;
  readonly #held = new Map<string, HeldBridge>();
  readonly #sweep: NodeJS.Timeout;

  constructor(pot: SharedPot = createBridgePot()) {
    this.#pot = pot;
    this.#sweep = setInterval(() => this.#closeUnused(), SWEEP_MS);
    this.#sweep.unref();
  }

  /** Opens a bridge unless it is open, and returns its endpoint. Rejects with OVERLOADED and as `open` does. */
  async endpoint(wanted: WantedBridge): Promise<Endpoint> {
    const { end } = await this.#use(wanted);
    end();
    return {
      fetch: (request) => this.#fetch(wanted, request),
      continues: (method: string, params: JsonObject) =>
        this.#held.get(wanted.key)?.opened?.continues(method, params) ?? false,
      close: async () => {
        // Other requests of the agent use the same bridge.
      },
    };
  }

  /** Closes all bridges. */
  async close(): Promise<void> {
    clearInterval(this.#sweep);
    await Promise.allSettled([...this.#held.values()].map((held) => held.end()));
  }

  async #fetch(wanted: WantedBridge, request: EndpointRequest): Promise<Response> {
    const { bridge, end } = await this.#use(wanted);
    request.signal.addEventListener("abort", end, { once: true });
    try {
      return watchedBody(await bridge.fetch(request), { onEnd: end });
    } catch (error) {
      end();
      throw error;
    }
  }

  /** Begins a use of an open bridge, and opens it first if necessary. */
  async #use(wanted: WantedBridge): Promise<{ readonly bridge: StatelessBridge; readonly end: () => void }> {
    const known = this.#held.get(wanted.key);
    const held = known ?? this.#open(wanted);
    const end = held.use();
    try {
      const bridge = await held.bridge;
      if (known === undefined || bridge.isOpen) return { bridge, end };
    } catch (error) {
      end();
      throw error;
    }
    end();
    // The server has ended the session.
    await held.close();
    return this.#use(wanted);
  }

  #open(wanted: WantedBridge): HeldBridge {
    const portion = this.#pot.takeOneMakingRoom(wanted.holder, () => this.#idle());
    const held: HeldBridge = new HeldBridge(wanted, portion, () => {
      if (this.#held.get(wanted.key) === held) this.#held.delete(wanted.key);
    });
    this.#held.set(wanted.key, held);
    return held;
  }

  *#idle(): Generator<HeldBridge> {
    for (const held of this.#held.values()) if (held.isIdle) yield held;
  }

  #closeUnused(): void {
    const before = performance.now() - IDLE_MS;
    for (const held of this.#idle()) if (held.idleSinceMs <= before) void held.close();
  }
}
