import { randomUUID } from "node:crypto";
import { Decision, OutcomeStatus } from "../../gen/agentcontrol/v1/resources_pb.js";
import { resolveEscalation } from "../../src/escalation/escalation.ts";
import { sealUnknown } from "../../src/log/unknown-outcomes.ts";
import type { SealedDecision } from "../../src/state/types.ts";
import type { Attempt } from "../../src/webhook/post-attempt.ts";
import type { Webhook, WebhookCaller, WebhookSecret, Webhooks, WebhooksOptions } from "../../src/webhook/webhooks.ts";
import { actionRule, attempt, openWorkspace, type Replica, type TestWorkspace } from "../support/harness.ts";
import { type Receiver, startReceiver } from "./receiver.ts";
import { createQuickWebhooks } from "./replica.ts";

/** The workspace of the tests and the key that calls. */
export const CALLER: WebhookCaller = { workspaceId: "default", keyId: "key_test" };
/** Every event. */
export const EVERYTHING = [
  "agent.revoked",
  "escalation.created",
  "escalation.resolved",
  "decision.blocked",
  "tool.changed",
];

/** Text that no webhook may ever carry. */
export const PERSONAL = "Jane Roe, 555-0100";

const PAGE = { size: 500, after: undefined };

/** A workspace with an agent whose `drop` is blocked and whose `pay` escalates, and webhooks that tell of it. */
export interface WebhookWorkspace extends TestWorkspace {
  readonly agentId: string;
  /** Creates webhooks that deliver quickly, on the first replica unless another is given; closed with the workspace. */
  openWebhooks(options?: Partial<WebhooksOptions>, replica?: Replica): Webhooks;
  block(): Promise<SealedDecision>;
  allow(): Promise<SealedDecision>;
  /** Claims an allowed action, reports another, and lets the time of the claimed one pass. Returns both decisions, that one first. */
  forgetOutcome(): Promise<readonly [unknown: string, reported: string]>;
  /** Escalates a new action, or one with the given order once more. */
  escalate(order?: string): Promise<SealedDecision>;
  reject(decision: SealedDecision): Promise<void>;
  changeTool(name: string): Promise<void>;
}

/** Opens the workspace. Its replicas hear nothing of each other's entries. */
export async function openWebhookWorkspace(): Promise<WebhookWorkspace> {
  const workspace = await openWorkspace({ hearsWakeUps: false });
  const agentId = await workspace.agent("payer", [], ["drop"]);
  await workspace.mandate([actionRule(Decision.ESCALATE, "pay")]);
  const opened: Webhooks[] = [];
  const act = (actionType: string, order: string = randomUUID()): Promise<SealedDecision> =>
    attempt(workspace.log, { agentId, actionType, actionContent: PERSONAL, metadata: { note: PERSONAL, order } });
  return {
    ...workspace,
    agentId,
    openWebhooks(options = {}, replica = workspace) {
      const webhooks = createQuickWebhooks(replica, options);
      opened.push(webhooks);
      return webhooks;
    },
    block: () => act("drop"),
    allow: () => act("look"),
    async forgetOutcome() {
      const { clock, enforcement, log } = workspace;
      const claim = async () =>
        (await enforcement.intercept({ agentId, actionType: "look", claimId: randomUUID() })).decisionId;
      const [unknown, reported] = [await claim(), await claim()];
      await enforcement.reportOutcome({ decisionId: reported, status: OutcomeStatus.FAILED, error: PERSONAL });
      clock.advance(3_601_000);
      await sealUnknown(log, unknown);
      return [unknown, reported];
    },
    escalate: (order) => act("pay", order),
    async reject({ escalationId = "" }) {
      const { log, database } = workspace;
      const command = { escalationId, resolution: "rejected", note: PERSONAL, by: CALLER.keyId } as const;
      await resolveEscalation({ log, pool: database.pool }, command);
    },
    async changeTool(name) {
      await workspace.tools.registerTool({ name, inputSchema: { type: "object", description: PERSONAL } });
    },
    async close() {
      for (const webhooks of opened) await webhooks.close();
      await workspace.close();
    },
  };
}

/** A workspace with webhooks of one process, and a receiver for them. */
export interface DeliveryTest extends WebhookWorkspace {
  readonly receiver: Receiver;
  /** The webhooks that were opened or started last. */
  readonly webhooks: Webhooks;
  /** Opens webhooks and begins to deliver. */
  start(options?: Partial<WebhooksOptions>): void;
  /** Registers a webhook, for every event and the receiver unless others are given. */
  register(events?: readonly string[], url?: string): Promise<WebhookSecret>;
  get(webhookId: string): Promise<Webhook>;
  attemptsOf(webhookId: string): Promise<readonly Attempt[]>;
  /**
   * Registers another webhook for blocked decisions. The function that it gives resolves when that one was told of two
   * more: what this process was about to send before has arrived by then.
   */
  witness(): Promise<() => Promise<number[]>>;
}

/** Opens a workspace with a receiver. */
export async function openDelivery(): Promise<DeliveryTest> {
  const workspace = await openWebhookWorkspace();
  const receivers = [await startReceiver()];
  const [receiver] = receivers as [Receiver];
  let webhooks: Webhooks | undefined;
  const current = (): Webhooks => {
    webhooks ??= workspace.openWebhooks();
    return webhooks;
  };
  const register: DeliveryTest["register"] = (events = EVERYTHING, url = receiver.url) =>
    current().create(CALLER, { url, events });
  return {
    ...workspace,
    receiver,
    get webhooks() {
      return current();
    },
    start(options) {
      webhooks = workspace.openWebhooks(options);
      webhooks.start();
    },
    register,
    get: (webhookId) => current().get(CALLER, webhookId),
    attemptsOf: async (webhookId) => (await current().deliveries(CALLER, webhookId, PAGE)).items,
    async witness() {
      const other = await startReceiver();
      receivers.push(other);
      await register(["decision.blocked"], other.url);
      return async () => {
        const seqs: number[] = [];
        for (let count = 0; count < 2; count++) {
          const { seq } = await workspace.block();
          await other.waitUntil(() => other.seqs.includes(seq));
          seqs.push(seq);
        }
        return seqs;
      };
    },
    async close() {
      await workspace.close();
      for (const each of receivers) await each.close();
    },
  };
}

/** The same list without repetitions, each kept where it came first. */
export const firstOf = (seqs: readonly number[]): number[] => [...new Set(seqs)];

/** A clock that only a test moves. */
export function createStoppedClock() {
  let ms = Date.now();
  return {
    now: () => ms,
    move(by: number) {
      ms += by;
    },
  };
}
