import { type FormEvent, memo, useMemo, useState } from "react";
import { Link, useSearchParams } from "wouter";
import type { VaultEntry } from "../../../../gen/agentcontrol/v1/vault_service_pb.js";
import { hex } from "../../../verify/bytes.ts";
import { textAt } from "../../../verify/json.ts";
import { Actor } from "../../kit/actor.tsx";
import { Button } from "../../kit/button.tsx";
import { Field } from "../../kit/field.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { useNarrow } from "../../kit/lists/use-narrow.ts";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { isoText, useZone } from "../../kit/zone.ts";
import { useEntries } from "./use-entries.ts";

const ROW_HEIGHT = 44;
const NARROW_ROW_HEIGHT = 64;
const idOf = ({ index }: VaultEntry): string => String(index);

/** Reads an index from a parameter of the address; undefined for any other text. */
export function indexIn(parameters: URLSearchParams, name: string): number | undefined {
  const text = parameters.get(name) ?? "";
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** Entries of the log, newest first, from its end or from an index in the address. */
export function EntryList({ size }: { readonly size: number }) {
  const [parameters, setParameters] = useSearchParams();
  const start = indexIn(parameters, "from");
  // The list stays in place while the log grows.
  const [end, setEnd] = useState(size);
  const below = Math.min(size, start === undefined ? end : start + 1);
  const jump = (from: string): void =>
    setParameters(
      (before) => {
        const next = new URLSearchParams(before);
        if (from === "") next.delete("from");
        else next.set("from", from);
        return next;
      },
      { replace: true },
    );
  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const index = new FormData(event.currentTarget).get("from");
    jump(typeof index === "string" ? index.trim() : "");
  };
  const newer = start === undefined ? size - end : 0;
  return (
    <section className="stack" aria-labelledby="entries-title">
      <div className="row is-apart">
        <h2 id="entries-title">Entries</h2>
        <form className="filters entry-jump" onSubmit={submit}>
          <Field label="From entry">
            {(control) => (
              <input
                {...control}
                name="from"
                type="number"
                min={0}
                max={Math.max(0, size - 1)}
                defaultValue={start}
                key={start}
                placeholder={String(Math.max(0, size - 1))}
              />
            )}
          </Field>
          <Button type="submit" action="jump">
            Go
          </Button>
        </form>
      </div>
      {newer > 0 ? (
        <div>
          <Button action="show-newer" onClick={() => setEnd(size)}>
            Show {newer.toLocaleString("en")} newer {newer === 1 ? "entry" : "entries"}
          </Button>
        </div>
      ) : null}
      <Entries below={below} />
    </section>
  );
}

function Entries({ below }: { readonly below: number }) {
  const rowHeight = useNarrow() ? NARROW_ROW_HEIGHT : ROW_HEIGHT;
  return (
    <PagedList
      key={rowHeight}
      pages={useEntries(below)}
      loading="the entries"
      empty={<Empty title="The log has no entries">Everything that is decided or changed gets one.</Empty>}
      idOf={idOf}
      rowHeight={rowHeight}
      isEven
      label="Entries, newest first"
      row={(entry) => <EntryRow entry={entry} />}
    />
  );
}

/** Reads the columns of a row from the text of an entry. */
function headOf(body: string) {
  try {
    const value: unknown = JSON.parse(body);
    const by = textAt(value, "by") || textAt(value, "key_id");
    const what = textAt(value, "decision") || textAt(value, "type");
    return { type: textAt(value, "type"), what, at: textAt(value, "at"), by };
  } catch {
    return { type: "unreadable", what: "", at: "", by: "" };
  }
}

const EntryRow = memo(({ entry: { index, leafHash, body, authorName } }: { readonly entry: VaultEntry }) => {
  const { type, what, at, by } = useMemo(() => headOf(body), [body]);
  const leaf = hex(leafHash);
  const [zone] = useZone();
  const ms = Date.parse(at);
  const [parameters] = useSearchParams();
  const from = parameters.get("from");
  return (
    <Link
      href={`/evidence?entry=${index}${from === null ? "" : `&from=${encodeURIComponent(from)}`}`}
      className="line-row entry-row"
    >
      <span className="entry-index">{index.toLocaleString("en")}</span>
      <span className="entry-type cut">
        <Shown text={type.replaceAll("_", " ").slice(0, 60)} />
        {what === type ? null : (
          <span className="hint">
            {" "}
            <Shown text={what.slice(0, 40)} />
          </span>
        )}
      </span>
      <span className="entry-at hint">{Number.isNaN(ms) ? "" : isoText(ms, zone)}</span>
      <span className="entry-by cut hint">
        <Actor id={by.slice(0, 600)} name={authorName} />
      </span>
      <code className="entry-leaf" title={leaf}>
        {leaf.slice(0, 10)}…
      </code>
    </Link>
  );
});
