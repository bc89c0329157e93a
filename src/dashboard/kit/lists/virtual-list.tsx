import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, type ReactNode, useCallback, useEffect, useLayoutEffect, useMemo, useRef } from "react";
import { useListPlace } from "./use-list-place.ts";
import { usePressHold } from "./use-press-hold.ts";

/** Properties of a long list. */
export interface VirtualListProps<T> {
  readonly items: readonly T[];
  /** Text that differs where the list is another one, as with other filters: it is then shown from its beginning. */
  readonly contents?: string | undefined;
  readonly idOf: (item: T) => string;
  /** Attributes of a row. Default: its `data-id`. */
  readonly attributesOf?: ((item: T) => Readonly<Record<`data-${string}`, string>>) | undefined;
  readonly children: (item: T) => ReactNode;
  /** Height of a row before it is measured, pixels. */
  readonly rowHeight: number;
  /** True if the style sheet gives every row exactly `rowHeight`; rows are then not measured. */
  readonly isEven?: boolean | undefined;
  readonly label: string;
  /** Called when the end comes near; undefined after the last page. */
  readonly onEnd?: (() => void) | undefined;
  /** Called when the list is scrolled away from its beginning, and back to it. */
  readonly onAway?: ((isAway: boolean) => void) | undefined;
  /** Row of headings. It gives the rows the roles of a table's rows; the element around them MUST then be a `table`. */
  readonly head?: ReactNode;
}

const OVERSCAN = 8;
/** Height of the borders above and below the rows, pixels. */
const BORDERS = 2;

/** A list of any length that renders only the rows in view. Each row has its `data-id`. It changes under no press. */
export function VirtualList<T>(props: VirtualListProps<T>) {
  const { idOf, attributesOf, children, rowHeight, isEven = false, label, onEnd, onAway, head } = props;
  const given = useMemo(() => ({ items: props.items, contents: props.contents }), [props.items, props.contents]);
  const { value, hold } = usePressHold(given);
  const { items, contents } = value;
  const isTable = head !== undefined;
  const scroller = useRef<HTMLDivElement>(null);
  // A new function at each render would make the virtualizer place every row anew at every scroll.
  const keyOf = useCallback((index: number) => idOf(items[index] as T), [items, idOf]);
  const virtualizer = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    // Rows of one height keep their places whatever comes before them, so their ids are not needed.
    ...(isEven ? {} : { getItemKey: keyOf }),
    overscan: OVERSCAN,
  });
  useListPlace({
    name: label,
    items,
    idOf,
    scroller,
    scrollTo: (index) => virtualizer.scrollToIndex(index, { align: "start" }),
    readMore: onEnd,
  });
  const shownContents = useRef(contents);
  useLayoutEffect(() => {
    if (shownContents.current === contents) return;
    shownContents.current = contents;
    scroller.current?.scrollTo({ top: 0 });
  }, [contents]);
  const rows = virtualizer.getVirtualItems();
  const lastShown = rows.at(-1)?.index ?? -1;
  useEffect(() => {
    if (lastShown >= items.length - OVERSCAN) onEnd?.();
  }, [lastShown, items.length, onEnd]);
  useEffect(() => () => onAway?.(false), [onAway]);
  return (
    <section
      ref={scroller}
      className="virtual"
      // A part that scrolls must be reachable by keyboard.
      tabIndex={0}
      aria-label={label}
      role={isTable ? "rowgroup" : undefined}
      onPointerDown={({ target }) => {
        // A press on a heading sorts the list.
        if ((target as Element).closest("[data-id]") !== null) hold();
      }}
      onScroll={({ currentTarget }) => onAway?.(currentTarget.scrollTop > rowHeight / 2)}
      style={{ "--rows-height": `${virtualizer.getTotalSize() + BORDERS}px` } as CSSProperties}
    >
      {head}
      <ul
        className="virtual-space"
        role={isTable ? "presentation" : undefined}
        style={{ height: virtualizer.getTotalSize() }}
      >
        {rows.map(({ index, start }) => {
          const item = items[index] as T;
          return (
            <li
              key={idOf(item)}
              ref={isEven ? undefined : virtualizer.measureElement}
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
