import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import type { WorkspaceLogs } from "../log/workspace-logs.ts";
import { checkedText } from "../registry/checked-text.ts";
import { cursorOf, newestFirst, type Page, type PageRequest, pageFrom } from "../registry/page.ts";
import { type Database, stored } from "../store/database.ts";
import type { Encryptor } from "../store/encryptor.ts";
import { PersonalValueEntity, type PersonalValueRow } from "../store/entities.ts";
import { base32FromBytes, createUuidV7 } from "../store/ids.ts";
import { findPersonalValues, insertPersonalValues } from "../store/sql/redaction.ts";
import { PERSONAL_KINDS, type PersonalKind } from "../text/personal-kinds.ts";
import type { RedactionCaller } from "./leakage-webhooks.ts";
import { type Mark, type MarkKeys, valueMark, valuePlace } from "./mark-keys.ts";
import { raiseRevision } from "./settings.ts";

/** A registered personal value, without the value. */
export interface PersonalValue {
  /** `pv_…`. */
  readonly valueId: string;
  readonly kind: string;
  /** The value with at most its first and last character shown. */
  readonly masked: string;
  /** Epoch milliseconds. */
  readonly createdAtMs: number;
}

/** A value to register. */
export interface PersonalValueDraft {
  /** A kind; empty means `person_name`. */
  readonly kind: string;
  readonly value: string;
}

/** Result of registering values. */
export interface AddedValues {
  /** Values in the order of the drafts, without duplicates. */
  readonly values: readonly PersonalValue[];
  /** Number of new values among them. */
  readonly added: number;
}

/** Manages the registered personal values of every workspace. */
export interface PersonalValues {
  /** Registers all values or none; known values stay unchanged. Rejects with INVALID_FIELD. */
  add(caller: RedactionCaller, drafts: readonly PersonalValueDraft[]): Promise<AddedValues>;
  /** Lists values, newest first, of one kind or of all kinds. Rejects with INVALID_FIELD for an unknown kind. */
  list(
    caller: RedactionCaller,
    kind: string | undefined,
    page: PageRequest<string>,
  ): Promise<Page<PersonalValue, string>>;
  /** Deletes a value and returns it. Rejects with PERSONAL_VALUE_NOT_FOUND. */
  delete(caller: RedactionCaller, valueId: string): Promise<PersonalValue>;
}

/** Parts of the values. */
export interface PersonalValuesOptions {
  readonly database: Pick<Database, "orm">;
  readonly logs: Pick<WorkspaceLogs, "of">;
  readonly encryptor: Encryptor;
  readonly marks: MarkKeys;
}

/** Bounds of a value in UTF-16 units, after trimming. */
const MIN_LENGTH = 2;
const MAX_LENGTH = 256;
/** Minimum length from which a value's last character is shown. */
const LONG = 8;
const DOTS = "•••";

function masked(value: string): string {
  const characters = [...value];
  const [first = ""] = characters;
  if (characters.length < LONG) return characters.length < LONG / 2 ? DOTS : `${first}${DOTS}`;
  return `${first}${DOTS}${characters.at(-1)}`;
}

function kindFrom(field: string, kind: string): PersonalKind {
  if (kind === "") return "person_name";
  const known = PERSONAL_KINDS.find((each) => each === kind);
  if (known !== undefined) return known;
  throw invalidField(field, `must be one of ${PERSONAL_KINDS.map((each) => `\`${each}\``).join(", ")}`);
}

function valueFrom(field: string, text: string): string {
  const value = checkedText(field, text).trim();
  if (value.length >= MIN_LENGTH && value.length <= MAX_LENGTH) return value;
  throw invalidField(field, `must have ${MIN_LENGTH} to ${MAX_LENGTH} characters after trimming`);
}

function notFound(valueId: string): ControlPlaneError {
  const message = `no personal value \`${valueId}\``;
  return new ControlPlaneError(ErrorReason.PERSONAL_VALUE_NOT_FOUND, message, { value_id: valueId });
}

