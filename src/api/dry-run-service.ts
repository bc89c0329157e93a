import { create, fromJson, type JsonValue, type MessageInitShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs, timestampMs, ValueSchema } from "@bufbuild/protobuf/wkt";
import type { Pool } from "pg";
import { Role } from "../../gen/agentcontrol/v1/access_pb.js";
import {
  ConditionSeen,
  DryRunService,
  type FindBacktestRequest,
  type HypotheticalAction,
  type MandateDraft,
  type MandateTestSchema,
  PastAgent,
  type ProbeRequest,
  type ProbeResponseSchema,
  QuestionForm,
  type SeenContent as SeenContentMessage,
  type TestRunSchema,
} from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { InterceptRequestSchema, ObservationSource } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { ListDraft } from "../../gen/agentcontrol/v1/list_service_pb.js";
import { type AskedAction, ask } from "../dryrun/ask/ask.ts";
import type { Form } from "../dryrun/ask/question.ts";
import type { QuestionReader } from "../dryrun/ask/question-reader.ts";
import { assertKeepable, KeptBacktests, questionDigest, type Supposed } from "../dryrun/backtest/kept-backtests.ts";
import type { Draft } from "../dryrun/drafts.ts";
import { type DryRunParts, DryRuns, type Question } from "../dryrun/dry-runs.ts";
import { MAX_TESTS } from "../dryrun/generate-tests.ts";
import type { MandateTest, PastAgent as PastAgentWord, TestNote, TestResult } from "../dryrun/mandate-test.ts";
import { type MandateTestParts, MandateTests } from "../dryrun/mandate-tests.ts";
import { preflight } from "../dryrun/preflight.ts";
import { type Probe, probe } from "../dryrun/probe.ts";
import type { TestRun } from "../dryrun/run-tests.ts";
import type { SeenContent } from "../dryrun/supposed-knowledge.ts";
import type { Seen, TracedCondition, TracedRule } from "../dryrun/trace.ts";
import { ControlPlaneError, ErrorReason } from "../errors.ts";
import { ActorNames } from "../registry/actor-names.ts";
import type { Action, Outcome } from "../state/types.ts";
import type { BacktestRow } from "../store/entities.ts";
import { ReadOnlyDatabase } from "../store/transaction.ts";
import { actionFrom } from "./action.ts";
import { backtestFrom, keptBacktestFrom, questionJson, reportFrom, reportJson } from "./backtest-message.ts";
import type { CallContext, Caller } from "./context.ts";
import { decisionMapping, decisionPathMapping, mandateModeMapping, outcomeStatusMapping } from "./enum-mapping.ts";
import { episodesFrom, escalatedFrom, replayMessageFrom, toolDraftFrom } from "./episode-message.ts";
import { listDraftFrom } from "./list-service.ts";
import { draftFrom } from "./mandate-service.ts";
import { pageFrom } from "./paging.ts";
import { limitMessageFrom, reasonMessageFrom } from "./records.ts";
import { defineService, type ServiceDefinition } from "./service.ts";
import { argumentFrom } from "./tool-service.ts";

const SEEN: Readonly<Record<Seen, ConditionSeen>> = {
  present: ConditionSeen.PRESENT,
  missing: ConditionSeen.MISSING,
  wrong_type: ConditionSeen.WRONG_TYPE,
  other_currency: ConditionSeen.OTHER_CURRENCY,
};

const PAST_AGENTS: Readonly<Record<PastAgentWord, PastAgent>> = {
  self: PastAgent.SELF,
  colleague: PastAgent.COLLEAGUE,
  other: PastAgent.OTHER,
  delegate: PastAgent.DELEGATE,
};

/** Maximum number of reasons of one test that are shown. */
const MAX_REASONS = 10;

const FORMS: Readonly<Record<Form, QuestionForm>> = {
  may: QuestionForm.MAY,
  whoMay: QuestionForm.WHO_MAY,
  limits: QuestionForm.LIMITS,
  why: QuestionForm.WHY,
  changed: QuestionForm.CHANGED,
  neverFire: QuestionForm.NEVER_FIRE,
  shadowed: QuestionForm.SHADOWED,
};

const MAY_DRAFT: readonly Role[] = [Role.ADMIN, Role.OPERATOR];

