import type { Work } from "../async/work.ts";
import { packDigests } from "../provenance/digests.ts";
import { findInText } from "../provenance/found-values.ts";
import type { ObservedSource } from "../provenance/sources.ts";

/** Content of which the digests are wanted. */
export interface ContentJob {
  /** Key of the session. */
  readonly key: Uint8Array;
  readonly source: "prompt" | "result";
  readonly content: string;
}

/** Sorted digests by source, joined. */
export type ContentDigests = Readonly<Partial<Record<ObservedSource, Buffer>>>;

/** Returns the digests of the values in a content. */
export function* digestsOfContent({ key, source, content }: ContentJob): Work<ContentDigests> {
  const forms = new Set<string>();
  yield* findInText(content, forms);
  const digests = yield* packDigests(key, forms);
  if (digests.length === 0) return {};
  return source === "prompt" ? { prompt: digests } : { untrusted: digests };
}
