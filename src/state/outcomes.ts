import { LRUCache } from "lru-cache";
import { millionthsFrom } from "../policy/decimal.ts";
import { heldAmount, type OutcomeStatus } from "../policy/outcome-status.ts";
import { idWithPrefix } from "../store/ids.ts";
import type { AmountChange, Reservation } from "./counters/budget-pots.ts";

export type { OutcomeStatus };

/** Status that an entry seals: a pending outcome has no entry. */
export type SealedStatus = Exclude<OutcomeStatus, "pending">;

/** Members that every entry about an earlier decision has. */
interface SealedFollowUp {
  readonly workspace_id: string;
  readonly seq: number;
  /** RFC 3339 in UTC. */
  readonly at: string;
  readonly previous_root: string;
  readonly previous_size: number;
  readonly decision_id: string;
  /** Index and time of the decision's entry. */
  readonly decision_seq: number;
  readonly decided_at: string;
  readonly agent_id: string;
  readonly principal_id?: string;
  readonly action_type: string;
}

/** Claim of an allowed action, as its entry seals it. */
export interface SealedClaim extends SealedFollowUp {
  readonly type: "claim";
  readonly claim_id: string;
  /** The key or person that claimed it. */
  readonly claimed_by: string;
  /** Time from which the outcome becomes unknown unless it is reported before. Absent if it is not tracked. */
  readonly outcome_due_at?: string;
}

/**
 * Party that an outcome comes from: the agent's own key, an operator, the gateway that forwarded the action itself, or the service after
 * the time was over.
 */
export type OutcomeSource = "agent" | "operator" | "gateway" | "timeout";

/**
 * Amount that an outcome captured above what its action reserved in a pot. Names the budget by its mandate, rule, scope and group as in the
 * decision's receipt; one that the decision did not evaluate, because it covers other agents, by its pot alone.
 */
export interface Overdraft {
  readonly mandate_id?: string;
  readonly rule?: string;
  readonly scope?: string;
  readonly group?: string;
  /** Key of the pot. */
  readonly pot: string;
  readonly currency?: string;
  /** In units of the currency, as `captured`. */
  readonly reserved: number;
  readonly captured: number;
}

/** Amount that an action reserved in a pot, as its outcome finds it. */
export interface ReportedAmount extends Reservation {
  /** True if the outcome leaves the amount reserved, because the agent alone reported it and the pot takes confirmed reports. */
  readonly held?: true;
  /** Millionths that the pot captured by the agent's report, in place of the reservation, if this outcome confirms or corrects one. */
  readonly captured?: number;
  /** Status of the agent's report that this outcome confirms or corrects. Set for a pot that names the outcomes that count. */
  readonly was?: SealedStatus;
}

/** Outcome of an allowed action, as its entry seals it. */
export interface SealedOutcome extends SealedFollowUp {
  readonly type: "outcome";
  readonly status: SealedStatus;
  readonly amount?: number;
  readonly error?: string;
  readonly result_digest?: string;
  /** The key or person that reported it, `gateway` or `timeout`. */
  readonly reported_by: string;
  readonly source: OutcomeSource;
  /** Amounts that the decision reserved in the pots of budgets. Absent when there are none. */
  readonly reserved?: readonly ReportedAmount[];
  /** Budgets in which more is captured than was reserved, by pot. Absent when there are none. */
  readonly overdrawn?: readonly Overdraft[];
  /**
   * True for the entry by which an operator settles an unknown outcome, or the gateway or an operator one that awaits confirmation; false
   * for the first of a decision.
   */
  readonly settles: boolean;
  /** Time at which the outcome had become unknown, if the entry settles one. */
  readonly unknown_at?: string;
}

/** Tests whether an outcome leaves an amount reserved until the gateway or an operator reports it. */
export const awaitsConfirmation = ({ reserved = [] }: SealedOutcome): boolean =>
  reserved.some(({ held }) => held === true);

/** Returns what an outcome captures of a reserved amount, in millionths: its own amount, or what was reserved; 0 for a failure. */
export function capturedBy(
  { status, amount }: { readonly status: SealedStatus; readonly amount?: number | undefined },
  { millionths, unit }: Reservation,
): number {
  if (status !== "succeeded") return 0;
  return amount === undefined || unit === "action" ? millionths : (millionthsFrom(amount) ?? millionths);
}

/** Tests whether a report leaves less of a reserved amount in its pot than counts while its outcome is open. */
export function releases(
  report: { readonly status: SealedStatus; readonly amount?: number | undefined },
  reserved: Reservation,
): boolean {
  const { millionths, outcomes } = reserved;
  const { reserved: before } = heldAmount("pending", millionths, undefined, outcomes);
  const after = heldAmount(report.status, millionths, capturedBy(report, reserved), outcomes);
  return after.reserved + after.captured < before;
}

/** Tests whether a pot that takes confirmed reports alone keeps an amount, because an agent says that less was paid. */
export const isHeldBack = (
  report: Parameters<typeof releases>[0] & Pick<SealedOutcome, "source">,
  amount: Reservation,
): boolean => report.source === "agent" && releases(report, amount);

