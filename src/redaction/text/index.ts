export { createPlaceholders } from "./placeholders.ts";
export { compileScrubber } from "./scrubber.ts";
export {
  DETECTED_KINDS,
  type Finding,
  type KindCounts,
  PERSONAL_KINDS,
  type PersonalKind,
  type PlaceholderReader,
  type PlaceholderReading,
  type Placeholders,
  type PlaceholdersOptions,
  REGISTERED_KINDS,
  type RegisteredValue,
  type Replace,
  type Scrubber,
  type ScrubberOptions,
  type ScrubberStream,
  type ScrubOptions,
  type StreamOptions,
} from "./types.ts";
