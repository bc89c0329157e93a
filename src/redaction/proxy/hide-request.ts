import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { Turns } from "../../async/turns.ts";
import { doInTurns, type Work } from "../../async/work.ts";
import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";
import { type JsonBounds, JsonFault, readJson } from "../../json/read-json.ts";
import { writeJson } from "../../json/write-json.ts";
import { PhoneLookups } from "../../text/detectors/phone-lookups.ts";
import type { WorkspaceScrubber } from "../scrubbers.ts";
import { hideInText } from "../text/document-text.ts";
import { createPlaceholders, type Placeholders } from "../text/placeholders.ts";
import type { Conversations } from "./conversations.ts";
import { isJsonType, mediaTypeOf, readRequestBody } from "./http-messages.ts";
import { isMedia, isMediaAlone, isMediaMember, isMediaText, isMediaUrl, textOfDataUrl } from "./media.ts";
import type { ProxyTarget } from "./operations.ts";
import { isBytes, isMap, isPlainName, type Json, type JsonMap, notScrubbable } from "./protocol.ts";
import type { StoredObjects } from "./stored-objects.ts";

/** A request to a model with placeholders for its personal values. */
export interface HiddenRequest {
  /** Body of the request, if any. */
  readonly body: Buffer | undefined;
  readonly placeholders: Placeholders;
  /** True if the response is to be a JSON document. */
  readonly isJson: boolean;
  /** True if the response is to be a stream of events. */
  readonly isStream: boolean;
  /** Name of the model; null if it is missing or could be a personal value. */
  readonly model: string | null;
  /** Keeps the placeholders for requests that continue a response, if there is room. */
  keepFor(responseId: string): void;
  /** Ends the use of the conversation; it may then be forgotten to make room. */
  end(): void;
}

/** Parts that hide a request. */
export interface RequestContext {
  readonly conversations: Conversations;
  readonly maxBodyBytes: number;
  /** Counts bytes of a body as they arrive. Throws OVERLOADED if the requests in flight hold too many. */
  readonly hold: (bytes: number) => void;
}

/** Bounds of a body, which are those of other requests but for the nesting, since schemas of tools nest deeper. */
const BODY_BOUNDS: JsonBounds = { maxDepth: 128, maxValues: 60_000 };
/** Maximum number and characters of the values in one conversation; a larger conversation starts over. */
const MAX_VALUES = 10_000;
const MAX_VALUE_TEXT = 1_048_576;
const CONVERSATION_HEADER = "x-conversation-id";
const MAX_CONVERSATION_ID = 256;
const MODEL = /^[\w.:/-]{1,128}$/;

function unsupported(message: string): ControlPlaneError {
  return new ControlPlaneError(ErrorReason.UNSUPPORTED_MEDIA_TYPE, message);
}

async function readBody(
  request: IncomingMessage,
  context: Pick<RequestContext, "maxBodyBytes" | "hold">,
  objects: StoredObjects,
): Promise<Json | undefined> {
  const body = await readRequestBody(request, context);
  if (body.length === 0) return undefined;
  if (!isJsonType(mediaTypeOf(request.headers))) {
    throw unsupported("only a body of `application/json` can be scrubbed; files and forms are refused");
  }
  const encoding = request.headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") throw unsupported("the body must not be compressed");
  if (!isUtf8(body)) throw notJson();
  return within(async () => objects.open((await readJson(body.toString("utf8"), BODY_BOUNDS)) as Json));
}

const notJson = (): ControlPlaneError =>
  new ControlPlaneError(ErrorReason.MALFORMED_JSON, "the body is not JSON in UTF-8");

/** Returns the key of the conversation that a request continues. */
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

/** Throws NOT_SCRUBBABLE for a personal value in the path, because a placeholder would change the target. */
function assertPlain({ scrubber }: WorkspaceScrubber, { path }: ProxyTarget): void {
  const [finding] = scrubber.find(path);
  if (finding !== undefined) throw notScrubbable("path", `holds a personal value (\`${finding.kind}\`)`);
}

