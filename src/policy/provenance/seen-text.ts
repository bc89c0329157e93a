import type { Sighting } from "../../provenance/sources.ts";
import type { SoughtValue } from "./argument-values.ts";
import type { Origins, TrustedSource } from "./trust.ts";

/** Maximum tools and sources that a sentence names. */
const MAX_NAMED = 3;

/** Joins names: "`a`, `b` and 2 more". */
function joined(names: readonly string[], last: string): string {
  const rest = names.length - MAX_NAMED;
  const shown = rest > 0 ? [...names.slice(0, MAX_NAMED), `${rest} more`] : names;
  return shown.length < 2
    ? shown.join("")
    : `${shown.slice(0, -1).join(", ")} ${rest > 0 ? "and" : last} ${shown.at(-1)}`;
}

/** Lists where values, or parts of them, were seen, each place once. */
export function sightingsOf(values: readonly SoughtValue[], { checks, knowledge }: Origins): readonly Sighting[] {
  const found = new Map<string, Sighting>();
  for (const { whole, parts } of values) {
    for (const form of [...whole, ...parts]) {
      for (const sighting of checks.provenance.sightingsOf(knowledge, form)) {
        found.set(`${sighting.source} ${sighting.tool ?? ""}`, sighting);
      }
    }
  }
  return [...found.values()];
}

/** Tells where values were seen: "in a result of `read_inbox`". Names no value. */
export function seenText(sightings: readonly Sighting[]): string {
  const toolsOf = (...sources: readonly Sighting["source"][]): readonly string[] => [
    ...new Set(
      sightings.flatMap(({ source, tool }) => (sources.includes(source) && tool !== undefined ? [`\`${tool}\``] : [])),
    ),
  ];
  const places: string[] = [];
  if (sightings.some(({ source }) => source === "prompt")) places.push("in the request");
  const results = toolsOf("untrusted", "lookup");
  if (results.length > 0) places.push(`in a result of ${joined(results, "and")}`);
  const made = toolsOf("session");
  if (made.length > 0) places.push(`in what the agent made with ${joined(made, "and")}`);
  if (places.length === 0 && sightings.length > 0) places.push("in what the agent read");
  return places.length === 0 ? "nowhere in the session" : places.join(" and ");
}

const SOURCE_TEXTS = {
  prompt: "in the request",
  lookup: "in a trusted part of a result",
  session: "in what the agent made",
  contract: "in the intent contract",
  approved: "among the approved values",
} as const;

/** Names sources: "in the request, among the approved values or in list `partners`". */
export function sourcesText(trusted: readonly TrustedSource[]): string {
  const names = trusted.map((source) =>
    source.kind === "list" ? `in list \`${source.name}\`` : SOURCE_TEXTS[source.kind],
  );
  return joined(names, "or");
}
