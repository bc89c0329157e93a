import type { Operand, Operator } from "./operators/index.ts";

const MAX_TEXT = 80;
const MAX_ITEMS = 10;

/** How a condition reads and what would make it false, in words that go on the receipt. */
export interface ConditionText {
  /** `amount > 500 USD`. */
  readonly holds: string;
  /** `amount <= 500 USD`. */
  readonly passes: string;
}

/** Writes a condition. Long values are cut. A condition over the elements of an array passes if `every` one does. */
export function conditionText(
  field: string,
  operator: Operator,
  operand: Operand,
  currency: string | undefined,
): ConditionText {
  const value = operandText(operand);
  const unit = currency === undefined ? "" : ` ${currency.trim().toUpperCase()}`;
  const reach = field.includes("[]") ? "every " : "";
  const holds = operand === undefined ? `${field} ${operator.name}` : `${field} ${operator.name} ${value}`;
  return { holds: `${holds}${unit}`, passes: `${reach}${operator.passes(field, value)}${unit}` };
}

function operandText(operand: Operand): string {
  if (operand === undefined) return "";
  if (!Array.isArray(operand)) return scalarText(operand as string | number | boolean);
  const items = operand.slice(0, MAX_ITEMS).map(scalarText);
  return `[${items.join(", ")}${operand.length > MAX_ITEMS ? ", …" : ""}]`;
}

function scalarText(value: string | number | boolean): string {
  if (typeof value !== "string") return String(value);
  const points = [...value.slice(0, MAX_TEXT * 2)];
  return JSON.stringify(points.length > MAX_TEXT ? `${points.slice(0, MAX_TEXT).join("")}…` : value);
}
