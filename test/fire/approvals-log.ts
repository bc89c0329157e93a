import { ApprovalCheck } from "../../src/verify/approvals.ts";
import type { StoredLog } from "../log/stored-log.ts";

/** Approvals in a log, read by a second program that shares nothing with the service. */
export interface ReadApprovals {
  /** Sentences about every approval that should not have been, and every escalation that should have been approved. */
  readonly faults: readonly string[];
  readonly figures: Readonly<Record<string, number>>;
}

interface Need {
  readonly groups: readonly string[];
  readonly at_least: number;
  readonly remind_at?: string;
  reminded?: boolean;
}

interface Given {
  readonly by: string;
  readonly party: string | undefined;
  /** Groups that the approver was a member and a deputy of when they approved. */
  readonly member: ReadonlySet<string>;
  readonly deputy: ReadonlySet<string>;
}

interface Read {
  readonly needs: Need[];
  readonly askers: Set<string>;
  given: Given[];
  status: "pending" | "approved" | "rejected";
  used: boolean;
}

type Group = { readonly name: string; readonly members: readonly string[]; readonly deputies: readonly string[] };

// biome-ignore lint/suspicious/noExplicitAny: entries of many kinds, read by their type.
type Entry = any;

/** Says what the verifier finds wrong with the approvals of a log; undefined for nothing. `change` forges bodies. */
export function verifierFault(
  { entries }: Pick<StoredLog, "entries">,
  change: (entry: Entry) => Entry = (entry) => entry,
): string | undefined {
  const check = new ApprovalCheck();
  try {
    for (const [index, { body }] of entries.entries()) check.check(change(JSON.parse(body)), index);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Reads a log in its order. */
export function readApprovals({ entries }: StoredLog): ReadApprovals {
  const groups = new Map<string, Group>();
  const owners = new Map<string, string>();
  const escalations = new Map<string, Read>();
  const faults: string[] = [];
  const figures: Record<string, number> = {};
  const count = (name: string): void => {
    figures[name] = (figures[name] ?? 0) + 1;
  };
  const partyOf = (by: string): string | undefined => owners.get(by);
  const personOf = (by: string): string => partyOf(by) ?? by;
  const opened = (id: string): Read => {
    const known = escalations.get(id);
    if (known !== undefined) return known;
    const read: Read = { needs: [], askers: new Set(), given: [], status: "pending", used: false };
    escalations.set(id, read);
    return read;
  };
  const answerOf = (by: string): Given => {
    const party = partyOf(by);
    const inside = (names: readonly string[]): boolean => party !== undefined && names.includes(party);
    const all = [...groups.values()];
    return {
      by,
      party,
      member: new Set(all.filter(({ members }) => inside(members)).map(({ name }) => name)),
      deputy: new Set(all.filter(({ deputies }) => inside(deputies)).map(({ name }) => name)),
    };
  };
  const counts = (need: Need, { party, member, deputy }: Given): boolean => {
    if (party === undefined && need.at_least > 1) return false;
    if (need.groups.length === 0) return true;
    return need.groups.some((name) => member.has(name) || (need.reminded === true && deputy.has(name)));
  };
  const standing = ({ given, askers }: Read): Given[] =>
    given.filter(({ by }) => ![...askers].some((asker) => personOf(asker) === personOf(by)));
  const isMet = (read: Read, given: readonly Given[]): boolean =>
    read.needs.every((need) => {
      const people = new Set(given.filter((each) => counts(need, each)).map(({ by }) => personOf(by)));
      return people.size >= need.at_least;
    });
  const replaceGiven = (read: Read, answer: Given): void => {
    read.given = [...read.given.filter(({ by }) => personOf(by) !== personOf(answer.by)), answer];
  };

  const readResolved = (entry: Entry, at: string): void => {
    const read = opened(entry.escalation_id);
    if (read.status !== "pending") faults.push(`${at}: resolved twice`);
    read.status = entry.resolution;
    count(entry.resolution);
    const replacedBy = entry.edit?.replaced_by;
    if (replacedBy !== undefined) {
      const edited = opened(replacedBy);
      for (const asker of [...read.askers, entry.by]) edited.askers.add(asker);
    }
    if (entry.resolution !== "approved" || read.needs.length === 0) return;
    count("approved together");
    replaceGiven(read, answerOf(entry.by));
    const counted = standing(read);
    if (!isMet(read, counted)) faults.push(`${at}: approved with a demand unmet: ${JSON.stringify(read.needs)}`);
    const told = (entry.approvals ?? []).map(({ by }: { by: string }) => by);
    for (const by of told) {
      if ([...read.askers].some((asker) => personOf(asker) === personOf(by)))
        faults.push(`${at}: ${by} asked or edited`);
    }
    if (new Set(told.map(personOf)).size !== told.length) faults.push(`${at}: somebody counted twice`);
    if (told.length !== counted.length) faults.push(`${at}: ${told.length} approvals instead of ${counted.length}`);
  };

  const readers: Readonly<Record<string, (entry: Entry, at: string) => void>> = {
    approver_group_changed: ({ approver_group }) => void groups.set(approver_group.name, approver_group),
    key_created({ key }) {
      if (key.owner !== undefined) owners.set(key.key_id, key.owner);
    },
    decision(entry, at) {
      const { escalation_id: id, used_escalation_id: used } = entry;
      if (used !== undefined) {
        const read = opened(used);
        if (read.status !== "approved" || read.used)
          faults.push(`${at}: allowed by an escalation that is ${read.status}`);
        read.used = true;
        count("used");
      }
      if (entry.decision !== "escalate" || id === undefined) return;
      count("asked");
      const read = opened(id);
      read.askers.add(entry.key_id);
      read.needs.push(...(entry.approvals_needed ?? []).map((need: Need) => ({ ...need })));
    },
    escalation_approval_given(entry, at) {
      const read = opened(entry.escalation_id);
      count("given");
      if (read.status !== "pending") faults.push(`${at}: approved after its end`);
      const answer = answerOf(entry.by);
      if (!read.needs.some((need) => counts(need, answer))) faults.push(`${at}: ${entry.by} counts for nothing`);
      replaceGiven(read, answer);
      if (isMet(read, standing(read))) faults.push(`${at}: pending with every demand met`);
    },
    escalation_approval_withdrawn(entry) {
      const read = opened(entry.escalation_id);
      count("taken back");
      read.given = read.given.filter(({ by }) => personOf(by) !== personOf(entry.by));
    },
    escalation_reminded(entry, at) {
      const read = opened(entry.escalation_id);
      count("reminded");
      const due = read.needs.filter(({ remind_at, reminded }) => !reminded && (remind_at ?? "~") <= entry.at);
      if (due.length === 0 || read.status !== "pending") faults.push(`${at}: reminded of what is not due`);
      for (const need of due) need.reminded = true;
    },
    escalation_resolved: readResolved,
  };
  for (const { body } of entries) {
    const entry: Entry = JSON.parse(body);
    readers[entry.type]?.(entry, `entry ${entry.seq} (${entry.escalation_id ?? ""})`);
  }
  return { faults, figures };
}
