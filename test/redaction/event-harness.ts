import { Readable } from "node:stream";
import { pipeEvents } from "../../src/redaction/proxy/event-response.ts";
import type { ResponseOptions } from "../../src/redaction/proxy/scrub-response.ts";
import { OWN_OBJECTS } from "../../src/redaction/proxy/stored-objects.ts";
import { createPlaceholders } from "../../src/redaction/text/placeholders.ts";
import { compileScrubber } from "../../src/redaction/text/scrubber.ts";
import { PERSONAL } from "./harness.ts";

/** What came of a streamed response. */
export interface Scrubbed {
  /** Every event's name and JSON, in order; `[DONE]` as a text. */
  readonly events: readonly { readonly name: string | undefined; readonly json: unknown }[];
  /** All that went out, as it went out. */
  readonly text: string;
  readonly leaked: Record<string, number>;
  readonly responseIds: readonly string[];
  readonly isBroken: boolean;
}

/** Options of a response in a workspace that registered a name. */
export function responseOptions(options: Partial<ResponseOptions> = {}): ResponseOptions {
  const scrubber = compileScrubber({ registered: [{ kind: "person_name", value: PERSONAL.name }], allow: [] });
  const placeholders = createPlaceholders({ scrubber });
  return {
    scrubber,
    placeholders,
    restore: false,
    isJson: false,
    markIds: OWN_OBJECTS.mark,
    allowMedia: false,
    ...options,
  };
}

function eventsOf(text: string): Scrubbed["events"] {
  return text
    .split("\n\n")
    .filter((part) => part.includes("data: "))
    .map((part) => {
      const data = (part.match(/(?<=^data: ).*$/gm) ?? []).join("\n");
      return { name: /(?<=^event: ).*$/m.exec(part)?.[0], json: data === "[DONE]" ? data : JSON.parse(data) };
    });
}

/** Scrubs a stream that comes in these pieces. */
export async function scrubbed(
  path: string,
  pieces: readonly (string | Uint8Array)[],
  options: ResponseOptions = responseOptions(),
): Promise<Scrubbed> {
  let text = "";
  const responseIds: string[] = [];
  const send = async (piece: string): Promise<void> => {
    text += piece;
  };
  const body = Readable.from(pieces.map((piece) => Buffer.from(piece)));
  const held = { add: () => undefined, empty: () => undefined };
  const onResponseId = (id: string): void => void responseIds.push(id);
  const { leaked, rest, fault } = await pipeEvents({ ...options, path, send, onResponseId, held }, body);
  text += rest;
  const isBroken = fault !== undefined;
  return { events: eventsOf(text), text, leaked: Object.fromEntries(leaked), responseIds, isBroken };
}

interface Chunk {
  readonly choices?: readonly {
    readonly index: number;
    readonly delta?: {
      readonly content?: string;
      readonly tool_calls?: readonly { readonly index: number; readonly function?: { readonly arguments?: string } }[];
    };
    readonly finish_reason: string | null;
  }[];
}

/** What each choice of a chat said in the end: its content and the arguments of its calls, as a client joins them. */
export function saidIn({ events }: Scrubbed): Record<string, string> {
  const said: Record<string, string> = {};
  const add = (key: string, text: string | undefined): void => {
    if (text !== undefined) said[key] = (said[key] ?? "") + text;
  };
  for (const { json } of events) {
    for (const { index, delta, finish_reason } of (json as Chunk).choices ?? []) {
      if (`${index} finished` in said) throw new Error("something came after the finish reason");
      add(`${index}`, delta?.content);
      for (const call of delta?.tool_calls ?? []) add(`${index} call ${call.index}`, call.function?.arguments);
      if (finish_reason !== null) said[`${index} finished`] = finish_reason;
    }
  }
  return said;
}

/** A text cut at some places. */
export function cut<T extends string | Uint8Array>(text: T, places: readonly number[]): T[] {
  const sorted = [0, ...places.map((place) => place % (text.length + 1)), text.length].sort((a, b) => a - b);
  return sorted.slice(1).map((end, index) => text.slice(sorted[index], end) as T);
}