function assertMayDraft({ role }: Caller, isDraft: boolean): void {
  if (!isDraft || MAY_DRAFT.includes(role)) return;
  const allowed = "admin, operator";
  const text = `a key with role \`${Role[role].toLowerCase()}\` may not try drafts; allowed are ${allowed}`;
  throw new ControlPlaneError(ErrorReason.ROLE_NOT_ALLOWED, text, {
    role: Role[role].toLowerCase(),
    allowed_roles: allowed,
  });
}

/** The fields of an action that both requests have. */
type Hypothesis = Omit<HypotheticalAction, "$typeName" | "$unknown">;

function hypotheticalFrom(action: Hypothesis, agentId: string, caller: Caller): Action {
  const { actionType, actionContent, metadata, tool, sessionId, onBehalfOf, grantId, intentContractId, escalationId } =
    action;
  const fields = { agentId, actionType, actionContent, metadata, tool, sessionId, onBehalfOf, grantId };
  const request = create(InterceptRequestSchema, { ...fields, intentContractId, escalationId } as never);
  return actionFrom(request, caller);
}

function askedActionFrom({ agentId, actionType, tool, arguments: args }: AskedAction, caller: Caller): Action {
  const metadata = args === undefined ? {} : { metadata: { arguments: args } };
  return actionFrom(create(InterceptRequestSchema, { agentId, actionType, tool, ...metadata } as never), caller);
}

function draftOf(draft: MandateDraft): Draft {
  return { mandate: draftFrom(draft), replacesMandateId: draft.replacesMandateId };
}

/** Suppositions of a backtest, in its request. */
type SupposedMessage = Pick<FindBacktestRequest, "drafts" | "archives" | "lists">;

const supposedFrom = ({ drafts, archives, lists }: SupposedMessage): Supposed => ({
  drafts: drafts.map(draftOf),
  archives,
  lists: lists.map(listDraftFrom),
});

const seenFrom = ({ source, tool, content }: SeenContentMessage): SeenContent => ({
  source: source === ObservationSource.PROMPT ? "prompt" : "result",
  tool,
  content,
});

function questionFrom(
  {
    drafts,
    lists,
    seen,
    at,
  }: {
    readonly drafts: readonly MandateDraft[];
    readonly lists: readonly ListDraft[];
    readonly seen: readonly SeenContentMessage[];
    readonly at?: Timestamp | undefined;
  },
  actions: readonly Action[],
  { caller, signal }: CallContext,
): Question {
  assertMayDraft(caller, drafts.length + lists.length > 0);
  return {
    workspaceId: caller.workspaceId,
    agentId: caller.agentId,
    actions,
    seen: seen.map(seenFrom),
    signal,
    drafts: drafts.map(draftOf),
    lists: lists.map(listDraftFrom),
    atMs: at === undefined ? undefined : timestampMs(at),
  };
}

function decidedFrom({ decision, path, policyName, reasons, policy }: Outcome) {
  return {
    decision: decisionMapping.toProto[decision],
    decisionPath: decisionPathMapping.toProto[path],
    ...(policyName === undefined ? {} : { policyName }),
    reasons: reasons.map(reasonMessageFrom),
    collectiveLimits: (policy?.collectiveLimits ?? []).map((limit) => {
      const mayExceed = path === "approved" && policy?.fired.some(({ mandate }) => mandate.id === limit.mandateId);
      return limitMessageFrom(limit, mayExceed);
    }),
  };
}

const valueFrom = (value: JsonValue) => fromJson(ValueSchema, value);

function conditionFrom({
  condition,
  path,
  operator,
  expected,
  seen,
  value,
  holds,
  lists,
  values = [],
}: TracedCondition) {
  return {
    condition,
    path,
    operator,
    holds,
    seen: SEEN[seen],
    lists: lists.map(({ matched, ...list }) => ({ ...list, matched: [...matched] })),
    values: values.map(({ sources, tools, fires }) => ({ sources: [...sources], tools: [...tools], fires })),
    ...(expected === undefined ? {} : { expected: valueFrom(expected) }),
    ...(value === undefined ? {} : { value: valueFrom(value) }),
  };
}

function ruleFrom({ mandate, rule, covers, fires, conditions }: TracedRule) {
  return {
    mandateId: mandate.id,
    mandateName: mandate.name,
    version: mandate.version,
    rule: rule.path,
    type: rule.type,
    decision: decisionMapping.toProto[rule.decision],
    mode: mandateModeMapping.toProto[mandate.mode],
    covers,
    fires,
    conditions: conditions.map(conditionFrom),
  };
}

