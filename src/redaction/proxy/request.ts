import type { IncomingMessage } from "node:http";
import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";
import type { WorkspaceScrubber } from "../scrubbers.ts";
import { createPlaceholders } from "../text/index.ts";
import type { Placeholders } from "../text/types.ts";
import type { Conversations } from "./conversations.ts";
import { type ProxyTarget, readBody } from "./exchange.ts";
import { isJsonType, mediaTypeOf } from "./headers.ts";
import { hideRequest } from "./hide-request.ts";
import { isMap, type Json, notScrubbable } from "./protocol.ts";

/** A request to a model without its personal values. */
export interface HiddenRequest {
  /** Undefined: it has no body. */
  readonly body: Buffer | undefined;
  readonly placeholders: Placeholders;
  /** Whether answers are to be JSON documents. */
  readonly isJson: boolean;
  /** The model, if it can be told; null otherwise. */
  readonly model: string | null;
  /** Remembers the placeholders for the answer that later requests go on from. */
  keepFor(responseId: string): void;
}

/** What a request is hidden with. */
export interface RequestContext {
  readonly conversations: Conversations;
  readonly maxBodyBytes: number;
}

const CONVERSATION_HEADER = "x-conversation-id";
const MAX_CONVERSATION_ID = 256;
const MODEL = /^[\w.:/-]{1,128}$/;

function unsupported(message: string): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, message);
}

async function jsonFrom(request: IncomingMessage, maxBodyBytes: number): Promise<Json | undefined> {
  const body = await readBody(request, maxBodyBytes);
  if (body.length === 0) return undefined;
  if (!isJsonType(mediaTypeOf(request.headers))) {
    throw unsupported("only a body of `application/json` can be scrubbed; files and forms are refused");
  }
  const encoding = request.headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") throw unsupported("the body must not be compressed");
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)) as Json;
  } catch {
    // Without the cause, which repeats what the body says.
    throw new ControlPlaneError(ErrorReason.MALFORMED_JSON, "the body is no JSON in UTF-8");
  }
}

/** The conversation that a request continues, in the words of the caller; undefined for none. */
function conversationOf(request: IncomingMessage, body: Json | undefined): string | undefined {
  const given = request.headers[CONVERSATION_HEADER];
  if (typeof given === "string" && given !== "") {
    if (given.length > MAX_CONVERSATION_ID) throw invalidField(CONVERSATION_HEADER, "must have at most 256 characters");
    return `given ${given}`;
  }
  if (!isMap(body)) return undefined;
  const { conversation, previous_response_id: previous } = body;
  const id = isMap(conversation) ? conversation.id : conversation;
  if (typeof id === "string") return `conversation ${id}`;
  return typeof previous === "string" ? `response ${previous}` : undefined;
}

function asksForJson(body: Json | undefined): boolean {
  if (!isMap(body)) return false;
  const format = isMap(body.text) ? body.text.format : body.response_format;
  return isMap(format) && typeof format.type === "string" && format.type.startsWith("json");
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch (error) {
    throw invalidField("path", "is not encoded as a URL is", error);
  }
}

/** Throws NOT_SCRUBBABLE for a path or query with a personal value, which nothing can take the place of. */
function assertPlain({ scrubber }: WorkspaceScrubber, { path, query }: ProxyTarget): void {
  const parts = [["path", decoded(path)], ...[...new URLSearchParams(query)].flat().map((part) => ["query", part])];
  for (const [field = "", part = ""] of parts) {
    const [finding] = scrubber.find(part);
    if (finding !== undefined) throw notScrubbable(field, `holds a personal value (\`${finding.kind}\`)`);
  }
}

function modelOf({ scrubber }: WorkspaceScrubber, body: Json | undefined): string | null {
  const model = isMap(body) ? body.model : undefined;
  if (typeof model !== "string" || !MODEL.test(model)) return null;
  return scrubber.find(model).length === 0 ? model : null;
}

/**
 * Reads a request and hides its personal values. Rejects with BODY_TOO_LARGE, BODY_TOO_DEEP, MALFORMED_JSON,
 * UNSUPPORTED_MEDIA_TYPE, NOT_SCRUBBABLE, INVALID_FIELD and CANCELLED.
 */
export async function hiddenRequest(
  { conversations, maxBodyBytes }: RequestContext,
  request: IncomingMessage,
  target: ProxyTarget,
  workspace: WorkspaceScrubber & { readonly keyId: string },
): Promise<HiddenRequest> {
  const { scrubber, settings, keyId } = workspace;
  assertPlain(workspace, target);
  const body = await jsonFrom(request, maxBodyBytes);
  const conversation = conversationOf(request, body);
  // With the revision: placeholders hide what was registered when they were created.
  const keyOf = (id: string): string => JSON.stringify([target.workspaceId, keyId, settings.revision, id]);
  const known = conversation === undefined ? undefined : conversations.get(keyOf(conversation));
  const placeholders = known ?? createPlaceholders({ scrubber });
  const hidden = body === undefined ? undefined : hiddenBody(placeholders, settings.allowMedia, body);
  if (conversation !== undefined) conversations.keep(keyOf(conversation), placeholders);
  return {
    body: hidden,
    placeholders,
    isJson: asksForJson(body),
    model: modelOf(workspace, body),
    keepFor: (responseId) => conversations.keep(keyOf(`response ${responseId}`), placeholders),
  };
}

function hiddenBody(placeholders: Placeholders, allowMedia: boolean, body: Json): Buffer {
  try {
    return Buffer.from(JSON.stringify(hideRequest({ placeholders, allowMedia }, body)));
  } catch (error) {
    // The stack ran over.
    if (!(error instanceof RangeError)) throw error;
    throw new ControlPlaneError(ErrorReason.BODY_TOO_DEEP, "the body nests too deeply");
  }
}
