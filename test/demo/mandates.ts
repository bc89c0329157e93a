/** Calls of `list_directory` that all agents together may make in a minute. */
export const LISTINGS_A_MINUTE = 5;

const writesTo = (operator: string, value: string) => ({
  type: "argument",
  tool: "write_file",
  conditions: { operator: "AND", rules: [{ field: "path", operator, value }] },
});

/** What the demo publishes: typed rules over the path that is written to, and a limit that all agents share. */
export const MANDATES: readonly object[] = [
  {
    name: "the vault is read-only",
    rules: [{ ...writesTo("contains", "/vault/"), decision: "block", description: "nobody writes to the vault" }],
  },
  {
    name: "settings need a human",
    rules: [{ ...writesTo("ends_with", ".conf"), decision: "escalate", description: "a person looks at settings" }],
  },
  {
    name: "listings are limited",
    rules: [
      {
        type: "sequence",
        decision: "block",
        conditions: {
          mode: "velocity",
          match_action_types: ["fs.list*"],
          max_count: LISTINGS_A_MINUTE,
          window_seconds: 60,
          scope: "workspace",
        },
      },
    ],
  },
];