function probeFrom({ outcome, trace, nearestAllow, seq, atMs }: Probe): MessageInitShape<typeof ProbeResponseSchema> {
  return {
    probe: {
      ...decidedFrom(outcome),
      trace: trace.rules.map(ruleFrom),
      traceLeftOut: trace.leftOut,
      nearestAllow: nearestAllow.map(({ argument, from, to }) => ({
        argument,
        from: valueFrom(from ?? null),
        to: valueFrom(to),
      })),
      seq: BigInt(seq),
      at: timestampFromMs(atMs),
    },
  };
}

const resultFrom = ({ decision, fires, resetsAtMs }: TestResult) => ({
  decision: decisionMapping.toProto[decision],
  fires,
  ...(resetsAtMs !== undefined && { resetsAt: timestampFromMs(resetsAtMs) }),
});

const noteFrom = ({ rule, message }: TestNote) => ({ ...(rule === undefined ? {} : { rule }), message });

function testFrom(test: MandateTest): MessageInitShape<typeof MandateTestSchema> {
  const { testId, name, rule, action, history, atMs, trust, agent, expected, because } = test;
  return {
    testId,
    name,
    rule,
    trust,
    because,
    action,
    history: history.map(({ by, actionType, decision, beforeMs, count: times, amount, outcome }) => ({
      by: PAST_AGENTS[by],
      actionType,
      decision: decisionMapping.toProto[decision],
      beforeMs: BigInt(beforeMs),
      count: times,
      ...(amount !== undefined && { amount }),
      ...(outcome !== undefined && { outcome: outcomeStatusMapping.toProto[outcome] }),
    })),
    at: timestampFromMs(atMs),
    agent: { agentId: agent.agentId, departmentIds: [...agent.departmentIds] },
    expected: resultFrom(expected),
  };
}

function runFrom({ test, passed, actual, reasons }: TestRun): MessageInitShape<typeof TestRunSchema> {
  const { testId, name, rule, expected } = test;
  return {
    testId,
    name,
    rule,
    passed,
    expected: resultFrom(expected),
    actual: resultFrom(actual),
    reasons: reasons.slice(0, MAX_REASONS).map(reasonMessageFrom),
  };
}

function count(outcomes: readonly Outcome[], decision: Outcome["decision"]): number {
  return outcomes.filter((outcome) => outcome.decision === decision).length;
}

/** Parts that DryRunService needs. */
export type DryRunServiceOptions = Omit<MandateTestParts, "reads"> & {
  readonly pool: Pool;
  readonly questions: QuestionReader;
};

