/*
 * A client that pays, as a process of its own that may be killed at any moment. It runs a tool only after an answer that says that its
 * own claim holds, and reports the outcome afterwards. Calls without an answer are made again: with the same ids, at the next server.
 */
import { randomUUID } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { ClientJob, JournalLine, PaymentPlan } from "./payment-plans.ts";

const RETRY_MS = 50;
/** Refusals that say nothing of what was done: the call is made again, as without an answer. */
const UNANSWERED = ["DEADLINE_EXCEEDED", "OVERLOADED", "SHUTTING_DOWN", "STORE_UNAVAILABLE"];
/** Refusals of a claim: another has it, or the action may not be run any more. */
const UNCLAIMED = ["ALREADY_CLAIMED", "CLAIM_REFUSED"];
/** Refusals of a resolution: another client has resolved it, or its time is over. */
const RESOLVED = ["ESCALATION_RESOLVED", "ESCALATION_EXPIRED"];

interface Answer {
  readonly decision?: string;
  readonly decision_id?: string;
  readonly escalation_id?: string | null;
  readonly claimed?: boolean | null;
  readonly outcome?: object;
  readonly error?: { readonly status: string; readonly details: readonly { readonly reason?: string }[] };
}

class PayingClient {
  readonly #job: ClientJob;
  readonly #journal: FileHandle;
  readonly #endsAt: number;

  constructor(job: ClientJob, journal: FileHandle) {
    this.#job = job;
    this.#journal = journal;
    this.#endsAt = performance.now() + job.limitMs;
  }

  async pay(plan: PaymentPlan, index: number): Promise<void> {
    await delay(plan.startMs);
    const claimId = randomUUID();
    const decided = await this.#decide(plan, claimId, index);
    const { decision_id: decisionId = "" } = decided;
    if (decided.decision !== "allow") return;
    const isClaimed = plan.claimsAtOnce ? decided.claimed === true : await this.#claim(decisionId, claimId, index);
    if (!isClaimed) return;
    await delay(plan.workMs);
    const { status, amount } = plan.end;
    if (status !== "cancelled") await this.#run({ kind: "ran", requestId: plan.requestId, decisionId, claimId });
    if (status !== "silent") await this.#report(decisionId, { status, ...(amount !== undefined && { amount }) }, index);
  }

  async #decide(plan: PaymentPlan, claimId: string, index: number): Promise<Answer> {
    const { requestId, approvedRequestId, agentId, tool, amount, claimsAtOnce } = plan;
    const action = {
      agent_id: agentId,
      action_type: "payment.make",
      action_content: "",
      tool,
      metadata: { arguments: { amount, currency: "EUR" } },
      ...(claimsAtOnce && { claim_id: claimId }),
    };
    const intercept = (more: object): Promise<Answer> =>
      this.#call("/v1/enforce/intercept", { ...action, ...more }, index);
    const first = await intercept({ request_id: requestId });
    const { escalation_id } = first;
    if (first.decision !== "escalate" || typeof escalation_id !== "string" || !plan.isApproved) return first;
    const resolve = `/v1/enforce/escalations/${escalation_id}/resolve`;
    await this.#call(resolve, { resolution: "approved" }, index, this.#job.adminKey, RESOLVED);
    return intercept({ request_id: approvedRequestId, escalation_id });
  }

  async #claim(decisionId: string, claimId: string, index: number): Promise<boolean> {
    const path = `/v1/enforce/decisions/${decisionId}:claim`;
    const { claimed } = await this.#call(path, { claim_id: claimId }, index, this.#job.agentKey, UNCLAIMED);
    return claimed === true;
  }

  async #report(decisionId: string, report: { status: string; amount?: number }, index: number): Promise<void> {
    const path = `/v1/enforce/decisions/${decisionId}/outcome`;
    const answer = await this.#call(path, report, index, this.#job.agentKey, ["OUTCOME_EXISTS"]);
    if (answer.outcome !== undefined) await this.#append({ kind: "reported", decisionId, ...report });
  }

  /** The tool: once this is on the disk, the payment is made. */
  async #run(run: JournalLine): Promise<void> {
    await this.#append(run);
    await this.#journal.sync();
  }

  async #append(line: JournalLine): Promise<void> {
    await this.#journal.write(`${JSON.stringify(line)}\n`);
  }

  /**
   * Calls one server after the other until one answers. Tells of an answer that is refused for another reason than those of the list, and
   * of the end of its time, which gives an answer without members.
   */
  async #call(
    path: string,
    body: object,
    first: number,
    key = this.#job.agentKey,
    refusals: readonly string[] = [],
  ): Promise<Answer> {
    const { servers } = this.#job;
    for (let attempt = first; performance.now() < this.#endsAt; attempt++) {
      const answer = await post(`${servers[attempt % servers.length]}${path}`, key, body);
      if (answer?.error === undefined && answer !== undefined) return answer;
      const reason = answer?.error?.details[0]?.reason ?? answer?.error?.status;
      if (reason !== undefined && refusals.includes(reason)) return answer as Answer;
      if (reason !== undefined && !UNANSWERED.includes(reason)) {
        await this.#append({ kind: "unexpected", what: `${path} ${JSON.stringify(body)}: ${JSON.stringify(answer)}` });
        return answer as Answer;
      }
      await delay(RETRY_MS);
    }
    await this.#append({ kind: "unexpected", what: `${path} ${JSON.stringify(body)}: no answer in time` });
    return {};
  }
}

async function post(url: string, key: string, body: object): Promise<Answer | undefined> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "x-api-key": key },
      body: JSON.stringify(body),
    });
    return (await response.json()) as Answer;
  } catch {
    return undefined;
  }
}

process.once("message", async (job: ClientJob) => {
  const journal = await open(job.journal, "a");
  const client = new PayingClient(job, journal);
  await Promise.all(job.plans.map((plan, index) => client.pay(plan, index)));
  await journal.close();
  process.disconnect();
});
// Without its parent nobody would ever end it.
process.once("disconnect", () => process.exit());
