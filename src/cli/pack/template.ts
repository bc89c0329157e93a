import { readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";
import { isJsonRecord, type JsonRecord, type JsonValue } from "../../verify/json.ts";
import { CommandError } from "../command.ts";
import type { FileTool, ToolFile } from "./tool-file.ts";
import type { Effect, Kind } from "./words.ts";

/** Folder of the packs that come with the service. */
const FOLDER = new URL("../../policy/packs/", import.meta.url);
/** Maximum rules of one mandate of a pack. */
const MAX_RULES = 50;

/** Rules of a pack that become one mandate. */
interface TemplateRule {
  readonly name: string;
  readonly kinds: readonly Kind[];
  /** Effects of the tools; undefined for all. */
  readonly effects?: readonly Effect[];
  readonly when?: string;
  readonly fires?: "not_trusted" | "seen_untrusted";
  readonly trusted: readonly string[];
  /** True if lists of the file of tools are trusted, too. */
  readonly lists?: boolean;
}

/** A pack of provenance rules, before the tools are known. */
export interface PackTemplate {
  readonly name: string;
  readonly description: string;
  readonly rules: readonly TemplateRule[];
}

/** A mandate of a pack, with the tool of each rule. */
export interface PackMandate {
  readonly definition: JsonRecord;
  readonly tools: readonly FileTool[];
}

/** Lists the names of the packs that come with the service. */
export function templateNames(): readonly string[] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith(".yaml"))
    .map((name) => name.slice(0, -".yaml".length))
    .sort();
}

/** Tests whether a pack of a name comes with the service. */
export const isTemplate = (name: string): boolean => templateNames().includes(name);

/** Reads a pack. Throws `CommandError` for a name of none. */
export function readTemplate(name: string): PackTemplate {
  if (!isTemplate(name)) throw new CommandError(`there is no pack \`${name}\`, only ${templateNames().join(" and ")}`);
  return parse(readFileSync(new URL(`${name}.yaml`, FOLDER), "utf8")) as PackTemplate;
}

/** Makes the mandates of a pack for the tools of a file. Entries that no tool fits are left out. */
export function mandatesFrom({ name, description, rules }: PackTemplate, file: ToolFile): readonly PackMandate[] {
  return rules.flatMap((rule) => {
    const made = file.tools.flatMap((tool) => {
      const definition = ruleFor(rule, tool, file);
      return definition === undefined ? [] : [{ definition, tool }];
    });
    const parts = Array.from({ length: Math.ceil(made.length / MAX_RULES) }, (_, index) =>
      made.slice(index * MAX_RULES, (index + 1) * MAX_RULES),
    );
    return parts.map(
      (part, index): PackMandate => ({
        definition: {
          name: `${name}: ${rule.name}${index === 0 ? "" : ` (${index + 1})`}`,
          description,
          rules: part.map((each) => each.definition),
        },
        tools: part.map(({ tool }) => tool),
      }),
    );
  });
}

/** Arguments of a tool about which a rule asks. */
const argumentsOf = ({ kinds }: Pick<TemplateRule, "kinds">, tool: FileTool) =>
  tool.arguments.filter(({ kind }) => kinds.includes(kind));

function ruleFor(rule: TemplateRule, tool: FileTool, { lists }: ToolFile): JsonRecord | undefined {
  if (rule.effects !== undefined && !rule.effects.includes(tool.effect)) return undefined;
  const found = argumentsOf(rule, tool);
  if (found.length === 0) return undefined;
  const bound = rule.lists === true ? [...lists].map(([list, kinds]): JsonValue => ({ list, kinds: [...kinds] })) : [];
  return {
    type: "provenance",
    tool: tool.name,
    decision: "escalate",
    ...(rule.when !== undefined && { when: rule.when }),
    conditions: {
      arguments: found.map(({ path, kind }): JsonRecord => ({ path, kind })),
      trusted: [...rule.trusted, ...bound],
      ...(rule.fires !== undefined && { fires: rule.fires }),
    },
  };
}

/** Makes a schema from the paths of arguments, for a tool that is not registered. Everything else is allowed. */
export function schemaFromPaths(paths: readonly string[]): JsonRecord {
  let schema: JsonRecord = { type: "object", properties: {} };
  for (const path of paths) schema = withPath(schema, path.match(/\[\]|[^.[\]]+/g) ?? []);
  return schema;
}

function withPath(schema: JsonRecord, [step, ...rest]: readonly string[]): JsonRecord {
  if (step === undefined) return { type: ["string", "number", "null"] };
  const known = (value: JsonValue | undefined): JsonRecord => (isJsonRecord(value) ? value : {});
  if (step === "[]")
    return { ...schema, type: ["array", "string", "null"], items: withPath(known(schema.items), rest) };
  const properties = known(schema.properties);
  const next = withPath(known(properties[step]), rest);
  return { ...schema, type: "object", properties: { ...properties, [step]: next } };
}