function countsOf(rows: readonly PersonalValueRow[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of rows) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

type Draft = Pick<PersonalValueRow, "workspaceId" | "valueId" | "kind" | "sealedValue" | "mark"> & {
  readonly masked: string;
};

const rowFrom = ({ masked: _, ...draft }: Draft, createdAtMs: number): PersonalValueRow => ({ ...draft, createdAtMs });

/** Digest of a value, as a key for maps. */
const keyOf = ({ mark }: Pick<PersonalValueRow, "mark">): string => Buffer.from(mark).toString("base64");

/** Creates the registered values. */
export function createPersonalValues({ database, logs, encryptor, marks }: PersonalValuesOptions): PersonalValues {
  const shownFrom = ({ workspaceId, valueId, kind, sealedValue, createdAtMs }: PersonalValueRow): PersonalValue => {
    const value = encryptor.decrypt(workspaceId, valuePlace(valueId), sealedValue);
    return { valueId, kind, masked: masked(value), createdAtMs };
  };

  /** Encrypts the values before the change, since the change blocks all others. */
  const draftsFrom = (workspaceId: string, markText: Mark, given: readonly PersonalValueDraft[]): Draft[] => {
    const drafts = new Map<string, Draft>();
    for (const [index, each] of given.entries()) {
      const kind = kindFrom(`values[${index}].kind`, each.kind);
      const value = valueFrom(`values[${index}].value`, each.value);
      const mark = valueMark(markText, kind, value);
      const valueId = `pv_${base32FromBytes(createUuidV7(Date.now()))}`;
      const sealedValue = encryptor.encrypt(workspaceId, valuePlace(valueId), value);
      const draft = { workspaceId, valueId, kind, sealedValue, mark, masked: masked(value) };
      if (!drafts.has(keyOf(draft))) drafts.set(keyOf(draft), draft);
    }
    return [...drafts.values()];
  };

  return {
    async add({ workspaceId, keyId }, given) {
      const drafts = draftsFrom(workspaceId, await marks.of(workspaceId), given);
      const log = await logs.of(workspaceId);
      return log.change(keyId, async ({ transaction, nowMs, seal }) => {
        const wanted = drafts.map(({ mark }) => mark);
        const byMark = new Map<string, PersonalValueRow>();
        for (const row of await findPersonalValues(transaction, workspaceId, wanted)) byMark.set(keyOf(row), row);
        const added = drafts.filter((draft) => !byMark.has(keyOf(draft))).map((draft) => rowFrom(draft, nowMs));
        for (const row of added) byMark.set(keyOf(row), row);
        if (added.length > 0) {
          await insertPersonalValues(transaction, workspaceId, nowMs, added);
          await raiseRevision(transaction, encryptor, workspaceId);
          seal({ type: "personal_values_added", kinds: countsOf(added) });
        }
        const values = drafts.map((draft) => {
          const { valueId, kind, createdAtMs } = byMark.get(keyOf(draft)) as PersonalValueRow;
          return { valueId, kind, masked: draft.masked, createdAtMs };
        });
        return { values, added: added.length };
      });
    },

    async list({ workspaceId }, kind, page) {
      const ofKind = kind === undefined ? {} : { kind: kindFrom("kind", kind) };
      const { where, options } = newestFirst("valueId", page);
      const found = database.orm.em.fork().find(PersonalValueEntity, { workspaceId, ...ofKind, ...where }, options);
      const rows: PersonalValueRow[] = await stored(found);
      return pageFrom(rows.map(shownFrom), page.size, (each) => cursorOf(each, each.valueId));
    },

    async delete({ workspaceId, keyId }, valueId) {
      const log = await logs.of(workspaceId);
      return log.change(keyId, async ({ transaction, seal }) => {
        const row = await transaction.findOne(PersonalValueEntity, { workspaceId, valueId });
        if (row === null) throw notFound(valueId);
        await transaction.nativeDelete(PersonalValueEntity, { workspaceId, valueId });
        await raiseRevision(transaction, encryptor, workspaceId);
        seal({ type: "personal_value_deleted", value_id: valueId, kind: row.kind });
        return shownFrom(row);
      });
    },
  };
}
