import type { JsonObject } from "@bufbuild/protobuf";
import type { Work } from "../async/work.ts";
import { packDigests } from "../provenance/digests.ts";
import { findInText } from "../provenance/found-values.ts";
import { findInArguments, findInResult, type ToolProvenance } from "../provenance/result-values.ts";
import { OBSERVED_SOURCES, type ObservedSource } from "../provenance/sources.ts";

/** Content of which the digests are wanted. */
export interface ContentJob {
  /** Key of the session. */
  readonly key: Uint8Array;
  readonly source: "prompt" | "result";
  readonly content: string;
  /** Declaration of the tool's registration about results and arguments; undefined where nothing of the result is trusted. */
  readonly declared: ToolProvenance | undefined;
  /** Arguments of the call. */
  readonly args: JsonObject;
}

/** Sorted digests by source, joined. */
export type ContentDigests = Readonly<Partial<Record<ObservedSource, Buffer>>>;

type ContentValues = Readonly<Partial<Record<ObservedSource, ReadonlySet<string>>>>;

function* valuesOf({ source, content, declared, args }: ContentJob): Work<ContentValues> {
  if (source === "prompt") {
    const prompt = new Set<string>();
    yield* findInText(content, prompt);
    return { prompt };
  }
  const { lookup, session, untrusted } = yield* findInResult(declared, content);
  const made = yield* findInArguments(declared, args);
  return { lookup, session: new Set([...session, ...made]), untrusted };
}

/** Returns the digests of the values in a content. */
export function* digestsOfContent(job: ContentJob): Work<ContentDigests> {
  const digests: Partial<Record<ObservedSource, Buffer>> = {};
  const values = yield* valuesOf(job);
  for (const source of OBSERVED_SOURCES) {
    const packed = yield* packDigests(job.key, values[source] ?? []);
    if (packed.length > 0) digests[source] = packed;
  }
  return digests;
}
