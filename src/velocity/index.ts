export type { History, HistoryCount, HistoryEntry, MissingHistory } from "./history.ts";
export { createLinkState, type LinkLog, type LinkState } from "./link-state.ts";
export type { Membership } from "./membership.ts";
export { createMirror, type Mirror, type MirrorEnd, type MirrorOptions } from "./mirror.ts";
export type { MirrorSource } from "./mirror-source.ts";
export type { MirrorEntry } from "./mirror-store.ts";
export { createOrderedSequences, type OrderedReplay, type OrderedSequences } from "./ordered.ts";
export {
  createVelocityJournal,
  createVelocityWindows,
  type VelocityJournal,
  type VelocityWindows,
} from "./windows.ts";
