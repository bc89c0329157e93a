import { createAllowList } from "./allow-list.ts";
import type { Candidate } from "./candidate.ts";
import { DETECTORS } from "./detectors/index.ts";
import { createRegisteredSearch } from "./registered.ts";
import { createScan, type ScanParts } from "./scan.ts";
import { kindInBrackets, openScrubberStream } from "./stream.ts";
import { sweep } from "./sweep.ts";
import type { Finding, Scrubber, ScrubberOptions } from "./types.ts";

/** Creates a scrubber of parts. */
export function createScrubber(parts: ScanParts): Scrubber {
  const scan = createScan(parts);

  const find = (text: string): Finding[] => {
    const candidates: Candidate[] = [];
    const findings: Finding[] = [];
    sweep(candidates, 0, scan(text, 0, true, candidates), ({ kind, end }, start) => {
      if (kind !== undefined) findings.push({ kind, start, end });
    });
    return findings;
  };

  return {
    find,
    scrub(text, { replace = kindInBrackets } = {}) {
      let out = "";
      let from = 0;
      for (const { kind, start, end } of find(text)) {
        out += text.slice(from, start) + replace(kind, text.slice(start, end));
        from = end;
      }
      return out + text.slice(from);
    },
    openStream: (options) => openScrubberStream(scan, options),
  };
}

/**
 * Compiles a scrubber. Throws INVALID_FIELD that names the entry for a registered value that is too short or too long as
 * compared, and for an entry of the allow-list that is none.
 */
export function compileScrubber({ registered, allow, kinds }: ScrubberOptions): Scrubber {
  return createScrubber({
    detectors: kinds === undefined ? DETECTORS : DETECTORS.filter(({ kind }) => kinds.includes(kind)),
    registered: registered.length === 0 ? undefined : createRegisteredSearch(registered),
    isAllowed: createAllowList(allow),
  });
}
