import { type ReactNode, useEffect, useState } from "react";
import { Fault, Loading } from "../states.tsx";
import { ColumnList, type ColumnListProps } from "./column-list.tsx";
import type { Pages } from "./use-pages.ts";
import { VirtualList, type VirtualListProps } from "./virtual-list.tsx";

/** Rows that stand for a list. */
const ROWS = 8;

/** States of a list that is read page by page. */
export interface PageStatesProps {
  readonly pages: Pages<unknown>;
  /** Name of the items, as in "Loading the agents …". */
  readonly loading: string;
  /** Height of a row before it is measured, pixels. */
  readonly rowHeight?: number;
  /** Shown when every page was read and the list is empty. */
  readonly empty?: ReactNode;
  /** Shown as soon as the first items are there. */
  readonly children: ReactNode;
}

/** Shows the state of a list: its fault with a button to try again, loading, empty, or its items. */
export function PageStates({ pages, loading, rowHeight, empty = null, children }: PageStatesProps) {
  const { items, isPending, error, readAgain } = pages;
  return (
    <>
      {error === null ? null : <Fault error={error} onRetry={readAgain} />}
      {isPending ? <Loading what={loading} lines={ROWS} rowHeight={rowHeight} /> : null}
      {!isPending && error === null && items.length === 0 ? empty : null}
      {items.length === 0 ? null : children}
    </>
  );
}

type Shared = "items" | "children" | "onEnd";

/** Rows of a list, rendered by `row` or in columns. */
type RowsProps<T> =
  | (Omit<VirtualListProps<T>, Shared> & { readonly row: (item: T) => ReactNode })
  | Omit<ColumnListProps<T>, Shared>;

/** Properties of a list that is read page by page. */
export type PagedListProps<T> = RowsProps<T> &
  Omit<PageStatesProps, "pages" | "children"> & {
    readonly pages: Pages<T>;
    /** Wraps the list, once it has items, in the content that belongs to it. */
    readonly children?: (list: ReactNode) => ReactNode;
  };

/** A list of any length that reads further pages as it is scrolled, with each of its states. */
export function PagedList<T>({ pages, loading, empty, children = (list) => list, ...rows }: PagedListProps<T>) {
  const { items, isPrevious, error } = pages;
  const contents = useContents(rows.contents, isPrevious);
  // After a fault, reading goes on only when the person tries again.
  const readMore = error === null ? pages.readMore : undefined;
  // A filter on the page may hide every item of a page that was read.
  const isReadingOn = items.length === 0 && readMore !== undefined;
  useEffect(() => {
    if (isReadingOn) readMore?.();
  }, [isReadingOn, readMore]);
  const list =
    "columns" in rows ? (
      <ColumnList {...rows} contents={contents} items={items} onEnd={readMore} />
    ) : (
      <VirtualList {...rows} contents={contents} items={items} onEnd={readMore}>
        {rows.row}
      </VirtualList>
    );
  return (
    <PageStates
      pages={{ ...pages, isPending: pages.isPending || isReadingOn }}
      loading={loading}
      rowHeight={rows.rowHeight}
      empty={empty}
    >
      {children(list)}
    </PageStates>
  );
}

/** Returns what the shown items are: as before while they are those of the request before. */
function useContents(contents: string | undefined, isPrevious: boolean): string | undefined {
  const [shown, setShown] = useState(contents);
  if (isPrevious || shown === contents) return shown;
  setShown(contents);
  return contents;
}