function modelOf({ scrubber }: WorkspaceScrubber, body: Json | undefined): string | null {
  const model = isMap(body) ? body.model : undefined;
  if (typeof model !== "string" || !MODEL.test(model)) return null;
  return scrubber.find(model).length === 0 ? model : null;
}

/**
 * Reads a request and hides its personal values. Rejects with OVERLOADED, BODY_TOO_LARGE, BODY_TOO_DEEP, MALFORMED_JSON,
 * UNSUPPORTED_MEDIA_TYPE, NOT_SCRUBBABLE, INVALID_FIELD and CANCELLED.
 */
export async function readHiddenRequest(
  context: RequestContext,
  request: IncomingMessage,
  target: ProxyTarget,
  workspace: WorkspaceScrubber & {
    readonly keyId: string;
    readonly agentId: string | null;
    readonly objects: StoredObjects;
  },
): Promise<HiddenRequest> {
  const { scrubber, settings, keyId, agentId, objects } = workspace;
  const holder = { workspaceId: target.workspaceId, agentId };
  assertPlain(workspace, target);
  const { conversations } = context;
  const body = await readBody(request, context, objects);
  const conversation = conversationOf(request, body);
  // The key includes the revision, since placeholders use the scrubber of their revision.
  const keyOf = (id: string): string => JSON.stringify([target.workspaceId, keyId, settings.revision, id]);
  const known = conversation === undefined ? undefined : conversations.get(keyOf(conversation));
  const isReusable = known !== undefined && known.size <= MAX_VALUES && known.textLength <= MAX_VALUE_TEXT;
  const placeholders = isReusable ? known : createPlaceholders({ scrubber });
  const hidden = body === undefined ? undefined : await hideBody(placeholders, settings.allowMedia, body);
  const [isJson, model] = [asksForJson(body), modelOf(workspace, body)];
  // Last, because a use that began must end.
  const end =
    conversation === undefined ? () => undefined : conversations.keep(holder, keyOf(conversation), placeholders);
  return {
    body: hidden,
    placeholders,
    isJson,
    isStream: isMap(body) && body.stream === true,
    model,
    keepFor(responseId) {
      conversations.keepIfRoom(holder, keyOf(`response ${responseId}`), placeholders);
    },
    end,
  };
}

/** Hides the values of a body over several event-loop turns: collects its texts, hides each, and puts them back. */
async function hideBody(placeholders: Placeholders, allowMedia: boolean, body: Json): Promise<Buffer> {
  const texts = new Set<string>();
  const collect = (text: string): string => {
    texts.add(text);
    return text;
  };
  await within(() => doInTurns(hideRequest({ hide: collect, allowMedia }, body)));
  const hidden = new Map<string, string>();
  const shared = { turns: new Turns(), lookups: new PhoneLookups() };
  for (const text of texts) hidden.set(text, await placeholders.hide(text, shared));
  const hide = (text: string): string => {
    const known = hidden.get(text);
    if (known === undefined) throw new Error("a text of the body was not collected");
    return known;
  };
  return Buffer.from(await writeJson(await doInTurns(hideRequest({ hide, allowMedia }, body))));
}

/** Runs work on a body. Rejects with the refusal of a body, or of a JSON document in it, that exceeds its bounds. */
async function within<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    // Without the cause, which may quote the body.
    if (error.kind === "malformed") throw notJson();
    if (error.kind === "too_deep") throw new ControlPlaneError(ErrorReason.BODY_TOO_DEEP, "the body nests too deeply");
    const text = "the body, or a JSON document in a text of it, holds too many values; send less at once";
    throw new ControlPlaneError(ErrorReason.BODY_TOO_LARGE, text);
  }
}

/** Options for hiding the body of a request. */
interface HideOptions {
  /** Hides the values of a text that is not a JSON document. */
  readonly hide: (text: string) => string;
  /** True passes images, audio and files unchanged; false refuses them. */
  readonly allowMedia: boolean;
}

