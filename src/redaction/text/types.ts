/** What kinds of personal values detectors find by their shape, check digits and context. */
export const DETECTED_KINDS = [
  "email",
  "phone",
  "payment_card",
  "iban",
  "us_ssn",
  "national_id",
  "ip_address",
  "date_of_birth",
] as const;

/** What kinds of values a workspace registers, found by their text. */
export const REGISTERED_KINDS = ["person_name", "account_number", "other"] as const;

/** Every kind of personal value. A workspace may register values of every kind. */
export const PERSONAL_KINDS = [...DETECTED_KINDS, ...REGISTERED_KINDS] as const;

/** A kind of personal value. */
export type PersonalKind = (typeof PERSONAL_KINDS)[number];

/** A value that a workspace registered. */
export interface RegisteredValue {
  readonly kind: PersonalKind;
  /** 2 to 256 UTF-16 units after trimming. Compared without regard to case, form and runs of white space. */
  readonly value: string;
}

/** A personal value in a text. */
export interface Finding {
  readonly kind: PersonalKind;
  /** Index of the first UTF-16 unit. */
  readonly start: number;
  /** Index after the last UTF-16 unit. */
  readonly end: number;
}

/**
 * Gives what takes the place of a value. MUST NOT hold the value itself. Called once for each finding, in order.
 * Default: the kind in brackets, such as `[EMAIL]`.
 */
export type Replace = (kind: PersonalKind, value: string) => string;

/** How often values of each kind were found; kinds that were not are left out. */
export type KindCounts = ReadonlyMap<PersonalKind, number>;

/** What a scrubber is compiled from. */
export interface ScrubberOptions {
  /** Values that the workspace registered; a value given twice keeps its first kind. */
  readonly registered: readonly RegisteredValue[];
  /**
   * What is no personal value: exact values, compared as registered ones are, and every e-mail address of a domain, written
   * `*@example.com`. Registered values are found even so.
   */
  readonly allow: readonly string[];
  /** The detectors that look; registered values are found always. Default: all. */
  readonly kinds?: readonly PersonalKind[];
}

/** How one text is scrubbed. */
export interface ScrubOptions {
  readonly replace?: Replace;
}

/** How a stream is scrubbed. */
export interface StreamOptions {
  /** Takes the place of values. Default: the kind in brackets. */
  readonly replace?: Replace;
  /** The placeholders that may stand in the text. They are never findings. Default: none. */
  readonly placeholders?: PlaceholderReader;
  /** Whether placeholders become the values they stand for; otherwise they are left as they are. */
  readonly restore: boolean;
  /** How a restored value is written, for text in which it needs escapes. Default: as it is. */
  readonly write?: (value: string) => string;
}

/**
 * Scrubs one text that comes in chunks, split anywhere. What `push` and `end` gave, joined, is what the whole text would
 * have given. A call that throws gives nothing, and so does every one after it: throw the stream away.
 */
export interface ScrubberStream {
  /** Takes the next chunk. Gives what can no longer be part of a value; often empty. */
  push(chunk: string): string;
  /** Gives the rest. Nothing may be pushed afterwards. */
  end(): string;
  /** Values found and scrubbed so far; restored placeholders do not count. */
  readonly leaked: number;
  /** The same by kind. */
  readonly leakedByKind: KindCounts;
}

/** Finds and scrubs the personal values of one workspace. Holds no state between calls. */
export interface Scrubber {
  /**
   * The personal values in a text, in order, none overlapping: of those that begin first the longest; what sticks out of
   * it of another is a finding of its own. Throws if a detector does.
   */
  find(text: string): Finding[];
  /** The text with every finding replaced. Throws if a detector does, so that a raw text MUST NOT come back. */
  scrub(text: string, options?: ScrubOptions): string;
  /** Opens a stream. The scrubber may be dropped meanwhile. */
  openStream(options: StreamOptions): ScrubberStream;
}

/** What stands at a `[`: nothing of ours, the beginning of what may become a placeholder, or one. */
export type PlaceholderReading =
  | { readonly kind: "none" }
  | { readonly kind: "open" }
  | { readonly kind: "placeholder"; readonly end: number; readonly value: string };

/** Knows the placeholders in a text. */
export interface PlaceholderReader {
  /** Reads what begins at `start`, which is a `[`, of a text that may end before the placeholder does. */
  read(text: string, start: number): PlaceholderReading;
}

/**
 * Placeholders of one request or conversation, such as `[EMAIL_1_KXVRT]`: the same value always gets the same one. The
 * last part is a salt, so that text from elsewhere that looks like a placeholder is not taken for one.
 */
export interface Placeholders extends PlaceholderReader {
  /**
   * Replaces every personal value by its placeholder. `restore(hide(text))` is `text`, even if it holds something that
   * looks like one of these placeholders. Throws if a detector does.
   */
  hide(text: string): string;
  /** Puts values in the place of their placeholders; leaves unknown ones. Reads them in any letter case. */
  restore(text: string): string;
  /** How many values are hidden. */
  readonly size: number;
  /** How many values of each kind are hidden. */
  readonly sizeByKind: KindCounts;
}

/** What placeholders are created from. */
export interface PlaceholdersOptions {
  /** Finds what is hidden. */
  readonly scrubber: Scrubber;
  /** Five upper-case consonants. Default: random. */
  readonly salt?: string;
}
