import type { StoredLog } from "../log/stored-log.ts";
import type { JournalLine, PaymentBudget } from "./payment-plans.ts";

/*
 * Reads the whole log of a round of payments and the journal of its clients afterwards. It shares nothing with the code that decides:
 * amounts are whole millionths read from the text of a number, sums are loops over lists, windows are compared by the entries' times.
 */

/** What the reader knows of a round apart from its log. */
export interface PaidRound {
  readonly budgets: readonly PaymentBudget[];
  /** Ids of departments with their members, which do not change. */
  readonly departments: ReadonlyMap<string, readonly string[]>;
  readonly journal: readonly JournalLine[];
}

/** Result of reading. */
export interface PaidReport {
  /** Descriptions with the entries at fault; empty if everything is right. */
  readonly faults: readonly string[];
  readonly figures: Readonly<Record<string, number>>;
}

interface SealedBudget {
  readonly limit: number;
  readonly total: number;
  readonly reserved: number;
  readonly captured: number;
  readonly remaining: number;
}

interface Entry {
  readonly type: string;
  readonly seq: number;
  readonly at: string;
  readonly decision_id: string;
  readonly decision: "allow" | "block" | "escalate";
  /** Absent for the default. */
  readonly decision_path?: string;
  readonly action: { readonly agent_id: string; readonly tool: string; readonly metadata: Metadata };
  readonly reasons?: readonly { readonly code: string }[];
  readonly authorisation?: { readonly collective_limits?: readonly { readonly budget: SealedBudget }[] };
  readonly reserved?: readonly { readonly millionths: number }[];
  readonly claim_id?: string;
  readonly outcome_due_at?: string;
  readonly status: "succeeded" | "failed" | "cancelled" | "unknown";
  readonly amount?: number;
  readonly source: "agent" | "operator" | "timeout";
  readonly settles: boolean;
}

interface Metadata {
  readonly arguments: { readonly amount: number };
}

/** Payment that was allowed, as it stands so far. */
interface Payment {
  readonly entry: Entry;
  readonly atMs: number;
  readonly asked: number;
  reserved: number;
  captured: number;
  /** True if an approval let it exceed a budget that escalates. */
  readonly isOverByApproval: boolean;
  claimId: string | undefined;
  readonly outcomes: Entry[];
}

/** Reads an amount as millionths from the decimal text of its number. */
function millionthsOf(amount: number): number {
  const [wholes = "", places = ""] = amount
    .toLocaleString("en", { useGrouping: false, maximumFractionDigits: 20 })
    .split(".");
  if (places.length > 6) throw new Error(`${amount} has more than six places`);
  return Number(wholes + places.padEnd(6, "0"));
}

const isTool = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase();

/** One walk over a log. */
class Reader {
  readonly #round: PaidRound;
  readonly #payments = new Map<string, Payment>();
  readonly #faults: string[] = [];
  readonly #count: Record<string, number> = {};

  constructor(round: PaidRound) {
    this.#round = round;
  }

