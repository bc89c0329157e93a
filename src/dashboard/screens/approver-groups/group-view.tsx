import { useQuery } from "@connectrpc/connect-query";
import { useLocation } from "wouter";
import { type ApproverGroup, ApproverGroupService } from "../../../../gen/agentcontrol/v1/approver_group_service_pb.js";
import { Confirm } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { NamedBy } from "../../kit/named-by.tsx";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useSession } from "../../session.ts";
import { GroupDialog } from "./group-dialog.tsx";
import { PersonLine } from "./people-field.tsx";

const { deleteApproverGroup, getApproverGroup, listApproverGroups } = ApproverGroupService.method;
const GROUPS = { title: "Approver groups", href: "/approver-groups" };

interface GroupProps {
  readonly group: ApproverGroup;
}

/** One group: its members, its deputies, and the mandates that name it. */
export function GroupView({ name }: { readonly name: string }) {
  const query = useQuery(getApproverGroup, { name });
  const group = query.data?.approverGroup;
  const isAdmin = useSession().session.role === "admin";
  return (
    <ScreenFrame
      name="approver-group"
      title={shownText(name, 63)}
      within={GROUPS}
      actions={isAdmin && group !== undefined ? <Actions group={group} /> : undefined}
    >
      {query.isPending ? <Loading what="the group" /> : null}
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {group === undefined ? null : <About group={group} />}
    </ScreenFrame>
  );
}

function About({ group }: GroupProps) {
  const { name, description, members, oidcGroups, deputies, names, usedBy, uses, createdAt, updatedAt } = group;
  const nameOf = new Map(names.map((each) => [each.person, each.name]));
  return (
    <>
      <section className="card stack" aria-label="The group" data-id={name}>
        {description === "" ? null : (
          <p>
            <Shown text={description} />
          </p>
        )}
        <NamedBy usedBy={usedBy} uses={uses} />
        <p className="hint">
          Created <Time at={createdAt} />, changed <Time at={updatedAt} />.
        </p>
      </section>
      <section className="card stack" aria-labelledby="members-title" data-part="members">
        <h2 id="members-title">Members</h2>
        <People people={members} nameOf={nameOf} none="No person or owner of keys." />
        {oidcGroups.length === 0 ? null : (
          <ul className="approver-people" aria-label="Groups of identity providers">
            {oidcGroups.map(({ issuer, group: own }) => (
              <li key={`${issuer} ${own}`}>
                <span className="approver-person">
                  Everybody in{" "}
                  <strong>
                    <Shown text={own} />
                  </strong>{" "}
                  <span className="hint">
                    of <Shown text={issuer} />
                  </span>
                </span>
              </li>
            ))}
          </ul>
        )}
      </section>
      <section className="card stack" aria-labelledby="deputies-title" data-part="deputies">
        <h2 id="deputies-title">Deputies</h2>
        <p className="hint">They count as members for an escalation once people were reminded of it.</p>
        <People people={deputies} nameOf={nameOf} none="The group has no deputies." />
      </section>
    </>
  );
}

interface PeopleProps {
  readonly people: readonly string[];
  readonly nameOf: ReadonlyMap<string, string>;
  /** Sentence for nobody. */
  readonly none: string;
}

function People({ people, nameOf, none }: PeopleProps) {
  if (people.length === 0) return <p className="hint">{none}</p>;
  return (
    <ul className="approver-people">
      {people.map((person) => (
        <li key={person} data-person={person}>
          <PersonLine person={person} name={nameOf.get(person)} />
        </li>
      ))}
    </ul>
  );
}

function Actions({ group }: GroupProps) {
  const { name, uses } = group;
  const [, navigate] = useLocation();
  return (
    <>
      <DialogButton action="edit-group" tone="primary" label="Edit …">
        {(close) => <GroupDialog group={group} onClose={close} />}
      </DialogButton>
      <DialogButton action="delete-group" tone="danger" label="Delete …">
        {(close) => (
          <Confirm
            title="Delete the group?"
            submit="Delete"
            isDisabled={uses > 0}
            change={(call) => call(deleteApproverGroup, { name })}
            refreshes={[listApproverGroups]}
            done={`Deleted the group ${name}.`}
            onDone={() => navigate("/approver-groups")}
            onClose={close}
          >
            {uses > 0 ? (
              <>
                <p>Mandates in force ask for its approvals. Archive or change them first.</p>
                <NamedBy {...group} />
              </>
            ) : (
              <p>Nobody in it can approve in its name from now on. What they have approved stays in the log.</p>
            )}
          </Confirm>
        )}
      </DialogButton>
    </>
  );
}
