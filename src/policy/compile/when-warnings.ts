import { type Rule, RuleType } from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { fold } from "../../text/fold.ts";
import { isFromCaller, readFrom, readsOf } from "../when/check.ts";
import { placeOf } from "../when/compile-when.ts";
import { parseWhen } from "../when/parse.ts";
import { childrenOf, expressionOf, type Node, type NodeOf } from "../when/tree.ts";
import type { RuleWarning } from "./approval-warnings.ts";
import { decisionFromEnum } from "./rule-draft.ts";

/** Maximum characters of a rewritten expression in a warning. */
const MAX_SHOWN = 1_000;

/** Lists warnings about the `when` of rules that compile, in the order of the rules. `ignores`: members that approvals do not cover. */
export function whenWarnings(rules: readonly Rule[], ignores: readonly string[]): readonly RuleWarning[] {
  return rules.flatMap((rule, index) => warningsOf(rule, `rules[${index}].when`, ignores));
}

function warningsOf({ when, type, decision }: Rule, path: string, ignores: readonly string[]): readonly RuleWarning[] {
  if (when === undefined) return [];
  const parsed = parseWhen(when);
  if (parsed.kind === "invalid") return [];
  const warnings: RuleWarning[] = [];
  const warn = (at: number, reason: RuleWarning["reason"], message: string): void => {
    warnings.push({ path, reason, message, ...placeOf(when, at) });
  };
  if (type === RuleType.SEQUENCE) {
    const message =
      "`when` decides whether the rule may fire on this action, never which past actions count; count fewer with `match_action_types`";
    warn(0, "WHEN_DOES_NOT_FILTER", message);
  }
  const members = new Map<string, number>();
  for (const { variable, path: names, at } of readsOf(parsed.tree)) {
    const [member] = names;
    const isCovered = member === undefined || (variable !== "metadata" && variable !== "args");
    if (!isCovered && ignores.includes(member) && !members.has(member)) members.set(member, at);
  }
  for (const [member, at] of members) {
    const message = `approvals do not cover \`${member}\`: take it out of the workspace's \`approval_ignores\``;
    warn(at, "FIELD_NOT_APPROVED", message);
  }
  if (decisionFromEnum(decision) === "allow") return warnings;
  const folded = foldedTree(parsed.tree, new Map());
  const first = firstChanged(parsed.tree, folded);
  if (first === undefined) return warnings;
  const text = expressionOf(folded);
  const shown = text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…`.toWellFormed() : text;
  const message = `another spelling of the caller's text passes, such as \` A\` for \`a\`; to compare as other rules do, write \`${shown}\``;
  warn(first.at, "WHEN_EXACT_TEXT", message);
  return warnings;
}

/** Returns the first comparison of a tree that differs in another; undefined if they are the same tree. */
function firstChanged(tree: Node, changedTree: Node): Node | undefined {
  if (tree === changedTree) return undefined;
  if (tree.kind === "binary" || tree.kind === "call") return tree;
  const others = childrenOf(changedTree);
  const inner = childrenOf(tree).flatMap((child, index) => firstChanged(child, others[index] ?? child) ?? []);
  return inner.sort((a, b) => a.at - b.at)[0];
}

/** Variables of macros, true for those whose values come from the caller. */
type Scope = ReadonlyMap<string, boolean>;

/** Functions of a text that compare it with another. */
const COMPARING = new Set(["contains", "startsWith", "endsWith"]);

/** Folds each of the caller's texts that is compared with a text of the expression, and that text. Returns the tree itself if there is none. */
function foldedTree(node: Node, scope: Scope): Node {
  const below = (child: Node): Node => foldedTree(child, scope);
  switch (node.kind) {
    case "unary":
      return changed(node, { operand: below(node.operand) });
    case "logic": {
      const operands = node.operands.map(below);
      return operands.some((operand, index) => operand !== node.operands[index]) ? { ...node, operands } : node;
    }
    case "choice":
      return changed(node, { test: below(node.test), yes: below(node.yes), no: below(node.no) });
    case "binary":
      return foldedComparison(node, scope);
    case "call": {
      const [text, other, ...rest] = node.args;
      if (!COMPARING.has(node.name) || text === undefined || other === undefined || rest.length > 0) return node;
      const literal = foldedLiteral(other);
      if (literal === undefined || !isCallersText(text, scope)) return node;
      return { ...node, args: [foldCall(text), literal] };
    }
    case "macro": {
      const inner = new Map(scope).set(node.variable, isCallersText(node.range, scope));
      const test = node.test && foldedTree(node.test, inner);
      const result = node.result && foldedTree(node.result, inner);
      return test === node.test && result === node.result ? node : { ...node, test, result };
    }
    default:
      return node;
  }
}

function changed<N extends Node>(node: N, parts: Partial<N>): N {
  const isSame = Object.entries(parts).every(([name, part]) => part === node[name as keyof N]);
  return isSame ? node : { ...node, ...parts };
}

function foldedComparison(node: NodeOf<"binary">, scope: Scope): Node {
  const { operator, left, right } = node;
  if (operator === "in") {
    const elements = right.kind === "list" ? right.elements.map(foldedLiteral) : [];
    const texts = elements.filter((element) => element !== undefined);
    if (right.kind !== "list" || texts.length === 0 || texts.length < elements.length) return node;
    return isCallersText(left, scope) ? { ...node, left: foldCall(left), right: { ...right, elements: texts } } : node;
  }
  if (operator !== "==" && operator !== "!=") return node;
  const [onRight, onLeft] = [foldedLiteral(right), foldedLiteral(left)];
  if (onRight !== undefined && isCallersText(left, scope)) return { ...node, left: foldCall(left), right: onRight };
  if (onLeft !== undefined && isCallersText(right, scope)) return { ...node, left: onLeft, right: foldCall(right) };
  return node;
}

const foldCall = (text: Node): Node => ({ kind: "call", at: text.at, name: "fold", hasReceiver: false, args: [text] });

/** Folds a text in quotes; undefined for anything else and for an empty one, which has no other spelling. */
function foldedLiteral(node: Node): Node | undefined {
  if (node.kind !== "literal" || typeof node.value !== "string" || node.value === "") return undefined;
  return { ...node, value: fold(node.value) };
}

/** Tests whether a node is a value of the caller as it was sent. */
function isCallersText(node: Node, scope: Scope): boolean {
  const read = readFrom(node, new Set(scope.keys()));
  if (read !== undefined) return isFromCaller(read);
  if (node.kind === "name") return scope.get(node.name) ?? false;
  return (node.kind === "member" || node.kind === "index") && isCallersText(node.object, scope);
}
