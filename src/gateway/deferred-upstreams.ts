import { nextTurn } from "../async/turns.ts";
import type { Upstreams, UpstreamsOptions } from "./upstreams.ts";

type Face = Pick<Upstreams, keyof Upstreams>;

/**
 * Endpoints of upstream servers, whose MCP client and HTTP client are loaded when the first one is opened: a process that serves no
 * MCP server does not hold them.
 */
export class DeferredUpstreams implements Face {
  readonly #options: UpstreamsOptions;
  #loaded: Promise<Upstreams> | undefined;

  constructor(options: UpstreamsOptions) {
    this.#options = options;
  }

  readonly stateful: Face["stateful"] = async (...given) => (await this.#load()).stateful(...given);

  readonly stateless: Face["stateless"] = async (...given) => (await this.#load()).stateless(...given);

  readonly listOnce: Face["listOnce"] = async (...given) => (await this.#load()).listOnce(...given);

  /** Closes everything. */
  async close(): Promise<void> {
    await (await this.#loaded)?.close();
  }

  /** Loads the clients before the first endpoint is opened. */
  async prepare(): Promise<void> {
    await this.#load();
  }

  #load(): Promise<Upstreams> {
    this.#loaded ??= loadUpstreams(this.#options);
    return this.#loaded;
  }
}

async function loadUpstreams(options: UpstreamsOptions): Promise<Upstreams> {
  // One package in a turn of the event loop: other calls do not wait for all of them.
  for (const load of [
    () => import("@modelcontextprotocol/client"),
    () => import("@modelcontextprotocol/server"),
    () => import("undici"),
  ]) {
    await load();
    await nextTurn();
  }
  const { Upstreams } = await import("./upstreams.ts");
  return new Upstreams(options);
}
