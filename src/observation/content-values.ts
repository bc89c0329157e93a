import type { JsonObject } from "@bufbuild/protobuf";
import type { Work } from "../async/work.ts";
import { BoundedValues } from "../provenance/bounded-values.ts";
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

/** Digests of the values in a content. */
export interface ContentDigests {
  /** Sorted digests by source, joined. */
  readonly digests: Readonly<Partial<Record<ObservedSource, Buffer>>>;
  /** True if a source has more values than a session keeps: untrusted ones are then left out, of others there are the first. */
  readonly isCut: boolean;
}

type ContentValues = Readonly<Partial<Record<ObservedSource, readonly BoundedValues[]>>>;

function* valuesOf({ source, content, declared, args }: ContentJob): Work<ContentValues> {
  if (source === "prompt") {
    const prompt = new BoundedValues();
    yield* prompt.collect((into) => findInText(content, into));
    return { prompt: [prompt] };
  }
  const { lookup, session, untrusted } = yield* findInResult(declared, content);
  const made = yield* findInArguments(declared, args);
  return { lookup: [lookup], session: [session, made], untrusted: [untrusted] };
}

/** Returns the digests of the values in a content. */
export function* digestsOfContent(job: ContentJob): Work<ContentDigests> {
  const digests: Partial<Record<ObservedSource, Buffer>> = {};
  const values = yield* valuesOf(job);
  let isCut = false;
  for (const source of OBSERVED_SOURCES) {
    const found = values[source] ?? [];
    const isCutHere = found.some((each) => each.isCut);
    isCut ||= isCutHere;
    // A session takes untrusted values whole or not at all.
    if (isCutHere && source === "untrusted") continue;
    const packed = yield* packDigests(
      job.key,
      found.flatMap((each) => [...each]),
    );
    if (packed.length > 0) digests[source] = packed;
  }
  return { digests, isCut };
}
