import { readFileSync } from "node:fs";
import { join } from "node:path";
import { compileScrubber, type Scrubber, type StreamOptions } from "../../../src/redaction/text/scrubber.ts";
import type { Finding, PersonalKind, RegisteredValue } from "../../../src/text/personal-kinds.ts";

/** Texts for one detector. */
export interface Samples {
  readonly kind: PersonalKind;
  /** Texts with what is found in them between `«` and `»`; nothing else of the kind is. */
  readonly found: readonly string[];
  /** Texts in which nothing is found. */
  readonly left: readonly string[];
}

const FOLDER = join(import.meta.dirname, "../../testdata/redaction");

/** The samples of every detector. */
export const SAMPLES: readonly Samples[] = JSON.parse(readFileSync(join(FOLDER, "detectors.json"), "utf8"));

/** A text without its marks. */
export const unmarked = (text: string): string => text.replace(/[«»]/g, "");

/** Puts marks around findings. */
export function marked(text: string, findings: readonly Finding[]): string {
  return findings.reduceRight(
    (all, { start, end }) => `${all.slice(0, start)}«${all.slice(start, end)}»${all.slice(end)}`,
    text,
  );
}

/** A scrubber of registered person names, all detectors and no allow-list unless said otherwise. */
export function scrubberOf(
  names: readonly string[] = [],
  allow: readonly string[] = [],
  kinds?: PersonalKind[],
): Scrubber {
  const registered = names.map((value): RegisteredValue => ({ kind: "person_name", value }));
  return compileScrubber({ registered, allow, ...(kinds && { kinds }) });
}

/** What a stream gives for chunks, joined. */
export function streamed(
  scrubber: Scrubber,
  chunks: readonly string[],
  options: StreamOptions = { restore: false },
): string {
  const stream = scrubber.openStream(options);
  return chunks.map((chunk) => stream.push(chunk)).join("") + stream.end();
}

/** A text cut at places, in order. */
export function cutAt(text: string, places: readonly number[]): readonly string[] {
  return [0, ...places].map((place, index) => text.slice(place, places[index] ?? text.length));
}

/** Every cut of a text into three, empty parts included. */
export function* cutsIntoThree(text: string): Generator<readonly string[]> {
  for (let first = 0; first <= text.length; first++) {
    for (let second = first; second <= text.length; second++) yield cutAt(text, [first, second]);
  }
}
