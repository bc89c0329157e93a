import type { DescMessage } from "@bufbuild/protobuf";
import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  type CompletionSource,
  snippetCompletion,
} from "@codemirror/autocomplete";
import {
  ApproversSchema,
  ConditionSchema,
  ConditionsSchema,
  MandateDefinitionSchema,
  RuleSchema,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { type DeclaredArgument, shapeOfArguments } from "../../../notation/argument-shape.ts";
import { wordsOf } from "./rest-form.ts";
import { completeWhen, type WhenOption } from "./when-completion.ts";
import { type ExpressionBefore, expressionBefore, toolAround } from "./when-text.ts";

/** Names in the workspace that completion offers. */
export interface Known {
  readonly tools: readonly string[];
  readonly departments: readonly string[];
  readonly lists: readonly string[];
  readonly approverGroups: readonly string[];
  /** Reads the arguments of a tool. */
  argumentsOf(tool: string): Promise<readonly DeclaredArgument[]>;
}

const SCHEMAS: readonly DescMessage[] = [
  MandateDefinitionSchema,
  RuleSchema,
  ApproversSchema,
  ConditionsSchema,
  ConditionSchema,
];
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
  "in_list",
  "not_in_list",
  "length_gt",
  "length_lt",
];
/** Words of enum members. */
const WORDS = new Map(
  SCHEMAS.flatMap(({ fields }) =>
    fields.flatMap((field) => (field.fieldKind === "enum" ? [[field.name, wordsOf(field.enum)] as const] : [])),
  ),
);

/** Completes members, enum words, tools, departments, approver groups, the arguments of the rule's tool, and expressions. */
export function completeMandate(known: () => Known): CompletionSource {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const text = context.state.doc.toString();
    const expression = expressionBefore(text, context.pos);
    if (expression !== undefined) return expressionResult(expression, text, context, known());
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    const item = groupBefore(text.slice(0, line.from), before);
    if (item !== undefined) {
      const options = known().approverGroups.map((label) => ({ label, type: "constant" }));
      return options.length === 0 ? null : { from: context.pos - item.length, options, validFor: /^[\w.-]*$/ };
    }
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

/** An item of a list in one line: of `[finance, ` or of `[`. */
const ITEM_IN_LINE = /\bgroups:\s*\[(?:[^\]]*,)?\s*["']?([\w.-]*)$/;

/** Returns what is typed of an item of `groups`, in one line or below it; undefined anywhere else. */
function groupBefore(above: string, before: string): string | undefined {
  const inLine = ITEM_IN_LINE.exec(before)?.[1];
  if (inLine !== undefined) return inLine;
  const below = /^\s*-\s+["']?([\w.-]*)$/.exec(before)?.[1];
  if (below === undefined) return undefined;
  const list = above
    .trimEnd()
    .split("\n")
    .findLast((each) => !/^\s*-\s/.test(each));
  return list !== undefined && /^\s*groups:\s*$/.test(list) ? below : undefined;
}

async function optionsFor(member: string, { state, pos }: CompletionContext, known: Known) {
  const plain = (labels: readonly string[]) => labels.map((label) => ({ label, type: "constant" }));
  if (member === "tool") return plain(known.tools);
  if (member === "department_id") return plain(known.departments);
  if (member === "operator")
    return OPERATORS.map((label) => ({ label, apply: /^\w+$/.test(label) ? label : `"${label}"`, type: "constant" }));
  if (member === "field") {
    const tool = toolAround(state.doc.toString(), pos);
    const paths = tool === undefined ? [] : await known.argumentsOf(tool);
    return paths.map(({ path, types }) => ({ label: path, detail: types.join(" or "), type: "variable" }));
  }
  return plain(WORDS.get(member) ?? []);
}

async function expressionResult(
  { before, quote }: ExpressionBefore,
  text: string,
  { pos, explicit }: CompletionContext,
  known: Known,
): Promise<CompletionResult | null> {
  const tool = toolAround(text, pos);
  const args = tool === undefined ? [] : await known.argumentsOf(tool);
  const shape = args.length === 0 ? undefined : shapeOfArguments(args);
  const found = completeWhen(before, { shape, lists: known.lists });
  const isAsked = explicit || /[\w."']$/.test(before);
  if (found === undefined || found.options.length === 0 || !isAsked) return null;
  return {
    from: pos - found.typed.length,
    options: found.options.map((option, index) => completionFrom(option, found.options.length - index, quote)),
    // Texts may have signs.
    validFor: found.options.some(({ kind }) => kind === "text") ? /^[^"'\\]*$/ : /^\w*$/,
  };
}

const COMPLETION_TYPES: Readonly<Record<WhenOption["kind"], string>> = {
  variable: "variable",
  member: "property",
  function: "function",
  macro: "method",
  word: "keyword",
  text: "constant",
};

/** Converts an option, and keeps the place that it has among the others. `quote`: how a quote is written in the text. */
function completionFrom({ label, kind, detail, help, takes }: WhenOption, rank: number, quote: string): Completion {
  const completion: Completion = {
    label,
    type: COMPLETION_TYPES[kind],
    boost: Math.min(99, rank),
    ...(detail !== undefined && { detail }),
    ...(help !== undefined && { info: help }),
  };
  if (takes === undefined) return completion;
  const fields = takes.map((name) =>
    label === "in_list" && name === "name" ? `${quote}\${name}${quote}` : `\${${name}}`,
  );
  return snippetCompletion(`${label}(${fields.join(", ")})`, completion);
}
