import type { Candidate } from "./candidate.ts";
import { MAX_LOOK_BEHIND } from "./reach.ts";
import type { Scan } from "./scan.ts";
import { sweep } from "./sweep.ts";
import type { PersonalKind, PlaceholderReader, ScrubberStream, StreamOptions } from "./types.ts";

const PLACEHOLDER_RANK = 0;

/** What takes the place of a value where nobody says otherwise. */
export function kindInBrackets(kind: PersonalKind): string {
  return `[${kind.toUpperCase()}]`;
}

/** Adds the placeholders from `from` on; gives where the first begins that the end cuts off. */
function findPlaceholders(reader: PlaceholderReader, text: string, from: number, found: Candidate[]): number {
  for (let start = text.indexOf("[", from); start !== -1; start = text.indexOf("[", start + 1)) {
    const reading = reader.read(text, start);
    if (reading.kind === "open") return start;
    if (reading.kind === "none") continue;
    found.push({ kind: undefined, start, end: reading.end, rank: PLACEHOLDER_RANK, value: reading.value });
  }
  return text.length;
}

/** Candidates that begin where all are known are final; the others are found again. */
function settled(found: readonly Candidate[], from: number, safe: number): readonly Candidate[] {
  return found.filter(({ start }) => start >= from && start < safe);
}

/** Opens a stream over what a scan finds. */
export function openScrubberStream(scan: Scan, options: StreamOptions): ScrubberStream {
  const { placeholders, restore, replace = kindInBrackets, write = (value) => value } = options;
  const leakedByKind = new Map<PersonalKind, number>();
  let isOver = false;
  let leaked = 0;
  // What came and is not out yet, after as much of what is out as is looked back at.
  let text = "";
  let scanned = 0;
  let written = 0;
  let waiting: Candidate[] = [];

  const replacementOf = ({ kind, value = "", start: first, end }: Candidate, start: number): string => {
    if (kind === undefined) return restore ? write(value) : text.slice(first, end);
    leaked += 1;
    leakedByKind.set(kind, (leakedByKind.get(kind) ?? 0) + 1);
    return replace(kind, text.slice(start, end));
  };

  const settle = (safe: number): string => {
    let out = "";
    let from = written;
    const to = sweep(waiting, written, safe, (candidate, start) => {
      out += text.slice(from, start) + replacementOf(candidate, start);
      from = candidate.end;
    });
    out += text.slice(from, to);
    written = to;
    return out;
  };

  const forget = (): void => {
    const cut = Math.min(scanned, written) - MAX_LOOK_BEHIND;
    // Seldom: cutting costs more than holding a little more.
    if (cut < MAX_LOOK_BEHIND) return;
    text = text.slice(cut);
    scanned -= cut;
    written -= cut;
    waiting = waiting.map((candidate) => ({ ...candidate, start: candidate.start - cut, end: candidate.end - cut }));
  };

  const advance = (chunk: string, isWhole: boolean): string => {
    if (isOver) throw new Error("the stream has ended");
    // Until this went well: after a failure nobody knows what the rest holds.
    isOver = true;
    text += chunk;
    const found: Candidate[] = [];
    const scannedTo = scan(text, scanned, isWhole, found);
    const readTo = placeholders === undefined ? text.length : findPlaceholders(placeholders, text, scanned, found);
    const safe = isWhole ? text.length : Math.min(scannedTo, readTo);
    if (found.length > 0) waiting = waiting.concat(settled(found, scanned, safe));
    const out = settle(safe);
    scanned = safe;
    forget();
    isOver = isWhole;
    return out;
  };

  return {
    push: (chunk) => advance(chunk, false),
    end: () => advance("", true),
    get leaked() {
      return leaked;
    },
    get leakedByKind() {
      return new Map(leakedByKind);
    },
  };
}
