import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { ownValue } from "../policy/json-value.ts";
import { alwaysBlockedFor } from "./always-blocked.ts";
import { probeOf } from "./definition-lists.ts";
import type { Exchange } from "./exchange.ts";
import type { RpcResponse } from "./messages.ts";

/** Listings besides those of tools: the member with the items, and the method that uses one. */
const LISTINGS = {
  "resources/list": { member: "resources", usedBy: "resources/read" },
  "resources/templates/list": { member: "resourceTemplates", usedBy: "resources/read" },
  "prompts/list": { member: "prompts", usedBy: "prompts/get" },
} as const;

/** Empties listings of resources and prompts that an agent may not use, whichever they are. */
export class HiddenListings {
  readonly #logs: Pick<WorkspaceLogs, "of">;

  constructor(logs: Pick<WorkspaceLogs, "of">) {
    this.#logs = logs;
  }

  /** Creates the change to the response to a listing, after a change that was made before. */
  filter(
    exchange: Exchange,
    method: keyof typeof LISTINGS,
    before: ((response: RpcResponse) => Promise<RpcResponse>) | undefined,
  ): (response: RpcResponse) => Promise<RpcResponse> {
    const { member, usedBy } = LISTINGS[method];
    return async (given) => {
      const response = (await before?.(given)) ?? given;
      if (response.result === undefined || ownValue(response.result, member) === undefined) return response;
      const { server, caller } = exchange;
      const log = await this.#logs.of(caller.workspaceId);
      const isBlocked = alwaysBlockedFor(await log.caughtUp(), caller.agentId, log.nowMs);
      if (!isBlocked(probeOf(exchange, `${server.name}.${usedBy}`))) return response;
      return { ...response, result: { ...response.result, [member]: [] } };
    };
  }
}
