import type { DescMessage } from "@bufbuild/protobuf";
import type { CompletionContext, CompletionResult, CompletionSource } from "@codemirror/autocomplete";
import {
  ConditionSchema,
  ConditionsSchema,
  MandateDefinitionSchema,
  RuleSchema,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { wordsOf } from "./rest-form.ts";

/** Names in the workspace that completion offers. */
export interface Known {
  readonly tools: readonly string[];
  readonly departments: readonly string[];
  /** Reads the arguments of a tool. */
  argumentsOf(tool: string): Promise<readonly { readonly path: string; readonly types: readonly string[] }[]>;
}

const SCHEMAS: readonly DescMessage[] = [MandateDefinitionSchema, RuleSchema, ConditionsSchema, ConditionSchema];
const KEYS = [...new Set(SCHEMAS.flatMap(({ fields }) => fields.map(({ name }) => name)))];
const OPERATORS = [
  "==",
  "!=",
  ">",
  ">=",
  "<",
  "<=",
  "between",
  "not_between",
  "in",
  "not_in",
  "contains",
  "not_contains",
  "contains_any",
  "contains_all",
  "subset_of",
  "starts_with",
  "ends_with",
  "matches",
  "exists",
  "not_exists",
  "length_gt",
  "length_lt",
];
/** Words of enum members. */
const WORDS = new Map(
  SCHEMAS.flatMap(({ fields }) =>
    fields.flatMap((field) => (field.fieldKind === "enum" ? [[field.name, wordsOf(field.enum)] as const] : [])),
  ),
);

/** Returns the tool of the rule around a line: the nearest `tool:` above it within the same list item. */
function toolAbove(lines: readonly string[]): string | undefined {
  for (const line of lines.toReversed()) {
    const found = /^\s*-?\s*tool:\s*["']?([^"'#]+?)["']?\s*$/.exec(line)?.[1];
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Completes members, enum words, tools, departments and the arguments of the rule's tool. */
export function completeMandate(known: () => Known): CompletionSource {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    const value = /^\s*-?\s*(\w+):\s*["']?([^"']*)$/.exec(before) ?? /[{,]\s*(\w+):\s*["']?([^"',}]*)$/.exec(before);
    if (value !== null) {
      const [, member = "", typed = ""] = value;
      const options = await optionsFor(member, context, known());
      return options.length === 0 ? null : { from: context.pos - typed.length, options, validFor: /^[^"']*$/ };
    }
    const key = /^\s*-?\s*(\w*)$/.exec(before);
    if (key === null || (key[1] === "" && !context.explicit)) return null;
    return {
      from: context.pos - (key[1] ?? "").length,
      options: KEYS.map((label) => ({ label, apply: `${label}: `, type: "property" })),
    };
  };
}

async function optionsFor(member: string, { state, pos }: CompletionContext, known: Known) {
  const plain = (labels: readonly string[]) => labels.map((label) => ({ label, type: "constant" }));
  if (member === "tool") return plain(known.tools);
  if (member === "department_id") return plain(known.departments);
  if (member === "operator")
    return OPERATORS.map((label) => ({ label, apply: /^\w+$/.test(label) ? label : `"${label}"`, type: "constant" }));
  if (member === "field") {
    const tool = toolAbove(state.sliceDoc(0, pos).split("\n"));
    const paths = tool === undefined ? [] : await known.argumentsOf(tool);
    return paths.map(({ path, types }) => ({ label: path, detail: types.join(" or "), type: "variable" }));
  }
  return plain(WORDS.get(member) ?? []);
}
