import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, memo, type ReactNode, useCallback, useEffect, useRef } from "react";

/** Properties of a long list. */
export interface VirtualListProps<T> {
  readonly items: readonly T[];
  readonly idOf: (item: T) => string;
  /** Attributes of a row. Default: its `data-id`. */
  readonly attributesOf?: ((item: T) => Readonly<Record<`data-${string}`, string>>) | undefined;
  readonly children: (item: T) => ReactNode;
  /** Height of a row before it is measured, pixels. */
  readonly rowHeight: number;
  readonly label: string;
  /** Asked for when the end comes near; undefined at the last page. */
  readonly onEnd?: (() => void) | undefined;
  /** Row of headings above the others. With it they have the roles of a table's rows, and the element around MUST be a `table`. */
  readonly head?: ReactNode;
}

/** A column of a long table. */
export interface Column<T> {
  /** Heading on wide pages, label of the value on narrow ones. Empty: neither is shown, as for buttons. */
  readonly title: string;
  readonly cell: (item: T) => ReactNode;
  /** Aligns numbers at their ends. */
  readonly isNumber?: boolean | undefined;
}

/** Properties of a long table. */
export interface ColumnListProps<T> extends Omit<VirtualListProps<T>, "children" | "head"> {
  /** The same array at every drawing, so that rows are not drawn again. */
  readonly columns: readonly Column<T>[];
  /** Class of the table, whose style sets `--columns`: the widths of the columns on wide pages. */
  readonly className: string;
  /** Class of each row. */
  readonly rowClassName: string;
}

const OVERSCAN = 8;
/** Above and below the rows, pixels. */
const BORDERS = 2;

/** A list of any length, of which only the rows in view are in the page. Each row has its `data-id`. */
export function VirtualList<T>(props: VirtualListProps<T>) {
  const { items, idOf, attributesOf, children, rowHeight, label, onEnd, head } = props;
  const isTable = head !== undefined;
  const scroller = useRef<HTMLDivElement>(null);
  // Another function would have every row placed anew at every scroll.
  const keyOf = useCallback((index: number) => idOf(items[index] as T), [items, idOf]);
  const virtualizer = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    getItemKey: keyOf,
    overscan: OVERSCAN,
  });
  const rows = virtualizer.getVirtualItems();
  const lastShown = rows.at(-1)?.index ?? -1;
  useEffect(() => {
    if (lastShown >= items.length - OVERSCAN) onEnd?.();
  }, [lastShown, items.length, onEnd]);
  return (
    <section
      ref={scroller}
      className="virtual"
      // A part that scrolls must be reachable by keyboard.
      tabIndex={0}
      aria-label={label}
      role={isTable ? "rowgroup" : undefined}
      style={{ "--rows-height": `${virtualizer.getTotalSize() + BORDERS}px` } as CSSProperties}
    >
      {head}
      <ul
        className="virtual-space"
        role={isTable ? "presentation" : undefined}
        style={{ height: virtualizer.getTotalSize() }}
      >
        {rows.map(({ index, key, start }) => {
          const item = items[index] as T;
          return (
            <li
              key={key}
              ref={virtualizer.measureElement}
              data-index={index}
              {...(attributesOf === undefined ? { "data-id": idOf(item) } : attributesOf(item))}
              className="virtual-row"
              {...(isTable
                ? { role: "row", "aria-rowindex": index + 2 }
                : { "aria-setsize": items.length, "aria-posinset": index + 1 })}
              style={{ transform: `translateY(${start}px)` }}
            >
              {children(item)}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/* Roles in place of the elements of a table, whose rows a page cannot place one by one. */
const HEAD_ROW = { role: "row", "aria-rowindex": 1 };
const HEADING = { role: "columnheader" };
const CELL = { role: "cell" };

/**
 * A table of any length, of which only the rows in view are in the page: columns with headings on wide pages, a card for each row
 * on narrow ones.
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

/** One row. It is drawn again only when its item or the columns change, not whenever the list is scrolled. */
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
