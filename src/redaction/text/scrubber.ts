import { invalidField } from "../../errors.ts";
import { isDetectable } from "../../text/detectable.ts";
import { createIpAddress, email, phone } from "../../text/detectors/contact.ts";
import type { Detector } from "../../text/detectors/detector.ts";
import { iban, paymentCard } from "../../text/detectors/financial.ts";
import { dateOfBirth, nationalId, usSsn } from "../../text/detectors/identity.ts";
import { PhoneLookups } from "../../text/detectors/phone-lookups.ts";
import { normalisedForms, normaliseText } from "../../text/normalise.ts";
import type { Finding, KindCounts, PersonalKind, RegisteredValue } from "../../text/personal-kinds.ts";
import { createAddressTest } from "../../webhook/address-ranges.ts";
import { createRegisteredSearch, createSecretSearch } from "./registered-search.ts";
import { type Candidate, resolveOverlaps } from "./resolve-overlaps.ts";
import { createScan, MAX_FOLDED_LOOK_BEHIND, MAX_LOOK_BEHIND, type Scan, type ScanParts } from "./scan.ts";

/** Every detector. Among detectors that find the same range, the first wins. */
export const DETECTORS: readonly Detector[] = [
  email,
  iban,
  paymentCard,
  usSsn,
  dateOfBirth,
  nationalId,
  phone,
  createIpAddress(createAddressTest([])),
];

/**
 * Returns the replacement of a value. The replacement MUST NOT contain the value. Called once for each finding, in order.
 * Default: the kind in brackets, such as `[EMAIL]`.
 */
export type Replace = (kind: PersonalKind, value: string) => string;

/** Source of a compiled scrubber. */
export interface ScrubberOptions {
  /** Registered values; the first of two equal ones sets the kind. */
  readonly registered: readonly RegisteredValue[];
  /**
   * Exceptions for detectors, not for registered values: exact values, compared like registered values, and all addresses of an
   * e-mail domain, written `*@example.com`.
   */
  readonly allow: readonly string[];
  /** Enabled detectors. Default: all. */
  readonly kinds?: readonly PersonalKind[];
}

/** Result of reading at a `[`: no placeholder, the possible beginning of a placeholder, or a placeholder. */
export type PlaceholderReading =
  | { readonly kind: "none" }
  | { readonly kind: "open" }
  | { readonly kind: "placeholder"; readonly end: number; readonly value: string };

/** Recognises placeholders. */
export interface PlaceholderReader {
  /** Reads at index `start`, which is a `[`, in a text that may end within the placeholder. */
  read(text: string, start: number): PlaceholderReading;
}

/** Options of a stream. */
export interface StreamOptions {
  readonly replace?: Replace;
  /** Reader of placeholders in the text, which are never findings. Default: placeholders are not read. */
  readonly placeholders?: PlaceholderReader;
  /** True replaces placeholders by their values; false keeps them. */
  readonly restore: boolean;
  /** Encodes a restored value, for text that needs escapes. Default: unchanged. */
  readonly write?: (value: string) => string;
  /** Called for each finding, in order, with its position in the whole text. */
  readonly onFinding?: (finding: Finding) => void;
  /** Lookups that the texts of a request share. Default: new lookups. */
  readonly lookups?: PhoneLookups;
}

/**
 * Scrubs a text that arrives in arbitrary chunks. The joined output of `push` and `end` equals the output for the whole text. If
 * a call throws, it outputs nothing, and every later call throws too: discard the stream.
 */
export interface ScrubberStream {
  /** Takes the next chunk. Returns the text that can no longer be part of a value, which is often empty. */
  push(chunk: string): string;
  /** Returns the rest. `push` MUST NOT be called afterwards. */
  end(): string;
  /** Number of scrubbed values so far, by kind; restored placeholders do not count. */
  readonly leaked: KindCounts;
}

/** Finds and scrubs the personal values of one workspace. Stateless between calls. */
export interface Scrubber {
  /** Returns the personal values in a text in order, without overlaps (see `resolveOverlaps`). Throws if a detector does. */
  find(text: string): Finding[];
  /** Replaces every finding. Throws if a detector throws; it MUST NOT return unscrubbed text. */
  scrub(text: string, replace?: Replace): string;
  /** Opens a stream, which may outlive the scrubber. */
  openStream(options: StreamOptions): ScrubberStream;
}

const PLACEHOLDER_RANK = 0;
const DOMAIN = /^\*@([^@*\s]+)$/;

const bracketedKind: Replace = (kind) => `[${kind.toUpperCase()}]`;

/** Creates a scrubber from its parts. */
export function createScrubber(parts: ScanParts): Scrubber {
  const scan = createScan(parts);

  const find = (text: string): Finding[] => {
    const candidates: Candidate[] = [];
    const findings: Finding[] = [];
    resolveOverlaps(
      candidates,
      0,
      scan(text, 0, true, candidates, { lookups: new PhoneLookups(), isPlain: isDetectable(text) }),
      ({ kind, end }, start) => {
        if (kind !== undefined) findings.push({ kind, start, end });
      },
    );
    return findings;
  };

  return {
    find,
    scrub(text, replace = bracketedKind) {
      let out = "";
      let from = 0;
      for (const { kind, start, end } of find(text)) {
        out += text.slice(from, start) + replace(kind, text.slice(start, end));
        from = end;
      }
      return out + text.slice(from);
    },
    openStream: (options) => new ScanStream(scan, options),
  };
}

/**
 * Compiles a scrubber. For a registered value of a wrong length, or a malformed entry of the allow-list, it throws INVALID_FIELD,
 * which names the entry.
 */
