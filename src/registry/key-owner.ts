import { ControlPlaneError, ErrorReason, invalidField } from "../errors.ts";
import type { ChangeScope } from "../log/changes.ts";
import { PersonEntity } from "../store/entities.ts";
import { isPersonId, ownerFault, personFromName } from "./person-name.ts";

/** Creates PERSON_DEACTIVATED. */
export function personDeactivated(personId: string): ControlPlaneError {
  const message = `person \`${personId}\` is deactivated; reactivate them first`;
  return new ControlPlaneError(ErrorReason.PERSON_DEACTIVATED, message, { person_id: personId });
}

/** Returns the owner of a new key as it is stored. Throws INVALID_FIELD. */
export function checkedOwner(owner: string | undefined): string | undefined {
  const fault = owner === undefined ? undefined : ownerFault(owner);
  if (fault !== undefined) throw invalidField("owner", fault);
  return owner?.trim();
}

/**
 * Checks an owner against the people of the workspace, inside the change that makes the key. Rejects with INVALID_FIELD for the id of
 * a person whom the workspace does not have, or whose name in the log is that of their issuer, and with PERSON_DEACTIVATED.
 */
export async function assertOwner({ transaction, state }: ChangeScope, owner: string): Promise<void> {
  if (!isPersonId(owner) && personFromName(owner) === undefined) return;
  const person = await transaction.findOne(PersonEntity, { workspaceId: state.workspaceId, actor: owner });
  if (person === null && isPersonId(owner))
    throw invalidField(
      "owner",
      `\`${owner}\` names no person of the workspace, or one who is named by issuer and subject`,
    );
  if (person !== null && (person.deactivatedAtMs ?? null) !== null) throw personDeactivated(person.personId);
}
