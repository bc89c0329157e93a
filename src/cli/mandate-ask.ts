import type { Command } from "./command.ts";
import { recordsOf } from "./dry-run.ts";
import { serviceFrom } from "./service.ts";
import { isJsonRecord, type JsonRecord, required } from "./verify/json.ts";

/** `agentctl mandate ask`: the answer to a question about the policy. */
export const mandateAsk: Command = {
  name: "mandate ask",
  arguments: "<question>",
  summary: "answer a question about the policy, with the rules that the answer rests on",
  details: [
    "",
    "The question is English of a fixed grammar; no model is asked, and nothing is written:",
    '  may <agent> call <tool> with {"amount": 750}',
    "  may <agent> do <action type> using <tool> with {…}",
    "  who may call <tool>",
    "  what limits apply to <agent>",
    "  why was <decision id> blocked",
    "  what changed in <mandate> between versions 1 and 2",
    "  which rules never fire in the last 30 days",
    "  which rules are shadowed",
    "Names with blanks stand in double quotes. Exit code 1 says that the action would not be allowed.",
  ],
  options: ["url", "key"],
  async run(input) {
    const [question = ""] = input.positionals;
    const reply = (await serviceFrom(input)("/v1/enforce/ask", { method: "POST", body: { question } })).answer;
    const answer = required(isJsonRecord(reply) ? reply : undefined, "the service", "`answer`");
    return {
      lines: [String(answer.text), ...recordsOf(answer.evidence).map(evidenceLine)],
      json: answer,
      isRefused: answer.holds === false,
    };
  },
};

function evidenceLine({ mandate_name, version, rule, decision_id, text }: JsonRecord): string {
  const mandate = typeof mandate_name === "string" ? [JSON.stringify(mandate_name)] : [];
  const numbered = typeof version === "number" ? [`v${version}`] : [];
  const place = [decision_id, ...mandate, ...numbered, rule].filter((part) => typeof part === "string");
  return `  ${place.length === 0 ? "" : `${place.join(" ")}: `}${text}`;
}
