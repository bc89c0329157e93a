import { type CSSProperties, useEffect, useLayoutEffect, useRef, useState } from "react";
import type { VirtualListProps } from "./virtual-list.tsx";

/** Properties of a long list of rows of one height. */
export interface EvenListProps<T> extends VirtualListProps<T> {
  /** Told when the list leaves its beginning, and when it is back there. */
  readonly onAway?: ((isAway: boolean) => void) | undefined;
}

/** Rows above and below those in view. */
const OVERSCAN = 10;
/** Above and below the rows, pixels. */
const BORDERS = 2;
/** Pixels, until the list is measured. */
const FIRST_HEIGHT = 900;

/**
 * A list of rows that all are `rowHeight` pixels high, which the style sheet MUST make them. Unlike in a `VirtualList`, the cost of
 * a scroll and of a new row does not depend on the length.
 */
export function EvenList<T>({ items, idOf, children, rowHeight, label, onEnd, onAway }: EvenListProps<T>) {
  const scroller = useRef<HTMLElement>(null);
  const [height, setHeight] = useState(FIRST_HEIGHT);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const sizes = new ResizeObserver(() => setHeight(element.clientHeight));
    sizes.observe(element);
    return () => sizes.disconnect();
  }, []);
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const end = Math.min(items.length, Math.ceil((top + height) / rowHeight) + OVERSCAN);
  useEffect(() => {
    if (end >= items.length) onEnd?.();
  }, [end, items.length, onEnd]);
  useEffect(() => () => onAway?.(false), [onAway]);
  const total = items.length * rowHeight;
  const onScroll = (): void => {
    const scrolled = scroller.current?.scrollTop ?? 0;
    setTop(scrolled);
    onAway?.(scrolled > rowHeight / 2);
  };
  return (
    <section
      ref={scroller}
      className="virtual"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to take the keyboard
      tabIndex={0}
      aria-label={label}
      onScroll={onScroll}
      style={{ "--rows-height": `${total + BORDERS}px` } as CSSProperties}
    >
      <ul className="virtual-space" style={{ height: total }}>
        {items.slice(first, end).map((item, offset) => (
          <li
            key={idOf(item)}
            data-id={idOf(item)}
            className="virtual-row"
            aria-setsize={items.length}
            aria-posinset={first + offset + 1}
            style={{ transform: `translateY(${(first + offset) * rowHeight}px)` }}
          >
            {children(item)}
          </li>
        ))}
      </ul>
    </section>
  );
}
