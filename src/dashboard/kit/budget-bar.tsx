import { type Budget, shareOfBudget } from "./money.ts";

/** Share of a limit from which it is nearly full. */
export const NEARLY_FULL = 0.8;

/** Returns the class of a bar by what is used of a limit: full when nothing more fits, near from 80 %. */
export function barClass(isFull: boolean, share: number): string {
  if (isFull) return "bar is-full";
  return share >= NEARLY_FULL ? "bar is-near" : "bar";
}

/** Draws a budget: what was captured, then what is reserved in a lighter tone. Words beside it MUST say the same. */
export function BudgetBar({ budget }: { readonly budget: Budget }) {
  const { captured, total, remaining } = budget;
  const [paid, all] = [shareOfBudget(budget, captured), shareOfBudget(budget, total)];
  return (
    <span className={barClass(remaining === 0, all)} aria-hidden>
      <span style={{ width: `${paid * 100}%` }} />
      <span className="is-open" style={{ width: `${(all - paid) * 100}%` }} />
    </span>
  );
}
