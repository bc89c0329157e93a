import { createHash } from "node:crypto";
import {
  BudgetRelease,
  OtherCurrency,
  type BudgetSum as Sum,
} from "../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { argumentSteps, memberPath } from "../../notation/argument-path.ts";
import { fold } from "../../text/fold.ts";
import { compilePatterns } from "../action-patterns.ts";
import {
  type BudgetReading,
  type BudgetSum,
  type CompiledBudget,
  type PaymentFault,
  type PotSpec,
  totalOf,
} from "../budget.ts";
import { amountFrom, amountText, millionthsFrom } from "../decimal.ts";
import { INTEGER, maskFromTypes, NUMBER } from "../json-value.ts";
import { toolKey, toolNameFault } from "../names.ts";
import { areDefaultOutcomes, type OutcomeStatus } from "../outcome-status.ts";
import type { ArgumentChange, CounterSpec, Finding, FlattenedArgument, ToolSchema } from "../types.ts";
import { checkCurrency, currencyMembers, placeOf } from "./conditions.ts";
import { outcomesFrom } from "./count-outcomes.ts";
import { type RuleBody, type RuleBodyCompiler, type RuleDraft, ruleFinding } from "./rule-draft.ts";
import { checkDepartment, groupFrom, windowSecondsFrom } from "./sequence-fields.ts";

const MAX_SUMS = 50;
/** Characters of a pot's key: 128 bits. */
const KEY_LENGTH = 32;

/** Compiles a budget: it fires if the total of its window, the action at hand included, is above its limit, or an amount cannot be added. */
export const compileBudget: RuleBodyCompiler = (draft) => {
  const { conditions, violations } = draft;
  const before = violations.count;
  const currency = currencyFrom(draft);
  const sums = sumsFrom(draft, currency);
  const maxTotal = maxTotalFrom(draft);
  const windowSeconds = windowSecondsFrom(draft);
  checkDepartment(draft);
  checkCountedDecisions(draft);
  checkRuleTool(draft, sums);
  checkOtherCurrency(draft);
  checkRelease(draft);
  const outcomes = outcomesFrom(draft);
  if (violations.count > before) return undefined;
  const { scope, departmentId } = groupFrom(conditions);
  return budgetBody(draft, {
    pot: potFrom({
      sums,
      currency: fold(currency),
      scope,
      ...(departmentId !== undefined && { departmentId }),
      ...(outcomes !== undefined && !areDefaultOutcomes(outcomes) && { outcomes }),
    }),
    maxTotal,
    currency: currency.trim().toUpperCase(),
    windowMs: windowSeconds * 1000,
    ignoresOthers: conditions.otherCurrency === OtherCurrency.IGNORE,
    confirmsRelease: conditions.release === BudgetRelease.CONFIRMED,
  });
};

function potFrom(pot: Omit<PotSpec, "key">): PotSpec {
  const sums = [...new Set(pot.sums.map(({ tool, field }) => JSON.stringify([tool, field])))].sort();
  // Texts and lists of texts alone: the text of JSON.stringify is already the RFC 8785 text.
  const text = JSON.stringify([sums, pot.currency, pot.scope, pot.departmentId ?? null, ...(pot.outcomes ?? [])]);
  return { key: potKey(text), ...pot };
}

const potKey = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, KEY_LENGTH);

/** Creates the pot of a velocity rule that counts allowed actions by their outcomes. */
export function countPotFrom(
  { patterns, excluded, scope, departmentId }: Omit<CounterSpec, "key" | "pot">,
  outcomes: readonly OutcomeStatus[],
): PotSpec {
  return {
    key: potKey(JSON.stringify({ patterns, excluded, scope, departmentId, outcomes })),
    sums: [],
    currency: "",
    scope,
    ...(departmentId !== undefined && { departmentId }),
    outcomes,
    counted: compilePatterns(patterns, excluded),
  };
}

function budgetBody(draft: RuleDraft, budget: CompiledBudget): RuleBody {
  return {
    budget,
    check: (_context, _reading, _answer, reading) => {
      const [first, ...others] = reading === undefined ? [] : findingsOf(draft, budget, reading);
      return first && { ...first, others };
    },
  };
}

