import { memo, type ReactNode } from "react";
import { VirtualList, type VirtualListProps } from "./virtual-list.tsx";

/** A column of a long table. */
export interface Column<T> {
  /** Heading on wide pages, label of the value on narrow ones. Empty hides both, as for buttons. */
  readonly title: string;
  readonly cell: (item: T) => ReactNode;
  /** Aligns the column to the right, for numbers. */
  readonly isNumber?: boolean | undefined;
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
export function ColumnList<T>({ columns, className, rowClassName, ...list }: ColumnListProps<T>) {
  const head = (
    <div {...HEAD_ROW} className="columns-head">
      {columns.map(({ title, isNumber = false }) => (
        <span key={title} {...HEADING} className={isNumber ? "is-number" : undefined}>
          {title === "" ? <span className="visually-hidden">Actions</span> : title}
        </span>
      ))}
    </div>
  );
  const table = { role: "table", "aria-label": list.label, "aria-rowcount": list.items.length + 1 };
  return (
    <div {...table} className={`columns ${className}`}>
      <VirtualList {...list} head={head}>
        {(item) => <Row item={item} columns={columns} className={rowClassName} />}
      </VirtualList>
    </div>
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
