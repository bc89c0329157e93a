import type { IncomingMessage, ServerResponse } from "node:http";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { keyInvalid } from "./admission.ts";
import { methodNotAllowed } from "./errors.ts";
import type { HttpRoute } from "./http.ts";
import { headerOf, sendJson } from "./http-reply.ts";
import { REQUEST_ID_HEADER } from "./incoming-call.ts";
import type { WrongKeys } from "./wrong-keys.ts";

/** Serves a request of Slack; undefined for one that is refused. */
type ServeSlack = (request: {
  readonly workspaceId: string;
  readonly signature: string | undefined;
  readonly timestamp: string | undefined;
  readonly body: string;
}) => Promise<{ readonly json: object | null } | undefined>;

/** Options of the route. */
export interface SlackRouteOptions {
  readonly serve: ServeSlack;
  readonly wrongKeys: Pick<WrongKeys, "refusal">;
}

const PREFIX = "/slack";
/** Maximum bytes of a request: a press brings the message with it, as a form. */
const MAX_BODY_BYTES = 262_144;

/**
 * Serves `POST /slack/{workspace_id}`: presses of buttons and the command of a workspace's Slack app. Requests that Slack did not sign
 * count as wrong keys of their address.
 */
export function slackRoute(options: SlackRouteOptions): HttpRoute {
  return {
    prefix: PREFIX,
    async handle(request, response) {
      const [path = ""] = (request.url ?? "").split("?", 1);
      const [, id] = /^\/slack\/([^/]+)$/.exec(path) ?? [];
      const workspaceId = id === undefined ? undefined : decoded(id);
      if (workspaceId === undefined) return false;
      if (request.method !== "POST") throw methodNotAllowed(request.method ?? "", "POST");
      await serve(workspaceId, request, response, options);
      return true;
    },
  };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

async function serve(
  workspaceId: string,
  request: IncomingMessage,
  response: ServerResponse,
  { serve: answer, wrongKeys }: SlackRouteOptions,
): Promise<void> {
  const body = await bodyOf(request);
  const reply = await answer({
    workspaceId,
    signature: headerOf(request, "x-slack-signature"),
    timestamp: headerOf(request, "x-slack-request-timestamp"),
    body,
  });
  if (reply === undefined) {
    const requestId = headerOf(request, REQUEST_ID_HEADER) ?? "";
    const call = { address: request.socket.remoteAddress, requestId, method: PREFIX };
    throw wrongKeys.refusal(call) ?? keyInvalid();
  }
  if (reply.json === null) response.writeHead(200).end();
  else sendJson(response, 200, JSON.stringify(reply.json));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += (chunk as Buffer).length;
    if (bytes > MAX_BODY_BYTES) {
      const max_bytes = String(MAX_BODY_BYTES);
      throw new ControlPlaneError(ErrorReason.BODY_TOO_LARGE, `the request is larger than ${max_bytes} bytes`, {
        max_bytes,
      });
    }
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks).toString("utf8");
}
