import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, type ReactNode, useCallback, useEffect, useRef } from "react";

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
}

const OVERSCAN = 8;
/** Above and below the rows, pixels. */
const BORDERS = 2;

/** A list of any length, of which only the rows in view are in the page. Each row has its `data-id`. */
export function VirtualList<T>(props: VirtualListProps<T>) {
  const { items, idOf, attributesOf, children, rowHeight, label, onEnd } = props;
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
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to take the keyboard
      tabIndex={0}
      aria-label={label}
      style={{ "--rows-height": `${virtualizer.getTotalSize() + BORDERS}px` } as CSSProperties}
    >
      <ul className="virtual-space" style={{ height: virtualizer.getTotalSize() }}>
        {rows.map(({ index, key, start }) => {
          const item = items[index] as T;
          return (
            <li
              key={key}
              ref={virtualizer.measureElement}
              data-index={index}
              {...(attributesOf === undefined ? { "data-id": idOf(item) } : attributesOf(item))}
              className="virtual-row"
              aria-setsize={items.length}
              aria-posinset={index + 1}
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
