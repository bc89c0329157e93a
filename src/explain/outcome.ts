import type { Part, Sentence } from "./sentence.ts";

/** Status of an allowed action after its decision. */
export type EndStatus = "succeeded" | "failed" | "cancelled" | "pending" | "unknown";

/** End of an allowed action, as it is told. Times are RFC 3339 in UTC; amounts are texts with their currency. */
export interface ActionEnd {
  readonly status: EndStatus;
  /** Amount that the action came to, if the report names one. */
  readonly amount?: string | undefined;
  /** Amount that the action had reserved, if it reserved one. */
  readonly reserved?: string | undefined;
  /** Time of the report, or from which the outcome is unknown. */
  readonly reportedAt?: string | undefined;
  /** Name of the key or person that reported it. */
  readonly reportedBy?: string | undefined;
  /** Cause of a failure as it was reported: text from elsewhere. */
  readonly error?: string | undefined;
  /** Time from which a pending outcome becomes unknown. */
  readonly dueAt?: string | undefined;
  /** Time from which the outcome was unknown before an operator settled it. */
  readonly unknownAt?: string | undefined;
  /** True while a budget keeps what was reserved, because the agent alone reported. Default false. */
  readonly awaitsConfirmation?: boolean | undefined;
}

const ENDS: ReadonlyMap<EndStatus, string> = new Map([
  ["succeeded", "that the action was done"],
  ["failed", "that the action was tried and failed"],
  ["cancelled", "that the action was not tried"],
]);

/** Explains in sentences how an allowed action ended, and who said so. */
export function endSentences(end: ActionEnd): readonly Sentence[] {
  const { status, reserved, dueAt, unknownAt, reportedAt = "" } = end;
  const keeps: readonly Sentence[] =
    reserved === undefined ? [] : [["It reserved ", { quoted: reserved }, ", which stays reserved until then."]];
  if (status === "pending") {
    const due = dueAt === undefined ? "" : `; from ${dueAt} on its outcome is unknown`;
    return [[`Nobody has reported yet how the action ended${due}.`], ...keeps];
  }
  if (status === "unknown") {
    const start = `Nobody reported in time how the action ended: its outcome is unknown since ${reportedAt}.`;
    return [[start], ["The action may have been done. An operator settles it."], ...keeps];
  }
  const before: Sentence = [`Its outcome had been unknown since ${unknownAt} before.`];
  const had: readonly Sentence[] =
    reserved === undefined || reserved === end.amount ? [] : [["It had reserved ", { quoted: reserved }, "."]];
  const waits: Sentence = [
    "A budget keeps what was reserved, because the agent alone reported that: the gateway or an operator confirms or corrects it.",
  ];
  return [
    reported(end),
    ...had,
    ...(end.awaitsConfirmation === true ? [waits] : []),
    ...(unknownAt === undefined ? [] : [before]),
  ];
}

function reported({ status, amount, error, reportedBy = "somebody", reportedAt = "" }: ActionEnd): Sentence {
  const parts: Part[] = [{ quoted: reportedBy }, ` reported at ${reportedAt} ${ENDS.get(status) ?? ""}`];
  if (amount !== undefined) parts.push(" and came to ", { quoted: amount });
  if (error !== undefined && error !== "") parts.push(": ", { quoted: error });
  return [...parts, "."];
}
