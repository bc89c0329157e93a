import { LRUCache } from "lru-cache";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import type { McpServer } from "../registry/mcp-servers.ts";

/** Failure of a server to open a session or to list its definitions. Times in epoch milliseconds. */
export interface UpstreamFault {
  /** Time of the first failed attempt since a listing last succeeded. */
  readonly sinceMs: number;
  /** Time of the last failed attempt. */
  readonly lastAttemptMs: number;
  /** One line without secrets. */
  readonly reason: string;
}

/** Servers whose faults are in memory. */
const MAX_SERVERS = 10_000;

/** Latest faults of MCP servers, as far as this process has tried. A changed registration forgets those of the earlier one. */
export class UpstreamFaults {
  readonly #clock: { now(): number };
  readonly #faults = new LRUCache<string, UpstreamFault>({ max: MAX_SERVERS });

  constructor(clock: { now(): number }) {
    this.#clock = clock;
  }

  /** Returns the fault of a server; undefined while it answers. */
  of(server: McpServer): UpstreamFault | undefined {
    return this.#faults.get(keyOf(server));
  }

  /** Notes a failed attempt. Ignores errors that are no fault of the server. */
  note(server: McpServer, error: unknown): void {
    if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.MCP_UPSTREAM_UNAVAILABLE) return;
    const lastAttemptMs = this.#clock.now();
    const [, reason = error.message] = error.message.split(`MCP server \`${server.name}\` `);
    const sinceMs = this.of(server)?.sinceMs ?? lastAttemptMs;
    this.#faults.set(keyOf(server), { sinceMs, lastAttemptMs, reason });
  }

  /** Runs an attempt, and notes its fault. */
  async during<T>(server: McpServer, attempt: () => Promise<T>): Promise<T> {
    try {
      return await attempt();
    } catch (error) {
      this.note(server, error);
      throw error;
    }
  }

  /** Runs an attempt to list definitions, notes its fault, and forgets earlier ones if it succeeds. */
  async listing<T>(server: McpServer, attempt: () => Promise<T>): Promise<T> {
    const listed = await this.during(server, attempt);
    this.#faults.delete(keyOf(server));
    return listed;
  }
}

const keyOf = ({ workspaceId, name, revision, createdAtMs }: McpServer): string =>
  `${workspaceId} ${name} ${createdAtMs} ${revision}`;