  read({ entries }: StoredLog): PaidReport {
    for (const { body } of entries) {
      const entry = JSON.parse(body) as Entry;
      if (entry.type === "decision") this.#decision(entry);
      if (entry.type === "claim") this.#claim(entry);
      if (entry.type === "outcome") this.#outcome(entry);
    }
    for (const payment of this.#payments.values()) this.#end(payment);
    this.#journal();
    return { faults: this.#faults, figures: this.#count };
  }

  #decision(entry: Entry): void {
    const asked = millionthsOf(entry.action.metadata.arguments.amount);
    const atMs = Date.parse(entry.at);
    const { agent_id: agentId, tool } = entry.action;
    const paid = this.#round.budgets.filter(({ tools }) => tools.some((each) => isTool(each, tool)));
    const found = paid.filter((budget) => this.#group(budget)?.has(agentId) !== false);
    const states = found.map((budget) => ({ budget, ...this.#pot(budget, agentId, atMs) }));
    const over = states.filter(({ budget, total }) => total + asked > millionthsOf(budget.maxTotal));
    const blocks = over.some(({ budget }) => budget.decision === "block");
    const isApproved = entry.decision_path === "approved";
    const tooMany = entry.reasons?.some(({ code }) => code === "TOO_MANY_PENDING") === true;
    const escalates = over.length > 0 && !blocks;
    const want = blocks || (escalates && tooMany) ? "block" : escalates && !isApproved ? "escalate" : "allow";
    if (entry.decision !== want) {
      const sums = states.map(({ budget, total }) => `${budget.name} has ${total} of ${millionthsOf(budget.maxTotal)}`);
      this.#fault(`${entry.decision} instead of ${want} for ${asked} millionths: ${sums.join(", ")}`, entry);
    }
    const sealed = (entry.authorisation?.collective_limits ?? []).map(({ budget }) => shown(budget));
    const wanted = states.map(({ budget, reserved, captured }) => {
      const limit = millionthsOf(budget.maxTotal);
      const total = reserved + captured + asked;
      return [limit, total, reserved + asked, captured, Math.max(0, limit - total)].join(" ");
    });
    if (sealed.toSorted().join() !== wanted.toSorted().join())
      this.#fault(`limits ${wanted.join(", ")} are sealed as ${sealed.join(", ")}`, entry);
    this.#tally(isApproved ? "approved" : entry.decision);
    if (entry.decision !== "allow") return;
    const reserved = entry.reserved ?? [];
    if (reserved.length !== paid.length || reserved.some(({ millionths }) => millionths !== asked))
      this.#fault(`${JSON.stringify(reserved)} is reserved in ${paid.length} pots instead of ${asked}`, entry);
    const isOverByApproval = isApproved && escalates;
    const claimId = entry.claim_id;
    const payment = { entry, atMs, asked, reserved: asked, captured: 0, isOverByApproval, claimId, outcomes: [] };
    this.#payments.set(entry.decision_id, payment);
    this.#bounds(payment, entry);
  }

  #claim(entry: Entry): void {
    const payment = this.#paymentOf(entry);
    if (payment === undefined) return;
    if (payment.claimId !== undefined) this.#fault("is claimed a second time", entry);
    if (payment.outcomes.length > 0) this.#fault("is claimed after its outcome", entry);
    payment.claimId = entry.claim_id;
    this.#tally("claims");
  }

  #outcome(entry: Entry): void {
    const payment = this.#paymentOf(entry);
    if (payment === undefined) return;
    const { status, source, settles, amount } = entry;
    const [first, second] = payment.outcomes;
    const isFirst = first === undefined && !settles && (status === "unknown") === (source === "timeout");
    const isSettlement =
      first?.status === "unknown" && second === undefined && settles && source === "operator" && status !== "unknown";
    if (!isFirst && !isSettlement) this.#fault(`follows ${payment.outcomes.map((each) => each.status).join()}`, entry);
    payment.outcomes.push(entry);
    this.#tally(settles ? "settled" : status);
    if (status === "unknown") return;
    payment.captured = status !== "succeeded" ? 0 : amount === undefined ? payment.asked : millionthsOf(amount);
    payment.reserved = 0;
    if (payment.captured > payment.asked) this.#tally("overdrawn");
    this.#bounds(payment, entry);
  }

  /** Checks, after an entry, every pot that it may have changed: what no approval and no overdraft declares fits. */
  #bounds({ entry: { action } }: Payment, entry: Entry): void {
    for (const budget of this.#round.budgets) {
      const { declared, total } = this.#pot(budget, action.agent_id, Date.parse(entry.at));
      const most = millionthsOf(budget.maxTotal);
      if (total - declared > most)
        this.#fault(`leaves ${total} with ${declared} declared in the pot ${budget.name} of ${most}`, entry);
    }
  }

  /** Sums of the pot of a budget for an agent at a time. */
  #pot(budget: PaymentBudget, agentId: string, atMs: number) {
    const members = budget.scope === "agent" ? new Set([agentId]) : this.#group(budget);
    let [reserved, captured, declared] = [0, 0, 0];
    for (const payment of this.#payments.values()) {
      const { action } = payment.entry;
      if (payment.atMs <= atMs - budget.windowSeconds * 1_000) continue;
      if (!budget.tools.some((tool) => isTool(tool, action.tool))) continue;
      if (members !== undefined && !members.has(action.agent_id)) continue;
      reserved += payment.reserved;
      captured += payment.captured;
      const now = payment.reserved + payment.captured;
      const isOver = payment.isOverByApproval && budget.decision === "escalate";
      declared += isOver ? now : Math.max(0, now - payment.asked);
    }
    return { reserved, captured, declared, total: reserved + captured };
  }

  /** Members of the department of a budget; undefined if it is of no department. */
  #group({ departmentId }: PaymentBudget): ReadonlySet<string> | undefined {
    return departmentId === undefined ? undefined : new Set(this.#round.departments.get(departmentId));
  }

  #paymentOf(entry: Entry): Payment | undefined {
    const payment = this.#payments.get(entry.decision_id);
    if (payment === undefined) this.#fault("is about no allowed payment", entry);
    return payment;
  }

  /** Every allowed payment is tracked, since each reserves, and ends once. */
  #end({ entry, outcomes }: Payment): void {
    if (entry.outcome_due_at === undefined) this.#fault("reserves and is not tracked", entry);
    if (outcomes.length === 0) this.#fault("is pending for ever", entry);
  }

  /** Every run was of an allowed payment and under its claim, none ran twice, and what was acknowledged is sealed. */
  #journal(): void {
    const { journal } = this.#round;
    const ran = new Map<string, number>();
    const requests = new Set<string>();
    for (const line of journal) {
      if (line.kind === "unexpected") this.#faults.push(`a client did not expect ${line.what}`);
      if (line.kind === "ran") {
        const payment = this.#payments.get(line.decisionId);
        const told = JSON.stringify(line);
        if (payment === undefined) this.#faults.push(`ran without an allowed payment: ${told}`);
        else if (payment.claimId !== line.claimId) this.#fault(`ran under another claim: ${told}`, payment.entry);
        if (ran.has(line.decisionId) || requests.has(line.requestId)) this.#faults.push(`ran twice: ${told}`);
        ran.set(line.decisionId, 1);
        requests.add(line.requestId);
        this.#tally("runs");
      }
      if (line.kind === "reported") {
        const payment = this.#payments.get(line.decisionId);
        const isSealed = payment?.outcomes.some(
          ({ status, amount }) => status === line.status && amount === line.amount,
        );
        if (isSealed !== true) this.#faults.push(`acknowledged but not sealed: ${JSON.stringify(line)}`);
      }
    }
    for (const { entry, outcomes } of this.#payments.values())
      if (outcomes[0]?.status === "succeeded" && !ran.has(entry.decision_id))
        this.#fault("succeeded without a run", entry);
  }

  #tally(name: string): void {
    this.#count[name] = (this.#count[name] ?? 0) + 1;
  }

  #fault(what: string, entry: Entry): void {
    this.#faults.push(`entry ${entry.seq} ${what}\n  ${JSON.stringify(entry)}`);
  }
}

const shown = ({ limit, total, reserved, captured, remaining }: SealedBudget): string =>
  [limit, total, reserved, captured, remaining].map(millionthsOf).join(" ");

/** Reads a log from its first entry to its last, and then the journal. */
export function readPaidRound(log: StoredLog, round: PaidRound): PaidReport {
  return new Reader(round).read(log);
}
