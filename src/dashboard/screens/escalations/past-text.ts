import type { EarlierAnswers, UsualNumber } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";

/** Sentence about a number's past. */
export interface PastText {
  readonly text: string;
  /** True if the number is beyond all that were allowed. */
  readonly isUnusual: boolean;
}

/** Numbers from which the usual range leaves out the largest twentieth. */
const MANY = 20;
/** Ratio from which it is told how many times the largest a number is. */
const TOLD_RATIO = 1.5;

const numberText = (value: number): string => value.toLocaleString("en", { maximumSignificantDigits: 12 });

function ratioText(ratio: number): string {
  return ratio.toLocaleString("en", ratio < 10 ? { maximumFractionDigits: 1 } : { maximumFractionDigits: 0 });
}

/** Tells the numbers that the agent usually sends, and where this one lies. `from`: number of allowed actions looked at. */
export function usualText(usual: UsualNumber, from: number): PastText {
  const { value, currency, count, minimum = 0, maximum = 0, percentile95 = maximum } = usual;
  const unit = currency === undefined ? "" : ` ${currency}`;
  if (from === 0) return { text: "its first in 90 days: nothing to compare with", isUnusual: false };
  if (count === 0) {
    const actions = from === 1 ? "its one allowed action" : `its last ${numberText(from)} allowed actions`;
    const what = currency === undefined ? "not" : `not in${unit}`;
    return { text: `${what} sent in ${actions}`, isUnusual: false };
  }
  const high = count >= MANY ? percentile95 : maximum;
  const range = minimum === high ? numberText(high) : `${numberText(minimum)} to ${numberText(high)}`;
  const usually = count === 1 ? `once before, ${range}${unit}` : `usually ${range}${unit}`;
  if (value > maximum) return { text: `${usually}; this is ${aboveText(value, maximum, count)}`, isUnusual: true };
  if (value < minimum) return { text: `${usually}; this is less than ${eachText(count)}`, isUnusual: false };
  if (value > high) return { text: `${usually}; this is among the largest of ${numberText(count)}`, isUnusual: false };
  return { text: count === 1 ? usually : `${usually}, ${numberText(count)} times`, isUnusual: false };
}

const eachText = (count: number): string => (count === 1 ? "then" : `each of ${numberText(count)}`);

function aboveText(value: number, maximum: number, count: number): string {
  const ratio = value / maximum;
  if (maximum <= 0 || ratio < TOLD_RATIO) return `more than ${eachText(count)}`;
  return `${ratioText(ratio)} × ${count === 1 ? "as much" : `the largest of ${numberText(count)}`}`;
}

/** Writes how often something happened. */
export const timesText = (count: number): string =>
  count === 1 ? "once" : count === 2 ? "twice" : `${count.toLocaleString("en")} times`;

/** Writes how often each answer was given, without answers that nobody gave. */
export function answersText({ approved, rejected, edited, expired }: EarlierAnswers): readonly string[] {
  const counts = [
    approved > 0 ? `approved ${timesText(approved)}` : "",
    rejected > 0 ? `rejected ${timesText(rejected)}` : "",
    edited > 0 ? `changed ${timesText(edited)}` : "",
    expired > 0 ? `not answered ${timesText(expired)}` : "",
  ].filter((text) => text !== "");
  if (counts.length === 0) return [];
  if (rejected === 0 && approved > 0) return [...counts, "never rejected"];
  return approved === 0 && rejected > 0 ? [...counts, "never approved"] : counts;
}

/** Writes how many texts of a list were approved or rejected before. */
export function answersOfListText(earlier: readonly EarlierAnswers[]): string {
  const approved = earlier.filter((each) => each.approved > 0).length;
  const rejected = earlier.filter((each) => each.rejected > 0).length;
  const of = `of ${earlier.length}`;
  if (approved === 0 && rejected === 0) return `no earlier answer for the ${earlier.length}`;
  return `${approved} ${of} approved before; ${rejected === 0 ? "none" : `${rejected} ${of}`} rejected`;
}
