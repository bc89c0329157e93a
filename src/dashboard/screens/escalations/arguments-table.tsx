import type { JsonObject } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { useMemo, useState } from "react";
import type { ToolArgument } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { ToolService } from "../../../../gen/agentcontrol/v1/tool_service_pb.js";
import { Folded } from "../../kit/folded.tsx";
import { Shown } from "../../kit/shown.tsx";
import { type ArgumentRow, argumentRows, comparedPath, isWithin, objectsIn } from "./argument-rows.ts";
import { currencyAt } from "./fired-argument.ts";
import { ObjectTable } from "./object-table.tsx";
import { PastLine } from "./past-line.tsx";
import { ValueView } from "./value-view.tsx";

const FIRST_ROWS = 40;
const MORE_ROWS = 200;

/** Arguments in a tool's schema, by their paths. */
export interface KnownArguments {
  readonly byPath: ReadonlyMap<string, ToolArgument>;
  /** True if the tool is not registered. */
  readonly isUnknown: boolean;
}

/** Reads the arguments of a tool's schema. */
export function useToolArguments(tool: string | undefined): KnownArguments {
  const query = useQuery(
    ToolService.method.getTool,
    { name: tool ?? "" },
    { enabled: tool !== undefined, staleTime: 60_000 },
  );
  const args = query.data?.tool?.arguments;
  const byPath = useMemo(() => new Map((args ?? []).map((each) => [each.path, each])), [args]);
  return { byPath, isUnknown: query.error !== null && ConnectError.from(query.error).code === Code.NotFound };
}

/** Properties of a table of arguments. */
export interface ArgumentsTableProps {
  readonly args: JsonObject | undefined;
  readonly tool: string | undefined;
  /** Paths of the arguments that fired, which come first. */
  readonly fired: readonly string[];
}

/* Roles in place of the elements of a table, whose rows a narrow page shows as labels above values. */
const TABLE = { role: "table", "aria-label": "Arguments" };
const ROW = { role: "row" };
const HEADER = { role: "rowheader" };
const CELL = { role: "cell" };

/**
 * Exact arguments that will run: those that fired first, then in the order of the schema. Arguments that the schema does not know
 * come last, marked.
 */
export function ArgumentsTable({ args, tool, fired }: ArgumentsTableProps) {
  const known = useToolArguments(tool);
  const [limit, setLimit] = useState(FIRST_ROWS);
  const rows = useMemo(() => orderedRows(args ?? {}, known.byPath, fired), [args, known.byPath, fired]);
  if (rows.length === 0) return <p className="hint">It has no arguments.</p>;
  return (
    <>
      <div className="arguments" {...TABLE}>
        {rows.slice(0, limit).map(({ isFired, ...row }) => (
          <Row
            key={row.path}
            {...row}
            isFired={isFired}
            fired={fired}
            currency={typeof row.value === "number" ? currencyAt(args ?? {}, row.path) : undefined}
            schema={known.byPath.get(row.path)}
            isOfTool={tool !== undefined}
            isKnownTool={known.byPath.size > 0}
            hasBelow={hasBelow(known, row.path)}
          />
        ))}
      </div>
      {rows.length > limit ? (
        <button type="button" className="link" onClick={() => setLimit(limit + MORE_ROWS)}>
          {rows.length - limit} more arguments that will run
        </button>
      ) : null}
    </>
  );
}

type OrderedRow = ArgumentRow & { readonly isFired: boolean };

function orderedRows(
  args: JsonObject,
  known: KnownArguments["byPath"],
  fired: readonly string[],
): readonly OrderedRow[] {
  const places = new Map([...known.keys()].map((path, place) => [path, place]));
  const placeOf = ({ path, isFired }: OrderedRow): number => (isFired ? -1 : (places.get(path) ?? places.size));
  return argumentRows(args)
    .map((row) => ({ ...row, isFired: fired.some((path) => isWithin(path, row.path)) }))
    .sort((a, b) => placeOf(a) - placeOf(b));
}

const hasBelow = ({ byPath }: KnownArguments, name: string): boolean =>
  [...byPath.keys()].some((path) => path.startsWith(`${name}.`) || path.startsWith(`${name}[]`));

