import { AuthorityStatus } from "../../../../gen/agentcontrol/v1/authority_service_pb.js";
import type { Pages } from "../../kit/lists/use-pages.ts";
import { type AuthorityItem, grantItem, KIND_NAMES, KINDS, type KindName } from "./authority-kinds.ts";
import type { PassedOn } from "./use-grant-tree.ts";

/** A row of the tree: a kind, a piece of authority, or a sentence. */
export type AuthorityRow =
  | { readonly type: "group"; readonly id: string; readonly title: string; readonly count: string }
  | {
      readonly type: "item";
      readonly id: string;
      readonly item: AuthorityItem;
      readonly depth: number;
      readonly passedOn: PassedOn | undefined;
    }
  | { readonly type: "note"; readonly id: string; readonly text: string; readonly depth: number }
  | { readonly type: "more"; readonly id: string; readonly kind: KindName; readonly title: string };

interface Group {
  readonly kind: KindName;
  readonly id: string;
  readonly title: string;
  readonly admits: (item: AuthorityItem) => boolean;
}

const groupsOf = (agentId: string): readonly Group[] =>
  KIND_NAMES.flatMap((kind): Group[] => {
    const { title } = KINDS[kind];
    if (kind !== "grants") return [{ kind, id: kind, title, admits: () => true }];
    return [
      {
        kind,
        id: "grants_given",
        title: "Grants given",
        admits: ({ grant }) => grant?.grantorAgentId === agentId,
      },
      {
        kind,
        id: "grants_received",
        title: "Grants received",
        admits: ({ grant }) => grant?.granteeAgentId === agentId,
      },
    ];
  });

/** Data that the rows are made from. */
export interface AuthorityParts {
  readonly agentId: string;
  readonly pages: Readonly<Record<KindName, Pages<AuthorityItem>>>;
  readonly tree: ReadonlyMap<string, PassedOn>;
  readonly showsEnded: boolean;
}

/** Returns the rows of the tree, parents before their children. */
export function authorityRows(parts: AuthorityParts): readonly AuthorityRow[] {
  const rows = groupsOf(parts.agentId).flatMap((group) => rowsOfGroup(group, parts));
  // A grant passed on stands below the received grant and in the list of given ones: the second row needs an id of its own.
  const seen = new Set<string>();
  return rows.map((row) => {
    const id = seen.has(row.id) ? `${row.id}#${seen.size}` : row.id;
    seen.add(id);
    return { ...row, id };
  });
}

/** Tests whether a piece of authority is active. */
export const isHeld = ({ status }: { readonly status: AuthorityStatus }): boolean => status === AuthorityStatus.ACTIVE;

function rowsOfGroup({ kind, id, title, admits }: Group, parts: AuthorityParts): AuthorityRow[] {
  const { items, isPending, readMore } = parts.pages[kind];
  const shown = items.filter((item) => admits(item) && (parts.showsEnded || isHeld(item)));
  const count = isPending ? "…" : `${shown.length}${readMore === undefined ? "" : " so far"}`;
  const rows: AuthorityRow[] = [{ type: "group", id, title, count }];
  for (const item of shown) addItem(rows, item, parts, 0);
  if (readMore !== undefined) rows.push({ type: "more", id: `${id}-more`, kind, title });
  return rows;
}

/** Maximum depth of a chain of grants. */
const MAX_DEPTH = 16;

function addItem(rows: AuthorityRow[], item: AuthorityItem, parts: AuthorityParts, depth: number): void {
  const passedOn = item.grant === undefined ? undefined : parts.tree.get(item.id);
  rows.push({ type: "item", id: item.id, item, depth, passedOn });
  if (passedOn?.isOpen !== true || depth >= MAX_DEPTH) return;
  for (const child of passedOn.children ?? []) {
    if (parts.showsEnded || isHeld(child)) addItem(rows, grantItem(child), parts, depth + 1);
  }
  if (!passedOn.hasMore) return;
  rows.push({ type: "note", id: `${item.id}-more`, text: "The newest 500 are shown.", depth: depth + 1 });
}