function findingsOf(draft: RuleDraft, budget: CompiledBudget, reading: BudgetReading): readonly Finding[] {
  const { payment, principalId } = reading;
  const { currency, maxTotal, windowMs, ignoresOthers } = budget;
  const findings: Finding[] = [];
  const other = payment.other === undefined || ignoresOthers ? undefined : payment.other;
  const fault: PaymentFault | undefined =
    payment.fault ?? (other === undefined ? undefined : { code: "CURRENCY_DIFFERS", field: other });
  if (fault !== undefined) {
    findings.push({ ...ruleFinding(draft, fault.code, faultText(fault, currency)), argument: fault.field });
  }
  const past = reading.reserved + reading.captured;
  const total = totalOf({ past, payment });
  if (total > BigInt(maxTotal)) {
    const forPrincipal = principalId === undefined ? "" : ` for principal \`${principalId}\``;
    const allowed = `${amountText(BigInt(maxTotal))} ${currency}`;
    const text = `${amountText(total)} ${currency}${forPrincipal} in ${windowMs / 1000} s are more than ${allowed}`;
    const left = past > BigInt(maxTotal) ? 0n : BigInt(maxTotal) - past;
    const change = changeFrom(budget, reading.tool, left);
    const fits = left === 0n ? "nothing fits" : `${amountText(left)} ${currency} still fit`;
    findings.push({ ...ruleFinding(draft, "BUDGET_EXCEEDED", text), fits, ...(change !== undefined && { change }) });
  }
  return findings;
}

function faultText({ code, field }: PaymentFault, currency: string): string {
  switch (code) {
    case "ARGUMENT_MISSING":
      return `\`${field}\` is missing and cannot be added to the budget`;
    case "ARGUMENT_WRONG_TYPE":
      return `\`${field}\` is not a number and cannot be added to the budget`;
    case "CURRENCY_MISSING":
      return `\`${field}\` comes without a currency and cannot be added to the budget`;
    case "CURRENCY_DIFFERS":
      return `\`${field}\` is not in ${currency} and cannot be added to the budget`;
    default:
      return `\`${field}\` cannot be added to the budget: it is negative, above 999,999,999, or has more than 6 places or 15 digits`;
  }
}

/** Returns the change of the one argument that a tool pays with; undefined if it pays with several, or nothing fits. */
function changeFrom({ pot, currency }: CompiledBudget, tool: string, left: bigint): ArgumentChange | undefined {
  const [sum, ...others] = pot.sums.filter((each) => each.tool === tool);
  if (sum === undefined || others.length > 0 || left === 0n) return undefined;
  const path = sum.steps.filter((step) => step !== null);
  const most = sum.isInteger ? left - (left % 1_000_000n) : left;
  if (path.length < sum.steps.length || most === 0n) return undefined;
  return { path, values: [amountFrom(most)], text: `${sum.field} <= ${amountText(most)} ${currency}` };
}

function currencyFrom({ conditions, path, violations }: RuleDraft): string {
  const { currency = "" } = conditions;
  if (fold(currency) === "") {
    violations.add(
      `${path}.conditions.currency`,
      "CURRENCY_REQUIRED",
      "a budget needs the currency of its amounts, such as `EUR`",
    );
  }
  return currency;
}

function maxTotalFrom({ conditions: { maxTotal }, path, violations }: RuleDraft): number {
  const at = `${path}.conditions.max_total`;
  const millionths = maxTotal === undefined ? undefined : millionthsFrom(maxTotal);
  if (maxTotal === undefined) violations.add(at, "LIMIT_MISSING", "a budget needs an amount from 0 to 999,999,999");
  else if (millionths === undefined || millionths < 0) {
    const message = `\`${maxTotal}\` is not an amount from 0 to 999,999,999 with at most 6 places`;
    violations.add(at, "LIMIT_OUT_OF_RANGE", message);
  }
  return millionths ?? 0;
}

/** Only what was allowed is reserved. */
function checkCountedDecisions({ conditions, path, violations }: RuleDraft): void {
  const others = groupFrom(conditions).countDecisions.filter((decision) => decision !== "allow");
  if (others.length === 0) return;
  const message = `a budget adds allowed actions alone; take out \`${others.join("`, `")}\``;
  violations.add(`${path}.conditions.count_decisions`, "CONDITION_FIELD_NOT_APPLICABLE", message);
}

function checkRuleTool({ tool, path, violations }: RuleDraft, sums: readonly BudgetSum[]): void {
  if (tool === undefined || sums.length === 0 || sums.some((sum) => sum.tool === toolKey(tool.name))) return;
  const message = `the budget adds no amount of \`${tool.name}\`; leave the tool out or add it to \`sums\``;
  violations.add(`${path}.tool`, "CONDITION_FIELD_NOT_APPLICABLE", message);
}

function checkOtherCurrency({ conditions: { otherCurrency }, path, violations }: RuleDraft): void {
  if (OtherCurrency[otherCurrency] !== undefined) return;
  const message = "`other_currency` is `violate` or `ignore`, or is left out";
  violations.add(`${path}.conditions.other_currency`, "OTHER_CURRENCY_UNKNOWN", message);
}

