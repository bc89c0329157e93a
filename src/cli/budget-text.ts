import { type JsonRecord, numberAt, textAt, valueAt } from "../verify/json.ts";

/**
 * Writes the state of a budget, of an answer of the service or as it is sealed: `72.5 of 100 EUR in 3600 s for agent agt_1, 27.5 left (12.5
 * reserved, 60 paid)`, with the time from which the same amount fits once more. Undefined for a limit that counts actions.
 */
export function budgetText(limit: JsonRecord): string | undefined {
  if (valueAt(limit, "budget") == null) return undefined;
  const amount = (member: string): number => numberAt(limit, `budget.${member}`) ?? 0;
  const of = `${amount("total")} of ${amount("limit")} ${textAt(limit, "budget.currency")}`;
  const where = `in ${numberAt(limit, "window") ?? 0} s for ${textAt(limit, "scope")} ${textAt(limit, "group")}`;
  const left = `${amount("remaining")} left (${amount("reserved")} reserved, ${amount("captured")} paid)`;
  const resetsAt = textAt(limit, "resets_at");
  return `${of} ${where}, ${left}${resetsAt === "" ? "" : `; the same amount fits from ${resetsAt}`}`;
}