export function compileScrubber({ registered, allow, kinds }: ScrubberOptions): Scrubber {
  return createScrubber({
    detectors: kinds === undefined ? DETECTORS : DETECTORS.filter(({ kind }) => kinds.includes(kind)),
    registered: registered.length === 0 ? undefined : createRegisteredSearch(registered),
    isAllowed: compileAllowList(allow),
  });
}

/** Compiles a scrubber for one secret of the service, anywhere in a text. `secret` MUST have 2 characters or more. */
export function compileSecretScrubber(secret: string): Scrubber {
  return createScrubber({ detectors: [], registered: createSecretSearch(secret), isAllowed: () => false });
}

function compileAllowList(entries: readonly string[]): (value: string) => boolean {
  const values = new Set<string>();
  const domains = new Set<string>();
  for (const [index, entry] of entries.entries()) {
    const text = normaliseText(entry);
    const domain = DOMAIN.exec(text)?.[1];
    if (text === "" || (text.includes("*") && domain === undefined)) {
      throw invalidField(`allow[${index}]`, "must be a value, or `*@` and a domain");
    }
    if (domain !== undefined) domains.add(domain);
    else for (const form of normalisedForms(entry)) values.add(form);
  }
  if (values.size === 0 && domains.size === 0) return () => false;
  return (value) => {
    const text = normaliseText(value);
    return values.has(text) || (text.includes("@") && domains.has(text.slice(text.lastIndexOf("@") + 1)));
  };
}

/** Adds the placeholders from `from` on. Returns the start of the first placeholder that the end cuts off, else the length. */
function findPlaceholders(reader: PlaceholderReader, text: string, from: number, found: Candidate[]): number {
  for (let start = text.indexOf("[", from); start !== -1; start = text.indexOf("[", start + 1)) {
    const reading = reader.read(text, start);
    if (reading.kind === "open") return start;
    if (reading.kind === "none") continue;
    found.push({ kind: undefined, start, end: reading.end, rank: PLACEHOLDER_RANK, value: reading.value });
  }
  return text.length;
}

/** Scrubs chunks. INVARIANT: text is emitted only if no later text can change the findings in it. */
class ScanStream implements ScrubberStream {
  readonly #scan: Scan;
  readonly #options: StreamOptions;
  readonly #lookups: PhoneLookups;
  readonly #leaked = new Map<PersonalKind, number>();
  #isOver = false;
  /** Input that is not yet emitted, preceded by as much emitted text as the detectors look behind. */
  #text = "";
  /** Index up to which all candidates are known. */
  #scanned = 0;
  /** Index up to which the text was emitted. */
  #emitted = 0;
  #candidates: Candidate[] = [];
  #isPlain = true;
  /** Units of the whole text before `#text`. */
  #trimmed = 0;

  constructor(scan: Scan, options: StreamOptions) {
    this.#scan = scan;
    this.#options = options;
    this.#lookups = options.lookups ?? new PhoneLookups();
  }

  get leaked(): KindCounts {
    return new Map(this.#leaked);
  }

  push(chunk: string): string {
    return this.#advance(chunk, false);
  }

  end(): string {
    return this.#advance("", true);
  }

  #advance(chunk: string, isWhole: boolean): string {
    if (this.#isOver) throw new Error("the stream has ended");
    // Reset when this call succeeds: after a failure nothing is known about the rest.
    this.#isOver = true;
    this.#text += chunk;
    this.#isPlain &&= isDetectable(chunk);
    const safe = this.#findCandidates(isWhole);
    const out = this.#emit(safe);
    this.#scanned = safe;
    this.#trim();
    this.#isOver = isWhole;
    return out;
  }

  #findCandidates(isWhole: boolean): number {
    const { placeholders } = this.#options;
    const found: Candidate[] = [];
    const scanned = this.#scan(this.#text, this.#scanned, isWhole, found, {
      lookups: this.#lookups,
      isPlain: this.#isPlain,
    });
    const read =
      placeholders === undefined ? this.#text.length : findPlaceholders(placeholders, this.#text, this.#scanned, found);
    const safe = isWhole ? this.#text.length : Math.min(scanned, read);
    // Later candidates are found again by the next scan.
    this.#candidates = this.#candidates.concat(found.filter(({ start }) => start >= this.#scanned && start < safe));
    return safe;
  }

  #emit(safe: number): string {
    let out = "";
    let from = this.#emitted;
    this.#emitted = resolveOverlaps(this.#candidates, this.#emitted, safe, (candidate, start) => {
      out += this.#text.slice(from, start) + this.#replacement(candidate, start);
      from = candidate.end;
    });
    return out + this.#text.slice(from, this.#emitted);
  }

  #replacement({ kind, value = "", start: first, end }: Candidate, start: number): string {
    const { restore, replace = bracketedKind, write = (text) => text } = this.#options;
    if (kind === undefined) return restore ? write(value) : this.#text.slice(first, end);
    this.#leaked.set(kind, (this.#leaked.get(kind) ?? 0) + 1);
    this.#options.onFinding?.({ kind, start: this.#trimmed + start, end: this.#trimmed + end });
    return replace(kind, this.#text.slice(start, end));
  }

  #trim(): void {
    const kept = this.#isPlain ? MAX_LOOK_BEHIND : MAX_FOLDED_LOOK_BEHIND;
    const cut = Math.min(this.#scanned, this.#emitted) - kept;
    // Trims rarely, since cutting costs more than keeping a little more.
    if (cut < kept) return;
    this.#text = this.#text.slice(cut);
    this.#trimmed += cut;
    this.#isPlain ||= isDetectable(this.#text);
    this.#scanned -= cut;
    this.#emitted -= cut;
    this.#candidates = this.#candidates.map((each) => ({ ...each, start: each.start - cut, end: each.end - cut }));
  }
}