const MEDIA_REFUSED =
  "is an image, audio, a file or other bytes, which cannot be scrubbed; the workspace may allow it with `allow_media`";
const TOKENS_REFUSED = "holds token numbers, which cannot be scrubbed; send text";
/** Members that may hold text as token numbers. */
const TOKEN_MEMBERS = new Set(["input", "prompt"]);
function assertNoTokens(name: string, path: string, list: readonly Json[]): void {
  if (!TOKEN_MEMBERS.has(name)) return;
  const areNumbers = (items: readonly Json[]): boolean => items.some((item) => typeof item === "number");
  if (areNumbers(list) || list.some((item) => Array.isArray(item) && areNumbers(item))) {
    throw notScrubbable(path, TOKENS_REFUSED);
  }
}

/**
 * Hides the personal values in a body: in every text, whatever the name of its member, and in names of members outside of the
 * protocol. Throws NOT_SCRUBBABLE for media and token numbers.
 */
function* hideRequest({ hide: hidePlain, allowMedia }: HideOptions, body: Json): Work<Json> {
  let values = 0;

  /** Hides the values of a text that may be media, such as a picture's URL or a file's bytes. */
  const hideMediaText = function* (path: string, text: string, isInMedia: boolean): Work<string> {
    if (isMediaUrl(text) || (isInMedia && isMediaText(text))) return text;
    const held = textOfDataUrl(text);
    if (held === undefined) return yield* hideInText(hidePlain, text);
    if ((yield* hideInText(hidePlain, held)) !== held)
      throw notScrubbable(path, "is a `data:` URL whose text holds a personal value");
    return text;
  };

  const hideMember = function* (path: string, name: string, value: Json, isInMedia: boolean): Work<[string, Json]> {
    const isMediaHere = isMediaMember(name, value);
    if (!allowMedia && isMediaHere) throw notScrubbable(path, MEDIA_REFUSED);
    const shown = isPlainName(name) ? name : yield* hideInText(hidePlain, name);
    return [shown, yield* hide(path, name, value, isInMedia || isMediaHere)];
  };

  const hideMap = function* (path: string, value: JsonMap, isInMedia: boolean): Work<Json> {
    const isMediaHere = isMedia(value);
    if (isMediaHere && !allowMedia) throw notScrubbable(path, MEDIA_REFUSED);
    const at = (name: string): string => (path === "" ? name : `${path}.${name}`);
    // Errors do not quote names of unknown members, which may be personal.
    const pathOf = (name: string): string => (isPlainName(name) ? at(name) : path);
    const members: [string, Json][] = [];
    for (const [name, member] of Object.entries(value)) {
      members.push(yield* hideMember(pathOf(name), name, member, isInMedia || isMediaHere));
    }
    return Object.fromEntries(members);
  };

  const hide = function* (path: string, name: string, value: Json, isInMedia: boolean): Work<Json> {
    values += 1;
    if (values % PIECE === 0) yield;
    if (typeof value === "string") {
      const isMediaHere = !isBytes(name) && isMediaAlone(value);
      if (isMediaHere && !allowMedia) throw notScrubbable(path, MEDIA_REFUSED);
      return isInMedia || isMediaHere
        ? yield* hideMediaText(path, value, isInMedia)
        : yield* hideInText(hidePlain, value);
    }
    if (typeof value === "number") {
      const text = String(value);
      const hidden = yield* hideInText(hidePlain, text);
      return hidden === text ? value : hidden;
    }
    if (isMap(value)) return yield* hideMap(path, value, isInMedia);
    if (!Array.isArray(value)) return value;
    assertNoTokens(name, path, value);
    const items: Json[] = [];
    for (const [index, item] of value.entries()) items.push(yield* hide(`${path}[${index}]`, name, item, isInMedia));
    return items;
  };

  return yield* hide("", "", body, false);
}

/** Values that are hidden between two looks at the clock. */
const PIECE = 256;