interface RowProps extends OrderedRow, Pick<ArgumentsTableProps, "fired"> {
  /** Currency of an amount. */
  readonly currency: string | undefined;
  readonly schema: ToolArgument | undefined;
  /** True if the action calls a tool. */
  readonly isOfTool: boolean;
  /** True if the tool's schema is known. */
  readonly isKnownTool: boolean;
  /** True if the schema knows arguments below this one. */
  readonly hasBelow: boolean;
}

function Row(props: RowProps) {
  const { path, name, value, currency, isFired, fired, schema, isOfTool, isKnownTool, hasBelow: isGroup } = props;
  const objects = objectsIn(value);
  const compared = comparedPath({ path, value });
  const columns = useMemo(() => fired.flatMap((each) => columnIn(path, each) ?? []), [path, fired]);
  const classes = ["argument", isFired && "is-fired", objects !== undefined && "is-wide"].filter(Boolean);
  return (
    <div {...ROW} className={classes.join(" ")} data-argument={path}>
      <div {...HEADER} className="argument-name">
        <Shown text={name} />
        {isFired ? <span className="fired-mark">fired</span> : null}
        {isOfTool ? <ArgumentNote schema={schema} isKnownTool={isKnownTool} hasBelow={isGroup} value={value} /> : null}
      </div>
      <div {...CELL} className="argument-value">
        {objects === undefined ? (
          <Value value={value} currency={currency} />
        ) : (
          <ObjectTable name={name} objects={objects} fired={columns} />
        )}
        {compared === undefined ? null : <PastLine path={compared} isChoice={(schema?.enum.length ?? 0) > 0} />}
        {objects === undefined ? null : <PastOfObjects path={path} objects={objects} fired={columns} />}
      </div>
    </div>
  );
}

function Value({ value, currency }: Pick<RowProps, "value" | "currency">) {
  const view = <ValueView value={value} currency={currency} />;
  const isShort = typeof value !== "string" && (typeof value !== "object" || value === null);
  return isShort ? view : <Folded>{view}</Folded>;
}

/** Name of a member that needs no quotes in a path. */
const COLUMN = /^\w+$/;

/** Returns the name of the column of a list that a path reaches; undefined for other paths. */
function columnIn(list: string, path: string): string | undefined {
  const prefix = `${list}[].`;
  const name = path.startsWith(prefix) ? path.slice(prefix.length) : "";
  return COLUMN.test(name) ? name : undefined;
}

/** Maximum number of columns whose past is told below a table. */
const MAX_PASTS = 3;

/** Past of the numbers in a list of objects, a line for each column of numbers. */
function PastOfObjects({
  path,
  objects,
  fired,
}: Pick<RowProps, "path" | "fired"> & { readonly objects: readonly JsonObject[] }) {
  const names = useMemo(() => {
    const found = new Set<string>();
    for (const object of objects.slice(0, FIRST_ROWS)) {
      for (const [name, value] of Object.entries(object)) if (typeof value === "number") found.add(name);
    }
    const names = [...fired.filter((name) => found.has(name)), ...found].filter((name) => COLUMN.test(name));
    return [...new Set(names)].slice(0, MAX_PASTS);
  }, [objects, fired]);
  return names.map((name) => (
    <span key={name} className="past-of-column">
      <code>
        <Shown text={name} />
      </code>{" "}
      <PastLine path={`${path}[].${name}`} isChoice />
    </span>
  ));
}

/** Describes an argument by the schema. Its line stays empty until the schema was read, so that no button moves. */
function ArgumentNote({
  schema,
  isKnownTool,
  hasBelow,
  value,
}: Pick<RowProps, "schema" | "isKnownTool" | "hasBelow" | "value">) {
  if (schema === undefined) {
    const isGroup = value !== null && typeof value === "object" && hasBelow;
    return <span className="argument-note is-bad">{isKnownTool && !isGroup ? "not in the tool's schema" : ""}</span>;
  }
  return (
    <span className="argument-note">
      {schema.types.join(" or ")}
      {schema.description === undefined ? null : (
        <>
          {" · "}
          <Shown text={schema.description} />
        </>
      )}
    </span>
  );
}
