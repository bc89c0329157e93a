import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Link } from "wouter";
import {
  type List,
  type ListKind,
  type ListListsResponse,
  ListService,
} from "../../../../gen/agentcontrol/v1/list_service_pb.js";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { AreaField, SelectField, TextField } from "../../kit/form.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { toldProposal } from "../../kit/proposed.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import type { ScreenProps } from "../../screens.tsx";
import { useMayChange } from "../../session.ts";
import "../../styles/lists.css";
import { kindWord, LIST_KINDS } from "./kinds.ts";
import { ListView } from "./list-view.tsx";

const { listLists, putList } = ListService.method;
const PAGE_SIZE = 200;
const ROW_HEIGHT = 48;
const COLUMNS: readonly Column<List>[] = [
  {
    title: "Name",
    sortBy: ({ name }) => name,
    cell: ({ name }) => (
      <Link href={`/lists/${encodeURIComponent(name)}`} className="list-name">
        <Shown text={name} />
      </Link>
    ),
  },
  { title: "Kind", cell: ({ kind }) => kindWord(kind), sortBy: ({ kind }) => kind },
  { title: "Values", cell: ({ size }) => size.toLocaleString("en"), isNumber: true, sortBy: ({ size }) => size },
  { title: "Mandates", cell: ({ uses }) => uses.toLocaleString("en"), isNumber: true, sortBy: ({ uses }) => uses },
  {
    title: "Changed",
    cell: ({ updatedAt }) => <Time at={updatedAt} />,
    sortBy: ({ updatedAt }) => (updatedAt === undefined ? 0 : timestampMs(updatedAt)),
  },
];
const listsOf = ({ lists }: ListListsResponse): readonly List[] => lists;

/** Named lists, by name. */
export function Lists({ id }: ScreenProps) {
  return id === undefined ? <AllLists /> : <ListView name={id} />;
}

function AllLists() {
  return (
    <ScreenFrame
      name="lists"
      title="Lists"
      actions={
        useMayChange() ? (
          <DialogButton action="create-list" tone="primary" label="Create a list">
            {(close) => <CreateList onClose={close} />}
          </DialogButton>
        ) : undefined
      }
    >
      <PagedList
        pages={usePages(listLists, { pageSize: PAGE_SIZE }, listsOf)}
        loading="the lists"
        empty={
          <Empty title="There is no list yet">
            Keep payees, hosts or domains that many rules share in a list, and compare with it by <code>in_list</code>.
          </Empty>
        }
        idOf={({ name }) => name}
        rowHeight={ROW_HEIGHT}
        label="Lists"
        columns={COLUMNS}
        className="named-lists"
        rowClassName="named-list"
      />
    </ScreenFrame>
  );
}

function CreateList({ onClose }: { readonly onClose: () => void }) {
  return (
    <ChangeDialog
      title="Create a list"
      action="submit-list"
      submit="Create"
      change={(call, values) =>
        call(putList, {
          name: values.text("name"),
          kind: values.number("kind") as ListKind,
          values: values.lines("values"),
          expectedDigest: "",
        })
      }
      refreshes={[listLists]}
      done={(answer) =>
        toldProposal(answer) ??
        `Created the list ${answer.list?.name} with ${answer.list?.size.toLocaleString("en")} values.`
      }
      onClose={onClose}
    >
      <TextField name="name" label="Name" hint="a to z, 0 to 9, dot, dash and underscore; rules name it." />
      <SelectField name="kind" label="Kind" options={LIST_KINDS} defaultValue={LIST_KINDS[0]?.value} />
      <AreaField name="values" label="Values" hint="One a line. Paste a column of a table, or begin with none." />
    </ChangeDialog>
  );
}