/** Creates the functions of DryRunService. */
export function createDryRunService(options: DryRunServiceOptions): ServiceDefinition {
  const { pool, logs, checker, database, questions, sessionKeys } = options;
  const parts: DryRunParts = { logs, checker, sessionKeys, reads: new ReadOnlyDatabase(pool) };
  const dryRuns = new DryRuns(parts);
  const mandateTests = new MandateTests({ ...parts, database });
  const keptBacktests = new KeptBacktests(database);
  const names = new ActorNames(pool);
  const shown = async (row: BacktestRow) =>
    keptBacktestFrom(row, (await names.find(row.workspaceId, [row.createdBy]))(row.createdBy));
  return defineService(DryRunService, {
    async preflight(request, context) {
      const actions = request.steps.map((step) => hypotheticalFrom(step, request.agentId, context.caller));
      const { steps, seq, atMs } = await preflight(dryRuns, questionFrom(request, actions, context));
      const outcomes = steps.map(({ outcome }) => outcome);
      return {
        preflight: {
          steps: steps.map(({ outcome, arguments: args }, index) => ({
            index,
            ...decidedFrom(outcome),
            trustBefore: outcome.trustBeforeTenths / 10,
            trustAfter: outcome.trustAfterTenths / 10,
            arguments: args.map(({ given, ...argument }) => ({ ...argumentFrom(argument), given })),
          })),
          allowed: count(outcomes, "allow"),
          blocked: count(outcomes, "block"),
          escalated: count(outcomes, "escalate"),
          seq: BigInt(seq),
          at: timestampFromMs(atMs),
        },
      };
    },

    async *backtest(request, { caller, signal }) {
      assertMayDraft(caller, request.keep || request.drafts.length + request.lists.length > 0);
      const { workspaceId, keyId: createdBy } = caller;
      const { since, until, agentId, archives, listChanges, onlyDrafts } = request;
      const supposed = supposedFrom(request);
      const window = { sinceMs: since && timestampMs(since), untilMs: until && timestampMs(until) };
      const query = { ...supposed, ...window, workspaceId, agentId, archives, signal, onlyDrafts };
      const question = request.keep ? questionJson(request) : undefined;
      if (question !== undefined) assertKeepable(question);
      for await (const event of dryRuns.backtest({ ...query, listsChanges: listChanges })) {
        if (event.kind !== "report" || question === undefined) {
          yield backtestFrom(event);
          continue;
        }
        const { report } = event;
        const lastMs = report.untilMs === undefined ? undefined : report.untilMs + 1;
        const kept = {
          workspaceId,
          createdBy,
          question,
          agentId,
          onlyDrafts,
          sinceMs: window.sinceMs,
          untilMs: window.untilMs ?? lastMs,
          questionDigest: questionDigest(supposed),
          report: reportJson(report),
        };
        yield { report: { ...reportFrom(report), backtestId: await keptBacktests.keep(kept, logs.clock.now()) } };
      }
    },

    async *replay(request, { caller, signal }) {
      const { drafts, lists, tools, escalated, agentId } = request;
      assertMayDraft(caller, drafts.length + lists.length + tools.length > 0);
      const query = {
        workspaceId: caller.workspaceId,
        episodes: episodesFrom(request, caller),
        drafts: drafts.map(draftOf),
        lists: lists.map(listDraftFrom),
        tools: tools.map(toolDraftFrom),
        escalated: escalatedFrom(escalated),
        agentId,
        signal,
      };
      for await (const event of dryRuns.replay(query)) yield replayMessageFrom(event);
    },

    async getBacktest({ backtestId }, { caller: { workspaceId } }) {
      return { backtest: await shown(await keptBacktests.get(workspaceId, backtestId, logs.clock.now())) };
    },

    async findBacktest(request, { caller: { workspaceId } }) {
      const digest = questionDigest(supposedFrom(request));
      const row = await keptBacktests.last(workspaceId, digest, logs.clock.now());
      return row === undefined ? {} : { backtest: await shown(row) };
    },

    async ask(request, { caller, signal }) {
      const actionOf = (action: AskedAction): Action => askedActionFrom(action, caller);
      const question = request.form.case === undefined ? request.question : request.form;
      const { asked, text, holds, evidence } = await ask(
        { ...parts, dryRuns, questions },
        { workspaceId: caller.workspaceId, agentId: caller.agentId, question, signal, actionOf },
      );
      return {
        answer: {
          form: FORMS[asked.case],
          text,
          ...(holds === undefined ? {} : { holds }),
          evidence: evidence.map((each) => ({ ...each })),
          asked: { form: asked },
        },
      };
    },

    async probe(request: ProbeRequest, context) {
      const action = hypotheticalFrom(request, request.agentId, context.caller);
      return probeFrom(await probe(dryRuns, questionFrom(request, [action], context)));
    },

    async generateTests({ mandateId }, { caller: { workspaceId }, signal }) {
      const { tests, notes, version } = await mandateTests.generate({ workspaceId, mandateId, signal });
      return { tests: tests.map(testFrom), notes: notes.map(noteFrom), version };
    },

    async listTests(request, { caller: { workspaceId } }) {
      const { mandateId } = request;
      const pageSize = request.pageSize === 0 ? MAX_TESTS : request.pageSize;
      const page = pageFrom({ ...request, pageSize }, "tests", mandateId);
      const { items, next, notes, version } = await mandateTests.list({ workspaceId, mandateId }, page);
      const nextPageToken = page.tokenAfter(next);
      return { tests: items.map(testFrom), nextPageToken, notes: notes.map(noteFrom), version };
    },

    async runTests({ mandateId }, { caller: { workspaceId }, signal }) {
      const { runs, version } = await mandateTests.run({ workspaceId, mandateId, signal });
      const passed = runs.filter((run) => run.passed).length;
      return { passed, failed: runs.length - passed, results: runs.map(runFrom), version };
    },
  });
}
