import type { JsonObject } from "@bufbuild/protobuf";
import type { OutcomeStatus } from "../policy/outcome-status.ts";
import type { Decision } from "../policy/types.ts";

/**
 * The agent that did a past action: the acting one, one of exactly its departments, one in no department, or one in no department
 * that acted on behalf of the acting one.
 */
export type PastAgent = "self" | "colleague" | "other" | "delegate";

/** An action before the tested one. */
export interface PastAction {
  readonly by: PastAgent;
  readonly actionType: string;
  readonly decision: Decision;
  /** Milliseconds before the tested action. */
  readonly beforeMs: number;
  /** Number of such actions. */
  readonly count: number;
  /** Amount that each reserved in the budgets of the mandate, if it was allowed. Default: none. */
  readonly amount?: number;
  /** Status of the outcome of each, if it was allowed. Default `pending`. */
  readonly outcome?: OutcomeStatus;
}

/** An action with everything that rules read, in a workspace that has nothing else. */
export interface TestedAction {
  readonly action: {
    readonly actionType: string;
    readonly actionContent: string;
    readonly tool?: string;
    readonly metadata?: JsonObject;
  };
  readonly agent: { readonly agentId: string; readonly departmentIds: readonly string[] };
  /** Oldest first. */
  readonly history: readonly PastAction[];
  /** Epoch milliseconds. */
  readonly atMs: number;
  /** 0 to 100, in tenths. */
  readonly trust: number;
}

/** Expected or actual result of a test. */
export interface TestResult {
  /** The decision of the mandate alone; `allow` when none of its rules fires. */
  readonly decision: Decision;
  /** True if the tested rule fires. */
  readonly fires: boolean;
  /**
   * Time from which the limit of the tested rule, which fires, has room for one more action, epoch milliseconds. Undefined for any
   * other rule, and if no action ever fits.
   */
  readonly resetsAtMs?: number;
}

/** One generated test of a rule. */
export interface MandateTest extends TestedAction {
  /** `tst_` and 24 hexadecimal digits of the SHA-256 of everything else. */
  readonly testId: string;
  /** The case, unique within the rule: `amount just above 500`. */
  readonly name: string;
  /** `rules[0]`. */
  readonly rule: string;
  readonly expected: TestResult;
  /** Reason for the expected result, in one sentence. */
  readonly because: string;
}

/** Cases of a rule, or rules, that have no test. */
export interface TestNote {
  /** `rules[0]`; undefined for the mandate. */
  readonly rule: string | undefined;
  /** One sentence. */
  readonly message: string;
}

/** The tests of one version of a mandate. */
export interface TestSuite {
  readonly tests: readonly MandateTest[];
  readonly notes: readonly TestNote[];
}
