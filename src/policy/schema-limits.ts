/** What a tool's schema may be at most. */
export const SCHEMA_LIMITS = {
  /** Bytes of the schema as JSON in UTF-8. */
  bytes: 256 * 1024,
  /** Argument paths. */
  paths: 2000,
  /** Steps of one argument path; a recursive schema is cut there instead of refused. */
  depth: 32,
  /** Nesting of the schema's own JSON: each step of a path takes two levels, the rest is for `anyOf` and the like. */
  nesting: 128,
  /** How often a `$ref` may lead back into a definition that is being unfolded, along one path. */
  recursion: 2,
  /** Subschemas visited, counted again wherever a `$ref` unfolds one. */
  visits: 20_000,
} as const;
