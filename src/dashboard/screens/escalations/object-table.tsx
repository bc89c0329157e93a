import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { useMemo, useState } from "react";
import { Folded } from "../../kit/folded.tsx";
import { JsonView } from "../../kit/json-view.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { currenciesIn } from "./fired-argument.ts";
import { ValueView } from "./value-view.tsx";

const FIRST_ROWS = 50;
const MORE_ROWS = 200;
const MAX_COLUMNS = 8;

/** Properties of a table of objects. */
export interface ObjectTableProps {
  /** Name of the list, for screen readers. */
  readonly name: string;
  readonly objects: readonly JsonObject[];
  /** Names of members that fired, whose columns come first. */
  readonly fired: readonly string[];
}

/** Shows a list of objects as a table: a row for each, a column for each member. Objects with other members stay within reach. */
export function ObjectTable({ name, objects, fired }: ObjectTableProps) {
  const [limit, setLimit] = useState(FIRST_ROWS);
  const [isTree, setIsTree] = useState(false);
  const names = useMemo(() => {
    const all = new Set(objects.flatMap((object) => Object.keys(object)));
    return [...new Set([...fired.filter((each) => all.has(each)), ...all])];
  }, [objects, fired]);
  const columns = names.slice(0, MAX_COLUMNS);
  const hidden = names.length - columns.length;
  if (isTree || columns.length === 0) return <JsonView value={[...objects]} />;
  const numbers = new Set(
    columns.filter((column) => objects.every((object) => ["number", "undefined"].includes(typeof object[column]))),
  );
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table scrolls sideways by key too. */}
      <section className="table-scroll objects" tabIndex={0} aria-label={shownText(name)}>
        <table>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column} scope="col" className={numbers.has(column) ? "number" : undefined}>
                  <Shown text={column} />
                  {fired.includes(column) ? <span className="fired-mark">fired</span> : null}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {objects.slice(0, limit).map((object, index) => (
              <tr key={index}>
                <Cells object={object} columns={columns} numbers={numbers} />
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {objects.length > limit ? (
        <button type="button" className="link" data-action="more-rows" onClick={() => setLimit(limit + MORE_ROWS)}>
          {(objects.length - limit).toLocaleString("en")} more rows
        </button>
      ) : null}
      {hidden > 0 ? (
        <button type="button" className="link" data-action="as-tree" onClick={() => setIsTree(true)}>
          {hidden} more columns: show everything as a list
        </button>
      ) : null}
    </>
  );
}

interface CellsProps {
  readonly object: JsonObject;
  readonly columns: readonly string[];
  /** Columns that hold numbers alone. */
  readonly numbers: ReadonlySet<string>;
}

function Cells({ object, columns, numbers }: CellsProps) {
  const currencyOf = currenciesIn(object);
  return columns.map((column) => (
    <td key={column} className={numbers.has(column) ? "number" : undefined}>
      <Cell value={Object.hasOwn(object, column) ? object[column] : undefined} currency={currencyOf(column)} />
    </td>
  ));
}

function Cell({ value, currency }: { readonly value: JsonValue | undefined; readonly currency: string | undefined }) {
  if (value === undefined) return null;
  if (typeof value !== "string") return <ValueView value={value} currency={currency} />;
  return (
    <Folded>
      <Shown text={value} />
    </Folded>
  );
}
