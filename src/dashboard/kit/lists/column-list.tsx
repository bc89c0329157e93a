import {
  createColumnHelper,
  createSortedRowModel,
  rowSortingFeature,
  sortFn_basic,
  type Column as TableColumn,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { memo, type ReactNode, useMemo } from "react";
import { VirtualList, type VirtualListProps } from "./virtual-list.tsx";

/** A column of a long table. */
export interface Column<T> {
  /** Heading on wide pages, label of the value on narrow ones. Empty hides both, as for buttons. */
  readonly title: string;
  readonly cell: (item: T) => ReactNode;
  /** Aligns the column to the right, for numbers. */
  readonly isNumber?: boolean | undefined;
  /** Value by which the heading sorts the list once all of it is on the page; undefined for a column that does not sort. */
  readonly sortBy?: (item: T) => string | number | bigint;
}

const FEATURES = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { basic: sortFn_basic },
});
type Features = typeof FEATURES;

/** An item as the table takes it, which takes only objects. */
interface Wrapped<T> {
  readonly item: T;
}

/** Returns a value that sorts without regard to case. */
const comparable = (value: string | number | bigint): string | number =>
  typeof value === "string" ? value.toLowerCase() : Number(value);

/** Returns the id of a column, which may not be empty. */
const columnIdOf = (title: string): string => `column ${title}`;

function tableColumnsOf<T>(columns: readonly Column<T>[]) {
  const helper = createColumnHelper<Features, Wrapped<T>>();
  return helper.columns(
    columns.map(({ title, sortBy, isNumber = false }) =>
      helper.accessor(({ item }: Wrapped<T>) => (sortBy === undefined ? 0 : comparable(sortBy(item))), {
        id: columnIdOf(title),
        header: title,
        enableSorting: sortBy !== undefined,
        sortFn: "basic",
        sortDescFirst: isNumber,
      }),
    ),
  );
}

/** Properties of a long table. */
export interface ColumnListProps<T> extends Omit<VirtualListProps<T>, "children" | "head"> {
  /** Columns. They MUST be the same array at every render, so that rows are not rendered again. */
  readonly columns: readonly Column<T>[];
  /** Class of the table. Its style sets `--columns`, the column widths on wide pages. */
  readonly className: string;
  /** Class of each row. */
  readonly rowClassName: string;
}

/* Roles in place of the elements of a table, whose rows a page cannot place one by one. */
const HEAD_ROW = { role: "row", "aria-rowindex": 1 };
const HEADING = { role: "columnheader" };
const CELL = { role: "cell" };

/**
 * A table of any length that renders only the rows in view: columns with headings on wide pages, a card for each row on
 * narrow ones.
 */
export function ColumnList<T>(props: ColumnListProps<T>) {
  const { columns, className, rowClassName, ...list } = props;
  const tableColumns = useMemo(() => tableColumnsOf(columns), [columns]);
  const { items, onEnd } = list;
  const data = useMemo(() => items.map((item) => ({ item })), [items]);
  // Half of a list in another order would hide what comes first in the whole.
  const isWhole = onEnd === undefined;
  const sorted = useTable({
    features: FEATURES,
    columns: tableColumns,
    data,
    enableSorting: isWhole,
    enableMultiSort: false,
  });
  const { rows } = sorted.getRowModel();
  const inOrder = useMemo(() => (isWhole ? rows.map(({ original }) => original.item) : items), [rows, items, isWhole]);
  const columnOf = (title: string): TableColumn<Features, Wrapped<T>> | undefined =>
    sorted.getColumn(columnIdOf(title));
  const head = (
    <div {...HEAD_ROW} className="columns-head">
      {columns.map(({ title, isNumber = false }) => (
        <Heading key={title} title={title} isNumber={isNumber} column={columnOf(title)} />
      ))}
    </div>
  );
  const table = { role: "table", "aria-label": list.label, "aria-rowcount": list.items.length + 1 };
  return (
    <div {...table} className={`columns ${className}`}>
      <VirtualList {...list} items={inOrder} head={head}>
        {(item) => <Row item={item} columns={columns} className={rowClassName} />}
      </VirtualList>
    </div>
  );
}

interface HeadingProps<T> {
  readonly title: string;
  readonly isNumber: boolean;
  readonly column: TableColumn<Features, Wrapped<T>> | undefined;
}

const ORDERS = { asc: "ascending", desc: "descending" } as const;

/** Heading of a column. Pressed, it sorts by the column, then the other way, then not. */
function Heading<T>({ title, isNumber, column }: HeadingProps<T>) {
  const className = isNumber ? "is-number" : undefined;
  if (column?.getCanSort() !== true) {
    return (
      <span {...HEADING} className={className}>
        {title === "" ? <span className="visually-hidden">Actions</span> : title}
      </span>
    );
  }
  const order = column.getIsSorted();
  const sorted = { ...HEADING, "aria-sort": order === false ? "none" : ORDERS[order] } as const;
  return (
    <span {...sorted} className={className}>
      <button type="button" className="columns-sort" data-action="sort" onClick={() => column.toggleSorting()}>
        {title}
      </button>
    </span>
  );
}

interface RowProps<T> {
  readonly item: T;
  readonly columns: readonly Column<T>[];
  readonly className: string;
}

function RowCells<T>({ item, columns, className }: RowProps<T>) {
  return (
    <div className={`columns-row ${className}`}>
      {columns.map(({ title, cell, isNumber = false }) => (
        <Cell key={title} title={title} isNumber={isNumber}>
          {cell(item)}
        </Cell>
      ))}
    </div>
  );
}

/** One row. It renders again only when its item or the columns change, not while the list scrolls. */
const Row = memo(RowCells) as typeof RowCells;

interface CellProps {
  readonly title: string;
  readonly isNumber: boolean;
  readonly children: ReactNode;
}

function Cell({ title, isNumber, children }: CellProps) {
  const isEmpty = children === null || children === "";
  return (
    <div
      {...CELL}
      data-title={title}
      className={`columns-cell${isNumber ? " is-number" : ""}${isEmpty ? " is-empty" : ""}`}
    >
      <div className="columns-value">{children}</div>
    </div>
  );
}
