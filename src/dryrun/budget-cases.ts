import { siblingsOf, withCurrency } from "./condition-cases.ts";
import type { PastAction, TestedAction } from "./mandate-test.ts";
import { type ArgumentTypes, type Json, splitPath } from "./naive/naive-conditions.ts";
import { typesOf } from "./naive/naive-evaluator.ts";
import { BY_TEXTS, countedOutcome, departmentVariants, pastOf, pastVariants } from "./past-variants.ts";
import type { Case, CaseSource } from "./rule-cases.ts";
import { sampleArguments, withValueAt } from "./sample-arguments.ts";

type Args = { [key: string]: Json };

/** Maximum number of sums of a budget that have cases. */
const MAX_SUMS = 20;
const MILLION = 1_000_000;

/** Lists the cases of a budget: amounts around the limit, past amounts that count or do not, and amounts that cannot be added. */
export function budgetCases({ rule, base, tools, patterns }: CaseSource): readonly (readonly Case[])[] {
  const { sums = [], currency = "", maxTotal = 0, windowSeconds = 0n } = rule.conditions ?? {};
  const own = rule.tool?.trim().toLowerCase();
  const covered = sums.filter(({ tool }) => own === undefined || own === "" || tool.trim().toLowerCase() === own);
  const priced = covered.slice(0, MAX_SUMS).flatMap(({ tool: name, field }) => {
    const tool = tools(name.trim());
    if (tool === undefined) return [];
    const types: ArgumentTypes = typesOf(tool);
    const steps = splitPath(field.trim());
    const others = sums.filter((sum) => sum.tool.trim().toLowerCase() === name.trim().toLowerCase());
    // Nothing but the tried argument pays.
    const start = others.reduce(
      (args, sum) => {
        const siblings = siblingsOf({ field: sum.field.trim(), operator: "", currency }, types);
        return withCurrency(withValueAt(args, splitPath(sum.field.trim()), 0) as Args, siblings, currency.trim());
      },
      (sampleArguments(tool.inputSchema as Args, patterns) ?? {}) as Args,
    );
    const siblings = siblingsOf({ field: field.trim(), operator: "", currency }, types);
    return [{ name: tool.name, field: field.trim(), steps, start, siblings }];
  });
  const [first] = priced;
  if (first === undefined) return [];
  const call = (
    tool: string,
    args: Args,
    history: readonly PastAction[] = [],
    from: TestedAction = base,
  ): TestedAction => ({
    ...from,
    action: { ...from.action, tool, metadata: { arguments: args } },
    history,
  });
  const pays = (amount: Json | undefined): Args => withValueAt(first.start, first.steps, amount) as Args;
  const windowMs = Number(windowSeconds) * 1000;
  const past = (amount: number, change: Partial<PastAction> = {}): PastAction[] => [
    pastOf({ decision: "allow", beforeMs: Math.floor(windowMs / 2), amount, ...countedOutcome(rule), ...change }),
  ];
  const at = (name: string, tested: TestedAction): Case => ({ name, tested });
  const above = Math.min(999_999_999, (Math.round(maxTotal * MILLION) + MILLION) / MILLION);
  const bounds = [
    at(`${first.field} of ${above}, above ${maxTotal}`, call(first.name, pays(above))),
    at(`${first.field} of ${maxTotal}`, call(first.name, pays(maxTotal))),
    at(`${first.field} of 0 after ${maxTotal}`, call(first.name, pays(0), past(maxTotal))),
    at(`${first.field} of 1 after ${maxTotal}`, call(first.name, pays(1), past(maxTotal))),
    at(`${first.field} of 0.000001 after ${maxTotal}`, call(first.name, pays(0.000001), past(maxTotal))),
    at(`${first.field} of 1 without a past`, call(first.name, pays(1))),
  ];
  const variants = pastVariants(windowMs, rule.conditions?.countOutcomes).map(([name, change]) =>
    at(`${first.field} of 1 after ${maxTotal} ${name}`, call(first.name, pays(1), past(maxTotal, change))),
  );
  const departments = departmentVariants(rule, base).flatMap(([name, from]) =>
    (["self", "colleague"] as const).map((by) =>
      at(
        `${first.field} of 1 after ${maxTotal} by ${BY_TEXTS[by]}, for ${name}`,
        call(first.name, pays(1), past(maxTotal, { by }), from),
      ),
    ),
  );
  const wrong: readonly (readonly [string, Json | undefined])[] = [
    ["missing", undefined],
    ["null", null],
    ["text", "1"],
    ["negative", -1],
    ["with seven places", 0.0000001],
    ["above 999,999,999", 1_000_000_000],
  ];
  const faults = priced.flatMap(({ name, field, steps, start, siblings }) => {
    const amount = (value: Json | undefined): Args => withValueAt(start, steps, value) as Args;
    return [
      ...wrong.map(([word, value]) => at(`${field} of ${name} ${word}`, call(name, amount(value)))),
      ...siblings.flatMap((sibling) => [
        at(`${field} of ${name} in another currency`, call(name, withCurrency(amount(1), [sibling], "ZZZ"))),
        at(`${field} of ${name} without a currency`, call(name, withCurrency(amount(1), siblings, undefined))),
        at(`${field} of ${name} in two currencies`, call(name, withValueAt(amount(1), sibling, "ZZZ") as Args)),
      ]),
    ];
  });
  return [bounds, variants, departments, faults];
}
