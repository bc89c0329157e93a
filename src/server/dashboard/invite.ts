import type { IncomingMessage } from "node:http";
import { Role } from "../../../gen/agentcontrol/v1/access_pb.js";
import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";
import { methodNotAllowed } from "../errors.ts";
import type { HttpRoute } from "../http.ts";
import { headerOf, sendJson } from "../http-reply.ts";
import { REQUEST_ID_HEADER } from "../incoming-call.ts";
import type { WrongKeys } from "../wrong-keys.ts";
import { assertSameOrigin, jsonOf } from "./request-body.ts";

/** A key that an invite made. */
export interface InvitedKey {
  readonly secret: string;
  readonly key: { readonly keyId: string; readonly workspaceId: string; readonly role: number };
  readonly person: { readonly name?: string | null | undefined };
}

/** Options of the route. */
export interface InviteOptions {
  /** Uses an invite. Rejects with INVITE_INVALID. */
  readonly open: (secret: string) => Promise<InvitedKey>;
  /** Address at which browsers reach the service; undefined means the address of the request. */
  readonly publicUrl: string | undefined;
  readonly wrongKeys: Pick<WrongKeys, "refusal">;
}

const PREFIX = "/dashboard/invite";

/**
 * Serves `POST /dashboard/invite` with the `secret` of a link, without a sign-in: it makes the person's key and shows it, once. Only a
 * page's own button sends this, so that whatever looks at links in mails uses none up.
 */
export function inviteRoute(options: InviteOptions): HttpRoute {
  return {
    prefix: PREFIX,
    async handle(request, response) {
      const path = (request.url ?? "").split("?", 1)[0] ?? "";
      if (path !== PREFIX) return false;
      if (request.method !== "POST") throw methodNotAllowed(request.method ?? "", "POST");
      assertSameOrigin(request, options.publicUrl);
      const { secret } = await jsonOf(request);
      if (typeof secret !== "string" || secret === "")
        throw invalidField("secret", "is required: the part of the link behind `#`");
      const { key, person, secret: keySecret } = await opened(secret, request, options);
      const shown = {
        key_id: key.keyId,
        workspace_id: key.workspaceId,
        role: (Role[key.role] ?? "").toLowerCase(),
        name: person.name ?? null,
        secret: keySecret,
      };
      sendJson(response, 200, JSON.stringify(shown));
      return true;
    },
  };
}

/** Opens an invite. A wrong secret counts as a wrong key of its address: throws TOO_MANY_WRONG_KEYS. */
async function opened(secret: string, request: IncomingMessage, options: InviteOptions): Promise<InvitedKey> {
  try {
    return await options.open(secret);
  } catch (error) {
    const isGuess = error instanceof ControlPlaneError && error.reason === ErrorReason.INVITE_INVALID;
    if (!isGuess) throw error;
    const requestId = headerOf(request, REQUEST_ID_HEADER) ?? "";
    const call = { address: request.socket.remoteAddress, requestId, method: "invite" };
    throw options.wrongKeys.refusal(call) ?? error;
  }
}
