import { indexFrom, type JsonRecord, type JsonValue, listAt, numberAt, stringFrom, textAt, valueAt } from "./json.ts";
import { VerificationError } from "./verification-error.ts";

/** Demand of a rule that named approvers. */
interface Demand {
  /** Mandate and rule, in words. */
  readonly rule: string;
  /** Approver groups of which one is enough; empty for every operator. */
  readonly groups: readonly string[];
  readonly atLeast: number;
}

/** An approval as its entry or the resolution seals it. */
interface Approval {
  /** Key or person. */
  readonly by: string;
  /** Person or owner; undefined for a key that counts as itself. */
  readonly party: string | undefined;
  readonly groups: readonly string[];
}

/** Sealed facts about an escalation that is not resolved. */
interface OpenEscalation {
  readonly demands: Demand[];
  /** Keys and people that asked for the action, or edited the one before it. */
  readonly askers: Set<string>;
  /** Approvals that stand, by the index of their entries. */
  readonly given: Map<number, Approval>;
  /** Groups that people were reminded for: their deputies count. */
  readonly reminded: Set<string>;
}

/** An approver group as sealed last. */
interface Group {
  readonly members: readonly string[];
  readonly deputies: readonly string[];
  /** True if an identity provider says who else is a member, which no entry seals. */
  readonly isOpen: boolean;
}

/** A key or credential: its owner, and the key or person that made it. */
interface Origin {
  readonly owner: string | undefined;
  readonly maker: string | undefined;
}

/** Beginning of the names of people, which the log keeps as they are; other owners are labels that compare in a form of their own. */
const PERSON = "oidc:";

/**
 * Checks that every approval in a log meets the demands that were sealed before it. Keeps the ids of keys, the groups, and the demands,
 * askers and approvals of pending escalations. Two spellings of an owner who is no person count as two.
 */
export class ApprovalCheck {
  readonly #open = new Map<string, OpenEscalation>();
  /** Escalations whose approval was not used yet. */
  readonly #approved = new Set<string>();
  readonly #groups = new Map<string, Group>();
  readonly #origins = new Map<string, Origin>();

