import { useQuery } from "@connectrpc/connect-query";
import { useDeferredValue, useMemo, useState } from "react";
import { useLocation } from "wouter";
import {
  type GetListResponse,
  type List,
  ListService,
  type RemoveListValuesResponse,
} from "../../../../gen/agentcontrol/v1/list_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { ChangeDialog, Confirm } from "../../kit/change-dialog.tsx";
import { countText } from "../../kit/count-text.ts";
import { DialogButton } from "../../kit/dialog.tsx";
import { Field } from "../../kit/field.tsx";
import { AreaField } from "../../kit/form.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { NamedBy } from "../../kit/named-by.tsx";
import { toldProposal } from "../../kit/proposed.ts";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import { useChange } from "../../kit/use-change.ts";
import { useMayChange } from "../../session.ts";
import { kindWord } from "./kinds.ts";

const { addListValues, deleteList, getList, listLists, removeListValues } = ListService.method;
const PAGE_SIZE = 200;
const ROW_HEIGHT = 44;
const LISTS: ScreenPlace = { title: "Lists", href: "/lists" };
const REFRESHES = [getList, listLists];
const valuesOf = ({ values }: GetListResponse): readonly string[] => values;

/** One list: the mandates that name it, and its values. */
export function ListView({ name }: { readonly name: string }) {
  const query = useQuery(getList, { name, pageSize: 1 });
  const list = query.data?.list;
  const mayChange = useMayChange();
  return (
    <ScreenFrame
      name="list"
      title={shownText(name)}
      within={LISTS}
      actions={mayChange && list !== undefined ? <Actions list={list} /> : undefined}
    >
      {query.isPending ? <Loading what="the list" /> : null}
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {list === undefined ? null : (
        <>
          <section className="card stack" aria-label="The list">
            <p className="hint">
              {countText(list.size, "value")} of kind {kindWord(list.kind)}, changed <Time at={list.updatedAt} />,
              SHA-256 <code title={list.digest}>{list.digest.slice(0, 12)}…</code>
            </p>
            <NamedBy {...list} />
          </section>
          <Values name={name} mayChange={mayChange} />
        </>
      )}
    </ScreenFrame>
  );
}

function Actions({ list: { name, uses } }: { readonly list: List }) {
  const [, go] = useLocation();
  return (
    <>
      <DialogButton action="add-values" tone="primary" label="Add values">
        {(close) => (
          <ChangeDialog
            title="Add values"
            action="submit-values"
            submit="Add"
            change={(call, values) => call(addListValues, { name, values: values.lines("values") })}
            refreshes={REFRESHES}
            done={(answer) => toldProposal(answer) ?? `Added ${answer.added.toLocaleString("en")} values.`}
            onClose={close}
          >
            <AreaField name="values" label="Values" hint="One a line; paste a column of a table." />
          </ChangeDialog>
        )}
      </DialogButton>
      <DialogButton action="delete-list" tone="danger" label="Delete">
        {(close) => (
          <Confirm
            title="Delete the list"
            submit="Delete"
            isDisabled={uses > 0}
            change={(call) => call(deleteList, { name })}
            refreshes={[listLists]}
            done={toldProposal}
            onDone={({ proposal }) => {
              if (proposal === undefined) go("/lists");
            }}
            onClose={close}
          >
            <p>
              {uses > 0
                ? "Mandates in force name it. Archive or change them first."
                : "Its values are gone from the next decision on; the log keeps their digest."}
            </p>
          </Confirm>
        )}
      </DialogButton>
    </>
  );
}

const VALUE: Column<string> = { title: "Value", cell: (text) => <Shown text={text} /> };

const removeColumn = (isPending: boolean, remove: (value: string) => void): Column<string> => ({
  title: "",
  cell: (text) => (
    <Button
      action="remove-value"
      disabled={isPending}
      aria-label={`Remove ${shownText(text, 60)}`}
      onClick={() => remove(text)}
    >
      Remove
    </Button>
  ),
});

function Values({ name, mayChange }: { readonly name: string; readonly mayChange: boolean }) {
  const [search, setSearch] = useState("");
  const wanted = useDeferredValue(search);
  const { mutate, isPending } = useChange<RemoveListValuesResponse, string>(
    (call, value) => call(removeListValues, { name, values: [value] }),
    { refreshes: REFRESHES, done: toldProposal },
  );
  const columns = useMemo(
    () => (mayChange ? [VALUE, removeColumn(isPending, mutate)] : [VALUE]),
    [mayChange, isPending, mutate],
  );
  return (
    <section className="stack" aria-label="Values">
      <search className="filters">
        <Field label="Search the values">
          {(control) => (
            <input
              {...control}
              name="search"
              type="search"
              value={search}
              onChange={({ target }) => setSearch(target.value)}
              autoComplete="off"
              spellCheck={false}
            />
          )}
        </Field>
      </search>
      <PagedList
        pages={usePages(getList, { name, search: wanted, pageSize: PAGE_SIZE }, valuesOf)}
        loading="the values"
        empty={<Empty title={wanted === "" ? "The list has no values" : "No value contains this text"} />}
        idOf={(text) => text}
        rowHeight={ROW_HEIGHT}
        label="Values"
        columns={columns}
        className={mayChange ? "list-values may-change" : "list-values"}
        rowClassName="list-value"
      />
    </section>
  );
}
