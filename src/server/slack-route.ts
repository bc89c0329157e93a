import type { IncomingMessage, ServerResponse } from "node:http";
import { type Holder, SharedPot } from "../async/shared-pot.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { keyInvalid } from "./admission.ts";
import { methodNotAllowed } from "./errors.ts";
import { WAITING_OVERHEAD } from "./held-bytes.ts";
import type { HttpRoute } from "./http.ts";
import { headerOf, sendJson } from "./http-reply.ts";
import { REQUEST_ID_HEADER } from "./incoming-call.ts";
import { readBody } from "./rest/request.ts";
import { networkOf, type WrongKeys } from "./wrong-keys.ts";

/** Headers of a request of Slack. */
interface SlackHead {
  readonly workspaceId: string;
  readonly signature: string | undefined;
  readonly timestamp: string | undefined;
}

/** A request whose headers are in order. */
interface AdmittedSlackRequest {
  /** Workspace in whose share the body counts. */
  readonly workspaceId: string;
  /** Serves the request; undefined for one that is refused. */
  serve(body: string): Promise<{ readonly json: object | null } | undefined>;
}

/** Options of the route. */
export interface SlackRouteOptions {
  /** Admits a request before its body is read; undefined for one that Slack did not sign. */
  readonly admit: (head: SlackHead) => Promise<AdmittedSlackRequest | undefined>;
  readonly wrongKeys: Pick<WrongKeys, "refusal">;
  /** Bytes of requests that workspaces share. Default `MAX_HELD_BYTES`. */
  readonly maxHeldBytes?: number | undefined;
}

const PREFIX = "/slack";
/** Maximum bytes of a request: a press brings the message with it, as a form. */
const MAX_BODY_BYTES = 262_144;
/** Bytes of all requests that are read or served. */
const MAX_HELD_BYTES = 67_108_864;
/** Time in which a request has to arrive, milliseconds: Slack itself waits 3 s for the answer. */
const BODY_MS = 3_000;

/**
 * Serves `POST /slack/{workspace_id}`: presses of buttons and the command of a workspace's Slack app. Requests that Slack did not sign
 * count as wrong keys of their address.
 *
 * The signature covers the body, so bodies of strangers are read too. They hold little: a body counts in the share of its workspace, a
 * fifth of which is for the network that sends it, and it has to arrive in 3 s.
 */
export function slackRoute(options: SlackRouteOptions): HttpRoute {
  const held = new SharedPot({
    name: "slack_bytes",
    size: options.maxHeldBytes ?? MAX_HELD_BYTES,
    unit: "bytes of requests",
    advice: "send less at once",
    retryAfterSeconds: 1,
    refuse: ({ pot, retryAfterSeconds }) => tooMuch(pot, retryAfterSeconds),
  });
  return {
    prefix: PREFIX,
    async handle(request, response) {
      const [path = ""] = (request.url ?? "").split("?", 1);
      const [, id] = /^\/slack\/([^/]+)$/.exec(path) ?? [];
      const workspaceId = id === undefined ? undefined : decoded(id);
      if (workspaceId === undefined) return false;
      if (request.method !== "POST") throw methodNotAllowed(request.method ?? "", "POST");
      await serve(workspaceId, request, response, options, held);
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
  { admit, wrongKeys }: SlackRouteOptions,
  held: SharedPot,
): Promise<void> {
  const address = request.socket.remoteAddress;
  const admitted = await admit({
    workspaceId,
    signature: headerOf(request, "x-slack-signature"),
    timestamp: headerOf(request, "x-slack-request-timestamp"),
  });
  const reply = admitted && (await answer(admitted, request, { agentId: networkOf(address ?? "") }, held));
  if (reply === undefined) {
    const requestId = headerOf(request, REQUEST_ID_HEADER) ?? "";
    throw wrongKeys.refusal({ address, requestId, method: PREFIX }) ?? keyInvalid();
  }
  if (reply.json === null) response.writeHead(200).end();
  else sendJson(response, 200, JSON.stringify(reply.json));
}

/** Reads the body of a request and serves it. The network of its sender is a party as an agent is one. */
function answer(
  admitted: AdmittedSlackRequest,
  request: IncomingMessage,
  network: Pick<Holder, "agentId">,
  held: SharedPot,
): ReturnType<AdmittedSlackRequest["serve"]> {
  return held.during({ ...network, workspaceId: admitted.workspaceId }, async (portion) => {
    portion.add(WAITING_OVERHEAD);
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(tooLate()), BODY_MS);
    try {
      const bounds = { maxBytes: MAX_BODY_BYTES };
      const body = await readBody(request, bounds, (bytes) => portion.add(bytes), late.signal);
      clearTimeout(timer);
      return await admitted.serve(body.toString("utf8"));
    } finally {
      clearTimeout(timer);
    }
  });
}

function tooLate(): ControlPlaneError {
  const text = `the request did not arrive within ${BODY_MS / 1000} s`;
  return new ControlPlaneError(ErrorReason.REQUEST_TIMED_OUT, text);
}

/** Creates the refusal of a body. It tells a stranger nothing of what others hold. */
function tooMuch(pot: string, retryAfterSeconds: number): ControlPlaneError {
  const text = `too many requests of Slack apps arrive at once; retry in ${retryAfterSeconds} s`;
  return new ControlPlaneError(ErrorReason.OVERLOADED, text, { pot, retry_after_seconds: String(retryAfterSeconds) });
}
