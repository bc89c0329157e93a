import type { JsonMembers } from "../verify/index.ts";
import { at, listAt, textAt } from "./members.ts";
import type { Story, StoryItem } from "./story.ts";

function itemLines(heading: string, items: readonly StoryItem[]): string[] {
  if (items.length === 0) return [];
  const width = Math.max(...items.map(({ index }) => String(index).length));
  return [
    heading,
    ...items.map(({ index, at: when, by, text }) => `  ${String(index).padStart(width)}  ${when}  ${text}, by ${by}`),
  ];
}

function reasonLine(reason: unknown): string {
  const mandate = textAt(reason, "mandate_id");
  const where = mandate === "" ? "" : ` (mandate ${mandate}, ${textAt(reason, "rule")})`;
  const pass = textAt(reason, "would_pass");
  return `  because    ${textAt(reason, "message") || textAt(reason, "code")}${where}${pass === "" ? "" : `; ${pass}`}`;
}

function limitLine(limit: unknown): string {
  const [scope, group] = [textAt(limit, "scope"), textAt(limit, "group")];
  const count = `${String(at(limit, "count"))} of ${String(at(limit, "limit"))}`;
  return `  limit      ${count} in ${String(at(limit, "window"))} s for ${scope} ${group}, from ${textAt(limit, "source")}`;
}

function guardLine(guard: unknown): string {
  const where = `${textAt(guard, "rule")} of mandate ${textAt(guard, "mandate_id")}`;
  const unavailable = textAt(guard, "unavailable");
  if (unavailable !== "") return `  guard      no verdict on ${where}: ${unavailable}`;
  const verdict = at(guard, "violates") === true ? "violates" : "does not violate";
  return `  guard      ${verdict} ${where}, confidence ${String(at(guard, "confidence"))}, said ${textAt(guard, "model")}`;
}

function decisionLines(decision: JsonMembers): string[] {
  const [id, verdict, path] = ["decision_id", "decision", "decision_path"].map((name) => textAt(decision, name));
  const principal = textAt(decision, "on_behalf_of");
  const tool = textAt(decision, "action", "tool");
  const type = `\`${textAt(decision, "action", "action_type")}\`${tool === "" ? "" : ` with tool \`${tool}\``}`;
  const agent = `${textAt(decision, "action", "agent_id")} (\`${textAt(decision, "action", "agent_name")}\`)`;
  return [
    `decision ${id}: ${verdict} by ${path}, entry ${String(decision.seq)}, ${textAt(decision, "at")}`,
    `  asked      ${type} by agent ${agent}${principal === "" ? "" : ` for ${principal}`}, key ${textAt(decision, "key_id")}`,
    ...listAt(decision, "reasons").map(reasonLine),
    ...listAt(decision, "authorisation", "collective_limits").map(limitLine),
    ...listAt(decision, "guards").map(guardLine),
    `  trust      ${String(at(decision, "trust", "before"))} before, ${String(at(decision, "trust", "after"))} after`,
  ];
}

/** A story for people. */
export function storyLines({ decision, before, after, unexplained }: Story): string[] {
  return [
    ...decisionLines(decision),
    ...itemLines("what held:", before),
    ...itemLines("what became of it:", after),
    ...unexplained.map((what) => `NOT FOUND before it in the log: ${what}`),
  ];
}