/**
 * Returns how an outcome changes the amounts that its action reserved: a success captures its amount, or what was reserved, a failure
 * releases it, and an unknown outcome leaves it as it is, unless the pot names the outcomes that count. A pot that holds its amount keeps
 * it too.
 */
export function amountChangesOf(outcome: SealedOutcome): readonly AmountChange[] {
  const { status, unknown_at: unknownAt, reserved = [] } = outcome;
  return reserved.flatMap((amount): readonly AmountChange[] => {
    const { pot, millionths, outcomes, held, captured: before, was = "succeeded" } = amount;
    if (held === true) return [];
    const open = unknownAt === undefined ? "pending" : "unknown";
    const then = heldAmount(before === undefined ? open : was, millionths, before, outcomes);
    const now = heldAmount(status, millionths, capturedBy(outcome, amount), outcomes);
    const change = { pot, reserved: now.reserved - then.reserved, captured: now.captured - then.captured };
    return change.reserved === 0 && change.captured === 0 ? [] : [change];
  });
}

/** Entries about one decision, as far as they exist. */
export interface FollowUps {
  /** The claim by an entry of its own. */
  readonly claim?: SealedClaim | undefined;
  readonly outcome?: SealedOutcome | undefined;
  /** The settlement of an unknown outcome, or of one that awaits confirmation. */
  readonly settlement?: SealedOutcome | undefined;
}

/**
 * Ids of the entries about a decision, which share its UUID: a log cannot hold a second entry of the same id, so that each is sealed
 * once at most.
 */
export const followUpId = {
  claim: (decisionId: string): string => idWithPrefix("clm", decisionId),
  outcome: (decisionId: string): string => idWithPrefix("out", decisionId),
  settlement: (decisionId: string): string => idWithPrefix("stl", decisionId),
};

/** Returns the member of `FollowUps` that an entry fills. */
export function memberOf(entry: SealedClaim | SealedOutcome): keyof FollowUps {
  if (entry.type === "claim") return "claim";
  return entry.settles ? "settlement" : "outcome";
}

/** Entries about a decision that some item of the log waits to follow up. */
interface Watched {
  readonly holders: Set<object>;
  readonly folded: Partial<Record<keyof FollowUps, SealedClaim | SealedOutcome>>;
}

/**
 * Number of the latest folded entries that are remembered. INVARIANT: more than the batches in flight hold, whose entries a reader of
 * the database does not see yet.
 */
const REMEMBERED = 2_048;

/**
 * The claims and outcomes of a workspace that some item waits to follow up. Most decisions are followed up once or never, so none
 * is kept in memory longer than an item waits for it.
 *
 * INVARIANT: what was read of a decision after `watch`, with what `foldedOf` returns, is all that the log holds about it.
 */
export class ActionOutcomes {
  readonly #watched = new Map<string, Watched>();
  readonly #recent = new LRUCache<string, SealedClaim | SealedOutcome>({
    maxSize: REMEMBERED,
    sizeCalculation: () => 1,
  });

  /** Number of decisions that are watched. */
  get size(): number {
    return this.#watched.size;
  }

  /** Keeps entries about a decision from now on, until `unwatch` is called with the same holder. */
  watch(decisionId: string, holder: object): void {
    const watched = this.#watched.get(decisionId);
    if (watched !== undefined) return void watched.holders.add(holder);
    const folded: Watched["folded"] = {};
    for (const member of ["claim", "outcome", "settlement"] as const) {
      const entry = this.#recent.get(followUpId[member](decisionId));
      if (entry !== undefined) folded[member] = entry;
    }
    this.#watched.set(decisionId, { holders: new Set([holder]), folded });
  }

  /** Tests whether entries about a decision are kept for a holder. */
  isWatched(decisionId: string, holder: object): boolean {
    return this.#watched.get(decisionId)?.holders.has(holder) === true;
  }

  /** Ends what `watch` began for a holder, if it did. */
  unwatch(decisionId: string, holder: object): void {
    const watched = this.#watched.get(decisionId);
    if (watched?.holders.delete(holder) === true && watched.holders.size === 0) this.#watched.delete(decisionId);
  }

  /** Returns the entries about a decision that were folded lately, or since it is watched. */
  foldedOf(decisionId: string): FollowUps {
    return (this.#watched.get(decisionId)?.folded ?? {}) as FollowUps;
  }

  /** Notes a folded entry. `undo` gets the step that forgets it again. */
  fold(entry: SealedClaim | SealedOutcome, undo?: (() => void)[]): void {
    const { decision_id: decisionId } = entry;
    const member = memberOf(entry);
    const id = followUpId[member](decisionId);
    this.#recent.set(id, entry);
    const watched = this.#watched.get(decisionId);
    if (watched !== undefined) watched.folded[member] = entry;
    undo?.push(() => {
      this.#recent.delete(id);
      // The decision may be watched only since.
      const now = this.#watched.get(decisionId);
      if (now?.folded[member] === entry) delete now.folded[member];
    });
  }
}
