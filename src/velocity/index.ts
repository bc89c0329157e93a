export type { VelocityJournal } from "./matcher.ts";
export type { Membership } from "./membership.ts";
export {
  createVelocityJournal,
  createVelocityWindows,
  type HistoryRow,
  type MissingHistory,
  type VelocityWindows,
} from "./windows.ts";
