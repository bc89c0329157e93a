/** Effects of tools, by how much is lost when a call was wrong. */
export const EFFECTS = ["read", "write", "destroy", "send", "pay"] as const;
export type Effect = (typeof EFFECTS)[number];

/** Meanings of the effects, for people. */
export const EFFECT_TEXTS: Readonly<Record<Effect, string>> = {
  read: "looks something up and changes nothing",
  write: "changes what can be restored",
  destroy: "changes what cannot be undone, such as deleting, or giving away a right",
  send: "reaches other people or systems",
  pay: "spends money",
};

/** Kinds of arguments that provenance rules know. */
export const KINDS = ["destination", "credential", "host", "resource", "path", "number", "text"] as const;
export type Kind = (typeof KINDS)[number];

/** Tests whether a word is one of a list. */
export const isOneOf = <Word extends string>(words: readonly Word[], value: unknown): value is Word =>
  words.some((word) => word === value);
