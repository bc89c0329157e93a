import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { Link } from "wouter";
import {
  AdminService,
  type ListPeopleResponse,
  type Person,
} from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { AdminsOnly } from "../../kit/admins-only.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import type { ScreenProps } from "../../screens.tsx";
import { useSession } from "../../session.ts";
import "../../styles/people.css";
import { SETTINGS } from "../settings/place.ts";
import { AddPerson } from "./add-person.tsx";
import { PersonState } from "./person-state.tsx";
import { PersonView } from "./person-view.tsx";
import { nameOf, roleOf } from "./person-words.ts";

const { listPeople } = AdminService.method;
const REQUEST = { pageSize: 200 };
const ROW_HEIGHT = 61;

const peopleOf = ({ people }: ListPeopleResponse): readonly Person[] => people;
const idOf = ({ personId }: Person): string => personId;

const msOf = (at: Timestamp | undefined): number => (at === undefined ? 0 : timestampMs(at));

/** Returns the time of the person's last sign-in or use of a key; undefined if there was none. */
const seenAt = ({ signedInAt, keyUsedAt }: Person): Timestamp | undefined =>
  msOf(signedInAt) > msOf(keyUsedAt) ? signedInAt : keyUsedAt;

const COLUMNS: readonly Column<Person>[] = [
  {
    title: "Name",
    sortBy: nameOf,
    cell: (person) => (
      <div className="person-name">
        <Link href={`/people/${person.personId}`} className="person-link">
          <Shown text={nameOf(person)} />
        </Link>
        <span className="hint person-more">
          {person.email === undefined || person.email === person.name ? null : (
            <>
              <Shown text={person.email} />{" "}
            </>
          )}
          {person.issuer === undefined ? "keys alone" : "signs in"}
        </span>
      </div>
    ),
  },
  { title: "Role", sortBy: roleOf, cell: roleOf },
  { title: "State", cell: (person) => <PersonState person={person} /> },
  { title: "Keys", isNumber: true, sortBy: ({ openKeys }) => openKeys, cell: ({ openKeys }) => openKeys },
  {
    title: "Last seen",
    sortBy: (person) => msOf(seenAt(person)),
    cell: (person) => (
      <span className="hint">{seenAt(person) === undefined ? "never" : <Time at={seenAt(person)} />}</span>
    ),
  },
];

/** People of the workspace, or one of them. */
export function People({ id }: ScreenProps) {
  return id === undefined ? <AllPeople /> : <PersonView personId={id} />;
}

function AllPeople() {
  return (
    <ScreenFrame name="people" title="People" within={SETTINGS} actions={<Actions />}>
      <AdminsOnly>
        <PagedList
          pages={usePages(listPeople, REQUEST, peopleOf)}
          loading="the people"
          empty={
            <Empty title="There is nobody yet">
              People are listed here once they sign in, or an admin adds them. Add a person to give them keys of their
              own.
            </Empty>
          }
          idOf={idOf}
          rowHeight={ROW_HEIGHT}
          label="People"
          columns={COLUMNS}
          className="people"
          rowClassName="people-row"
        />
      </AdminsOnly>
    </ScreenFrame>
  );
}

function Actions() {
  if (useSession().session.role !== "admin") return null;
  return (
    <DialogButton action="add-person" tone="primary" label="Add a person">
      {(close) => <AddPerson onClose={close} />}
    </DialogButton>
  );
}
