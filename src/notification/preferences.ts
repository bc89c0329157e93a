import { invalidField } from "../errors.ts";
import type { Escalation } from "../escalation/escalation.ts";
import { checkedText } from "../registry/checked-text.ts";
import { type Database, stored } from "../store/database.ts";
import { NotificationPreferenceEntity } from "../store/entities.ts";
import { isTimeZone, type QuietHours } from "./quiet-hours.ts";

/** A person's choice of messages. */
export interface Preferences {
  readonly about: "all" | "mine";
  /** Names of the person's approver groups, for `mine`. */
  readonly groups: readonly string[];
  readonly quiet: QuietHours | null;
}

const DEFAULT_PREFERENCES: Preferences = { about: "all", groups: [], quiet: null };

/** Reads the preferences of a key or person; those of a holder who set none are told of everything. */
export async function readPreferences(
  { orm }: Pick<Database, "orm">,
  workspaceId: string,
  holder: string,
): Promise<Preferences> {
  const row = await stored(orm.em.fork().findOne(NotificationPreferenceEntity, { workspaceId, holder }));
  if (row === null) return DEFAULT_PREFERENCES;
  const { about, groups, quietFrom: from = null, quietTo: to = null, quietZone: timeZone = null } = row;
  const quiet = from === null || to === null || timeZone === null ? null : { from, to, timeZone };
  return { about: about === "mine" ? "mine" : "all", groups, quiet };
}

/** Stores the preferences of a key or person. Throws INVALID_FIELD for an unknown time zone, and for a text that cannot be stored. */
export async function writePreferences(
  { orm }: Pick<Database, "orm">,
  workspaceId: string,
  holder: string,
  { about, groups, quiet }: Preferences,
): Promise<void> {
  if (quiet !== null && !isTimeZone(quiet.timeZone)) {
    throw invalidField("preferences.quiet_hours.time_zone", "must be an IANA time zone, such as `Europe/Berlin`");
  }
  const named = groups.map((group, index) => checkedText(`preferences.groups[${index}]`, group));
  await stored(
    orm.em.fork().upsert(NotificationPreferenceEntity, {
      workspaceId,
      holder,
      about,
      groups: named,
      quietFrom: quiet?.from ?? null,
      quietTo: quiet?.to ?? null,
      quietZone: quiet?.timeZone ?? null,
    }),
  );
}

/** Tells whether a person wants to hear of an escalation. One that any operator may answer concerns everyone. */
export function concerns({ about, groups }: Preferences, { receipt: { body } }: Escalation): boolean {
  if (about === "all") return true;
  const named = (body.approvals_needed ?? []).flatMap((demand) => demand.groups);
  return named.length === 0 || named.some((group) => groups.includes(group));
}