  /** Readers of entries by type; other types say nothing of approvals. */
  readonly #readers: ReadonlyMap<unknown, (body: JsonRecord, index: number) => void> = new Map([
    ["decision", this.#decide.bind(this)],
    ["key_created", (body) => this.#note(textAt(body, "key.key_id"), stringFrom(valueAt(body, "key.owner")), body)],
    ["authority_created", (body) => this.#note(textAt(body, "authority.id"), undefined, body)],
    ["approver_group_changed", (body) => this.#change(valueAt(body, "approver_group"))],
    ["approver_group_deleted", (body) => void this.#groups.delete(textAt(body, "name"))],
    ["escalation_approval_given", this.#give.bind(this)],
    ["escalation_approval_withdrawn", (body) => this.#takeBack(this.#openIn(body), this.#selfOf(approvalFrom(body)))],
    ["escalation_reminded", (body) => this.#remind(this.#openIn(body), textsAt(body, "groups"))],
    ["escalation_resolved", this.#resolve.bind(this)],
  ]);

  /** Checks an entry. MUST be called for every entry, in order. Throws `approval`. */
  check(body: JsonRecord, index: number): void {
    this.#readers.get(body.type)?.(body, index);
  }

  #openIn(body: JsonRecord): OpenEscalation {
    return this.#openOf(textAt(body, "escalation_id"));
  }

  #openOf(id: string): OpenEscalation {
    const found = this.#open.get(id);
    if (found !== undefined) return found;
    const opened = { demands: [], askers: new Set<string>(), given: new Map(), reminded: new Set<string>() };
    this.#open.set(id, opened);
    return opened;
  }

  #decide(body: JsonRecord, index: number): void {
    const [asked, used] = [stringFrom(body.escalation_id), stringFrom(body.used_escalation_id)];
    if (used !== undefined && !this.#approved.delete(used))
      fail(index, `entry ${index} uses an approval of escalation \`${used}\`, which no entry before it gives`);
    if (asked === undefined || body.decision !== "escalate") return;
    const open = this.#openOf(asked);
    open.askers.add(textAt(body, "key_id"));
    open.demands.push(...demandsIn(body, index));
  }

  #remind({ reminded }: OpenEscalation, groups: readonly string[]): void {
    for (const name of groups) reminded.add(name);
  }

  #note(id: string, owner: string | undefined, { by }: JsonRecord): void {
    this.#origins.set(id, { owner, maker: stringFrom(by) });
  }

  #change(group: JsonValue | undefined): void {
    const [members, deputies] = [textsAt(group, "members"), textsAt(group, "deputies")];
    const isOpen = listAt(group, "oidc_groups").length > 0;
    this.#groups.set(textAt(group, "name"), { members, deputies, isOpen });
  }

  #give(body: JsonRecord, index: number): void {
    const open = this.#openIn(body);
    const approval = approvalFrom(body);
    this.#assertApprover(open, approval, index);
    this.#takeBack(open, this.#selfOf(approval));
    open.given.set(index, approval);
  }

  #takeBack({ given }: OpenEscalation, self: Set<string>): void {
    for (const [index, approval] of given) if (meets(this.#selfOf(approval), self)) given.delete(index);
  }

  #resolve(body: JsonRecord, index: number): void {
    const id = textAt(body, "escalation_id");
    const open = this.#openOf(id);
    this.#open.delete(id);
    const replacedBy = stringFrom(valueAt(body, "edit.replaced_by"));
    if (replacedBy !== undefined) {
      const { askers } = this.#openOf(replacedBy);
      for (const asker of [...open.askers, textAt(body, "by")]) askers.add(asker);
    }
    if (body.resolution !== "approved") return;
    this.#approved.add(id);
    if (open.demands.length > 0) this.#assertApproved(open, body, index);
  }

  #assertApproved(open: OpenEscalation, body: JsonRecord, index: number): void {
    const start = `entry ${index} approves escalation \`${textAt(body, "escalation_id")}\``;
    const approvals = listAt(body, "approvals").map((approval) => {
      const counted = approvalFrom(approval);
      this.#assertSealed(open, approval, body, index);
      return counted;
    });
    for (const { rule, groups, atLeast } of open.demands) {
      const count = approvals.filter((approval) => countsFor({ groups, atLeast }, approval)).length;
      if (count >= atLeast) continue;
      const whom = groups.length === 0 ? "any operator" : groups.map((name) => `\`${name}\``).join(" or ");
      fail(index, `${start}, and ${count} of its approvals meet the demand of ${rule}: ${atLeast} of ${whom}`);
    }
    for (const [place, approval] of approvals.entries()) {
      const self = this.#selfOf(approval);
      const asker = [...open.askers].find((each) => meets(self, this.#lineOf(each)));
      if (asker !== undefined)
        fail(index, `${start}, and counts \`${approval.by}\`, which asked for the action or edited it as \`${asker}\``);
      const others = approvals.toSpliced(place, 1);
      const same = others.find((each) => meets(self, new Set([...this.#selfOf(each), ...this.#lineOf(each.by)])));
      if (same !== undefined)
        fail(index, `${start}, and counts one party twice: as \`${approval.by}\` and \`${same.by}\``);
    }
  }

  /** Refuses an approval in a resolution that is neither that of its author nor the one of an entry that still stands. */
  #assertSealed(open: OpenEscalation, approval: JsonValue, body: JsonRecord, index: number): void {
    const counted = approvalFrom(approval);
    const seq = indexFrom(valueAt(approval, "seq"));
    if (seq === undefined && counted.by === textAt(body, "by")) {
      this.#assertApprover(open, counted, index);
      return;
    }
    const given = seq === undefined ? undefined : open.given.get(seq);
    if (given !== undefined && isSame(given, counted)) return;
    const which = `an approval of \`${counted.by}\` for escalation \`${textAt(body, "escalation_id")}\``;
    fail(index, `entry ${index} counts ${which} that no entry before it gives, or that was taken back`);
  }

  /** Refuses an approver who counts as somebody else, or in groups that they are not in. */
  #assertApprover(open: OpenEscalation, approval: Approval, index: number): void {
    const { by, party, groups } = approval;
    const owner = by.startsWith(PERSON) ? by : this.#origins.get(by)?.owner;
    const isKnown = by.startsWith(PERSON) || this.#origins.has(by);
    const isOther = owner?.startsWith(PERSON) ? party !== owner : (party === undefined) !== (owner === undefined);
    if (isKnown && isOther) {
      const counts = party === undefined ? "itself" : `\`${party}\``;
      fail(index, `entry ${index} counts \`${by}\` as ${counts}, and not as its owner`);
    }
    const wrong = groups.find((name) => !this.#isInside(name, party, open.reminded.has(name)));
    if (wrong !== undefined) fail(index, `entry ${index} counts \`${by}\` in group \`${wrong}\`, which it is not in`);
  }

  #isInside(name: string, party: string | undefined, isReminded: boolean): boolean {
    const group = this.#groups.get(name);
    if (group === undefined || party === undefined) return false;
    if (group.isOpen) return true;
    const names = isReminded ? [...group.members, ...group.deputies] : group.members;
    return names.some((each) => (party.startsWith(PERSON) ? each === party : !each.startsWith(PERSON)));
  }

  /** Names that an approval counts as. */
  #selfOf({ by, party }: Approval): Set<string> {
    const owner = this.#origins.get(by)?.owner;
    return new Set([by, ...(party === undefined ? [] : [party]), ...(owner === undefined ? [] : [owner])]);
  }

  /** Names of a key or person, of its owner, and of those who made it, with their owners. */
  #lineOf(id: string): Set<string> {
    const line = new Set<string>();
    for (let at: string | undefined = id; at !== undefined && !line.has(at); at = this.#origins.get(at)?.maker) {
      line.add(at);
      const owner = this.#origins.get(at)?.owner;
      if (owner !== undefined) line.add(owner);
    }
    return line;
  }
}

function fail(index: number, message: string): never {
  throw new VerificationError("approval", message, index);
}

function demandsIn(body: JsonRecord, index: number): Demand[] {
  const { approvals_needed: needed } = body;
  if (needed === undefined) return [];
  return (Array.isArray(needed) ? needed : [null]).map((demand) => {
    const atLeast = numberAt(demand, "at_least") ?? 0;
    if (!Number.isSafeInteger(atLeast) || atLeast < 1)
      fail(index, `entry ${index} demands approvals without saying how many`);
    const rule = `\`${textAt(demand, "rule")}\` of mandate \`${textAt(demand, "mandate_id")}\``;
    return { rule, groups: textsAt(demand, "groups"), atLeast };
  });
}

/** A key without an owner could be any number of keys of one person, and counts where one approval is enough. */
function countsFor({ groups: needed, atLeast }: Omit<Demand, "rule">, { party, groups }: Approval): boolean {
  if (party === undefined && atLeast > 1) return false;
  return needed.length === 0 || needed.some((name) => groups.includes(name));
}

function approvalFrom(value: JsonValue): Approval {
  return { by: textAt(value, "by"), party: stringFrom(valueAt(value, "party")), groups: textsAt(value, "groups") };
}

const textsAt = (value: unknown, path: string): string[] =>
  listAt(value, path).filter((each) => typeof each === "string");

const isSame = (a: Approval, b: Approval): boolean =>
  a.by === b.by && a.party === b.party && a.groups.join("\n") === b.groups.join("\n");

const meets = (a: Set<string>, b: Set<string>): boolean => [...a].some((each) => b.has(each));
