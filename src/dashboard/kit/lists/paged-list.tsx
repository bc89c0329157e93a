import { type ReactNode, useEffect } from "react";
import { Fault, Loading } from "../states.tsx";
import { ColumnList, type ColumnListProps } from "./column-list.tsx";
import type { Pages } from "./use-pages.ts";
import { VirtualList, type VirtualListProps } from "./virtual-list.tsx";

/** States of a list that is read page by page. */
export interface PageStatesProps {
  readonly pages: Pages<unknown>;
  /** Items that are read, as in "Loading the agents …". */
  readonly loading: string;
  /** Shown when everything is read and there are no items. */
  readonly empty?: ReactNode;
  /** Shown as soon as there are items. */
  readonly children: ReactNode;
}

/** Shows how far a list is read: its fault with a way to try again, that it is loading, that it is empty, or its items. */
export function PageStates({ pages, loading, empty = null, children }: PageStatesProps) {
  const { items, isPending, error, readAgain } = pages;
  return (
    <>
      {error === null ? null : <Fault error={error} onRetry={readAgain} />}
      {isPending ? <Loading what={loading} /> : null}
      {!isPending && error === null && items.length === 0 ? empty : null}
      {items.length === 0 ? null : children}
    </>
  );
}

type Shared = "items" | "children" | "onEnd";

/** Rows of a list: each drawn by `row`, or in columns. */
type RowsProps<T> =
  | (Omit<VirtualListProps<T>, Shared> & { readonly row: (item: T) => ReactNode })
  | Omit<ColumnListProps<T>, Shared>;

/** Properties of a list that is read page by page. */
export type PagedListProps<T> = RowsProps<T> &
  Omit<PageStatesProps, "pages" | "children"> & {
    readonly pages: Pages<T>;
    /** Puts the list, once it has items, between what belongs to it. */
    readonly children?: (list: ReactNode) => ReactNode;
  };

/** A list of any length that is read page by page as it is scrolled, with each of its states. */
export function PagedList<T>({ pages, loading, empty, children = (list) => list, ...rows }: PagedListProps<T>) {
  const { items, error } = pages;
  // After a fault only the person tries again.
  const readMore = error === null ? pages.readMore : undefined;
  // Whatever hides some of the items may hide all of a page.
  const isReadingOn = items.length === 0 && readMore !== undefined;
  useEffect(() => {
    if (isReadingOn) readMore?.();
  }, [isReadingOn, readMore]);
  const list =
    "columns" in rows ? (
      <ColumnList {...rows} items={items} onEnd={readMore} />
    ) : (
      <VirtualList {...rows} items={items} onEnd={readMore}>
        {rows.row}
      </VirtualList>
    );
  return (
    <PageStates pages={{ ...pages, isPending: pages.isPending || isReadingOn }} loading={loading} empty={empty}>
      {children(list)}
    </PageStates>
  );
}