function checkRelease({ conditions: { release }, path, violations }: RuleDraft): void {
  if (BudgetRelease[release] !== undefined) return;
  const message = "`release` is `reported` or `confirmed`, or is left out";
  violations.add(`${path}.conditions.release`, "RELEASE_UNKNOWN", message);
}

function sumsFrom(draft: RuleDraft, currency: string): readonly BudgetSum[] {
  const { conditions, path, violations } = draft;
  const at = `${path}.conditions.sums`;
  const { length } = conditions.sums;
  if (length === 0) {
    violations.add(
      at,
      "SUMS_MISSING",
      "a budget needs the amounts that it adds, such as `amount` of the tool `send_payment`",
    );
  } else if (length > MAX_SUMS) {
    violations.add(at, "LIMIT_OUT_OF_RANGE", `${length} sums are more than ${MAX_SUMS}`);
  }
  const sums = conditions.sums.slice(0, MAX_SUMS).flatMap((sum, index) => {
    const compiled = sumFrom(draft, sum, `${at}[${index}]`, currency);
    return compiled === undefined ? [] : [compiled];
  });
  // An amount that is listed twice is added once.
  return sums.filter(
    ({ tool, field }, index) => sums.findIndex((other) => other.tool === tool && other.field === field) === index,
  );
}

function sumFrom(draft: RuleDraft, sum: Sum, at: string, currency: string): BudgetSum | undefined {
  const tool = sumTool(draft, sum, at);
  if (tool === undefined) return undefined;
  const { violations } = draft;
  const known = new Map(tool.arguments.map((argument) => [argument.path, argument]));
  const field = sum.field.trim();
  const argument = known.get(field);
  if (argument === undefined) {
    if (field === "") violations.add(`${at}.field`, "FIELD_MISSING", "no argument is named");
    else {
      const message = `the schema of \`${tool.name}\` has no argument \`${field}\``;
      violations.add(`${at}.field`, "FIELD_NOT_IN_SCHEMA", message, violations.budget.nearest(field, known.keys()));
    }
    return undefined;
  }
  const types = maskFromTypes(argument.types);
  if ((types & NUMBER) === 0) {
    const message = `\`${field}\` of \`${tool.name}\` is ${argument.types.join(" or ")}, and a budget adds numbers`;
    violations.add(`${at}.field`, "FIELD_NOT_NUMERIC", message);
    return undefined;
  }
  const steps = argumentSteps(field) ?? [];
  const { parent } = placeOf(field);
  const currencies = currenciesOf(draft, tool, field, known, at, currency);
  const holder = argumentSteps(parent)?.length ?? 0;
  return { tool: toolKey(tool.name), field, steps, holder, currencies, isInteger: (types & NUMBER) === INTEGER };
}

function sumTool({ tools, violations }: RuleDraft, sum: Sum, at: string): ToolSchema | undefined {
  const name = sum.tool.trim();
  const fault = name === "" ? undefined : toolNameFault(name);
  const tool = name === "" || fault !== undefined ? undefined : tools(name);
  if (tool !== undefined) return tool;
  if (name === "") violations.add(`${at}.tool`, "TOOL_MISSING", "no tool is named whose argument is added");
  else if (fault !== undefined) violations.add(`${at}.tool`, "TOOL_NAME_INVALID", `a tool's name ${fault}`);
  else {
    const suggestion = violations.budget.nearest(name, tools.names ?? []);
    violations.add(`${at}.tool`, "TOOL_NOT_REGISTERED", `no tool \`${name}\` is registered`, suggestion);
  }
  return undefined;
}

/** Lists the members beside an amount that may have its currency. */
function currenciesOf(
  { violations }: RuleDraft,
  tool: ToolSchema,
  field: string,
  known: ReadonlyMap<string, FlattenedArgument>,
  at: string,
  currency: string,
): readonly string[] {
  const { parent } = placeOf(field);
  const names = currencyMembers(field);
  const found = names.filter((name) => known.has(memberPath(parent, name)));
  if (found.length === 0) {
    const wanted = names.map((name) => `\`${memberPath(parent, name)}\``).join(", ");
    const message = `the schema of \`${tool.name}\` has none of the arguments ${wanted}, which tell the currency of \`${field}\``;
    violations.add(`${at}.field`, "CURRENCY_NOT_IN_SCHEMA", message);
  }
  if (fold(currency) === "") return found;
  for (const name of found) checkCurrency(currency, known.get(memberPath(parent, name)), `${at}.field`, violations);
  return found;
}
