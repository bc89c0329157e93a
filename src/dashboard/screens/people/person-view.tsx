import { useQuery } from "@connectrpc/connect-query";
import type { Role } from "../../../../gen/agentcontrol/v1/access_pb.js";
import { AdminService, type Person } from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { Actor } from "../../kit/actor.tsx";
import { AdminsOnly } from "../../kit/admins-only.tsx";
import { ChangeDialog, Confirm } from "../../kit/change-dialog.tsx";
import { CopyButton } from "../../kit/copy.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/form.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useSession } from "../../session.ts";
import { KeyList } from "../keys/key-list.tsx";
import "../../styles/keys.css";
import { InvitePerson } from "./invite-person.tsx";
import { PersonState } from "./person-state.tsx";
import { nameOf, PERSON_ROLES, roleOf } from "./person-words.ts";

const { getPerson, listPeople, updatePerson, deactivatePerson, reactivatePerson, listApiKeys } = AdminService.method;
const PEOPLE = { title: "People", href: "/people" };
const MAX_GROUPS_SHOWN = 50;

interface PersonProps {
  readonly person: Person;
}

interface DialogProps extends PersonProps {
  readonly onClose: () => void;
}

/** A person with their keys, and what an admin may change. */
export function PersonView({ personId }: { readonly personId: string }) {
  const isAdmin = useSession().session.role === "admin";
  const query = useQuery(getPerson, { personId }, { enabled: isAdmin });
  const person = query.data?.person;
  return (
    <ScreenFrame
      name="person"
      title={person === undefined ? "Person" : shownText(nameOf(person), 60)}
      within={PEOPLE}
      actions={person === undefined ? undefined : <Actions person={person} />}
    >
      <AdminsOnly>
        {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
        {query.isPending ? <Loading what="the person" /> : null}
        {person === undefined ? null : (
          <>
            <About person={person} />
            <section className="stack" aria-labelledby="person-keys">
              <h2 id="person-keys">Keys</h2>
              {person.leftAt === undefined ? null : (
                <p className="hint">
                  The issuer no longer vouches for the person: their keys are refused until they sign in again.
                </p>
              )}
              {person.openKeys === 0 ? <p className="hint">The person has no key that opens.</p> : null}
              <KeyList owner={person.actor} />
            </section>
          </>
        )}
      </AdminsOnly>
    </ScreenFrame>
  );
}

function Actions({ person }: PersonProps) {
  if (person.deactivatedAt !== undefined) {
    return (
      <DialogButton action="reactivate-person" label="Reactivate …">
        {(close) => <ReactivatePerson person={person} onClose={close} />}
      </DialogButton>
    );
  }
  return (
    <>
      <DialogButton action="edit-person" label="Edit …">
        {(close) => <EditPerson person={person} onClose={close} />}
      </DialogButton>
      <DialogButton action="deactivate-person" tone="danger" label="Deactivate …">
        {(close) => <DeactivatePerson person={person} onClose={close} />}
      </DialogButton>
      <DialogButton action="invite-person" tone="primary" label="Invite …">
        {(close) => <InvitePerson person={person} onClose={close} />}
      </DialogButton>
    </>
  );
}

function About({ person }: PersonProps) {
  const { personId, actor, email, groups, checkedAt, signedInAt, keyUsedAt, createdAt, createdBy, createdByName } =
    person;
  return (
    <dl className="facts card" data-id={personId}>
      <dt>State</dt>
      <dd>
        <PersonState person={person} />
      </dd>
      <dt>Role</dt>
      <dd>{roleOf(person)}</dd>
      {email === undefined ? null : (
        <>
          <dt>Email</dt>
          <dd>
            <Shown text={email} />
          </dd>
        </>
      )}
      <dt>In the log</dt>
      <dd className="person-actor">
        <code>
          <Shown text={actor} />
        </code>{" "}
        <CopyButton text={actor} what="the name in the log" isSmall />
      </dd>
      {checkedAt === undefined ? null : (
        <>
          <dt>Groups</dt>
          <dd>
            {groups.length === 0 ? "none" : groups.slice(0, MAX_GROUPS_SHOWN).join(", ")}
            {groups.length > MAX_GROUPS_SHOWN ? ` and ${groups.length - MAX_GROUPS_SHOWN} more` : ""}{" "}
            <span className="hint">
              as the issuer said <Time at={checkedAt} />
            </span>
          </dd>
        </>
      )}
      <dt>Signed in</dt>
      <dd>{signedInAt === undefined ? "never" : <Time at={signedInAt} />}</dd>
      <dt>Key used</dt>
      <dd>{keyUsedAt === undefined ? "never" : <Time at={keyUsedAt} />}</dd>
      <dt>Added</dt>
      <dd>
        <Time at={createdAt} />
        {createdBy === undefined ? (
          " by signing in"
        ) : (
          <>
            {" "}
            by <Actor id={createdBy} name={createdByName} />
          </>
        )}
      </dd>
    </dl>
  );
}

function EditPerson({ person, onClose }: DialogProps) {
  const { personId, name, role, roleFromGroups } = person;
  return (
    <ChangeDialog
      title="Edit the person"
      action="submit-person"
      submit="Save"
      change={(call, values) => {
        const chosen = values.number("role") as Role;
        const isKept = roleFromGroups && chosen === role;
        return call(updatePerson, { personId, name: values.text("name"), ...(isKept ? {} : { role: chosen }) });
      }}
      refreshes={[getPerson, listPeople, listApiKeys]}
      done="Saved."
      onClose={onClose}
    >
      <TextField name="name" label="Name" defaultValue={name} />
      <SelectField
        name="role"
        label="Role"
        defaultValue={role}
        options={PERSON_ROLES}
        hint={
          roleFromGroups
            ? "Groups give the role. Another one that you choose stands before them."
            : "It holds at once for sign-ins. Keys with more rights end."
        }
      />
    </ChangeDialog>
  );
}

function DeactivatePerson({ person, onClose }: DialogProps) {
  const { personId, actor, openKeys } = person;
  const isOwn = useSession().session.keyId === actor;
  return (
    <Confirm
      title="Deactivate the person?"
      submit="Deactivate"
      change={(call) => call(deactivatePerson, { personId })}
      refreshes={[getPerson, listPeople, listApiKeys]}
      done={`Deactivated ${shownText(nameOf(person), 60)}.`}
      onClose={onClose}
    >
      <p>
        <strong>
          <Shown text={nameOf(person)} />
        </strong>{" "}
        is signed out everywhere at once and cannot sign in.{" "}
        {openKeys === 0 ? "" : `Their ${openKeys} open keys are revoked. `}
        An open invite ends.
      </p>
      <p>Keys that they made for programs or others stay: look for them in the list of keys.</p>
      {isOwn ? <p className="fault-text">You are signed in as this person: this signs you out.</p> : null}
    </Confirm>
  );
}

function ReactivatePerson({ person, onClose }: DialogProps) {
  const { personId } = person;
  return (
    <ChangeDialog
      title="Reactivate the person?"
      submit="Reactivate"
      change={(call) => call(reactivatePerson, { personId })}
      refreshes={[getPerson, listPeople]}
      done={`Reactivated ${shownText(nameOf(person), 60)}.`}
      onClose={onClose}
    >
      <p>They can sign in and be invited again. Revoked keys stay revoked.</p>
    </ChangeDialog>
  );
}
