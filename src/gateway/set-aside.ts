import type { JsonObject } from "@bufbuild/protobuf";
import type { Portion } from "../async/shared-pot.ts";
import { sizeOfMessage } from "../server/answer-size.ts";
import { withoutOwnMeta } from "./forwarded-members.ts";
import type { RpcResponse } from "./messages.ts";

/** Members of results that the official library reads or writes, so that they go through it. */
const READ: ReadonlySet<string> = new Set([
  "_meta",
  "cacheScope",
  "capabilities",
  "completion",
  "inputRequests",
  "isError",
  "nextCursor",
  "prompts",
  "requestState",
  "resources",
  "resourceTemplates",
  "resultType",
  "serverInfo",
  "supportedVersions",
  "tools",
  "ttlMs",
]);

/**
 * Members of one result that go around the official library between an endpoint and its caller. The library would write and parse
 * them once more, each in one turn of the event loop.
 */
export class SetAside {
  #members: JsonObject | undefined;

  /** Keeps the members that the library does not read, without the gateway's own members of `_meta`. Returns the others. */
  async take(result: JsonObject): Promise<JsonObject> {
    const entries = Object.entries(result);
    const passed = Object.fromEntries(entries.filter(([name]) => READ.has(name)));
    const members = Object.fromEntries(entries.filter(([name]) => !READ.has(name)));
    this.#members = await withoutOwnMeta(members);
    return passed;
  }

  /**
   * Returns a response with the members that were kept, which are then forgotten. Counts their bytes among those that are held, and
   * throws as that does.
   */
  putBack(response: RpcResponse, held: Pick<Portion, "add">): RpcResponse {
    const members = this.#members;
    this.#members = undefined;
    if (members === undefined || response.result === undefined) return response;
    held.add(sizeOfMessage(members));
    return { ...response, result: { ...members, ...response.result } };
  }
}
