import {
  AdminService,
  type InvitePersonResponse,
  type Person,
} from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { CopyButton } from "../../kit/copy.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Time } from "../../kit/time.tsx";
import { nameOf, roleOf } from "./person-words.ts";

const { invitePerson, listPeople, getPerson } = AdminService.method;

interface InviteProps {
  readonly person: Person;
  readonly onClose: () => void;
}

/** Makes the link of an invite, and shows it once. */
export function InvitePerson({ person, onClose }: InviteProps) {
  const { personId, invitedUntil } = person;
  return (
    <ChangeDialog
      title="Invite the person?"
      submit="Make the link"
      change={(call) => call(invitePerson, { personId })}
      refreshes={[listPeople, getPerson]}
      after={(invite) => <InviteLink person={person} invite={invite} onClose={onClose} />}
      onClose={onClose}
    >
      <p>
        The link shows <Shown text={nameOf(person)} /> a new key of theirs, with the role {roleOf(person)}. It opens
        once, within 72 hours and without a sign-in.
      </p>
      {invitedUntil === undefined ? null : <p>An earlier link is still open. It ends now.</p>}
    </ChangeDialog>
  );
}

function InviteLink({ person, invite, onClose }: InviteProps & { readonly invite: InvitePersonResponse }) {
  // Without ACP_PUBLIC_URL the service knows the path alone.
  const { href } = new URL(invite.url, window.location.origin);
  return (
    <Dialog title="The invite" isOpen onClose={onClose} closesBy="button">
      <p>
        Send this link to <Shown text={nameOf(person)} /> alone, on a way that others do not read. Whoever opens it
        first gets the key. It is shown only here and ends <Time at={invite.expiresAt} />.
      </p>
      <div className="secret">
        <code data-secret>{href}</code>
        <CopyButton text={href} what="the link" />
      </div>
      <div className="dialog-actions">
        <Button action="stored" tone="primary" onClick={onClose}>
          I have copied it
        </Button>
      </div>
    </Dialog>
  );
}
