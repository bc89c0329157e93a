import { useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import {
  type ListMandatesResponse,
  type Mandate,
  MandateService,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { AddressSearch } from "../../kit/address-filter.tsx";
import type { Column } from "../../kit/lists/column-list.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import type { ScreenProps } from "../../screens.tsx";
import { useMayChange } from "../../session.ts";
import "../../styles/mandates.css";
import {
  type ListedMandate,
  MandateDecisions,
  MandateModeBadge,
  MandateName,
  rulesText,
  ruleTypesOf,
} from "./mandate-cells.tsx";
import { MandateView, NewMandate } from "./mandate-view.tsx";
import { useFirings } from "./use-firings.ts";

/** Active and stale ones. */
const REQUEST = { pageSize: 100 };
const ROW_HEIGHT = 62;
const COLUMNS: readonly Column<ListedMandate>[] = [
  { title: "Mandate", cell: ({ mandate }) => <MandateName mandate={mandate} /> },
  { title: "Decides", cell: ({ mandate }) => <MandateDecisions mandate={mandate} /> },
  { title: "Rules", cell: ({ mandate }) => rulesText(mandate) },
  { title: "Mode", cell: ({ mandate }) => <MandateModeBadge mandate={mandate} /> },
  { title: "Fired in 7 days", cell: ({ firings }) => firings?.toLocaleString("en") ?? "…", isNumber: true },
  { title: "Changed", cell: ({ mandate }) => <Time at={mandate.updatedAt} /> },
];
const mandatesOf = ({ mandates }: ListMandatesResponse): readonly Mandate[] => mandates;
const idOf = ({ mandate }: ListedMandate): string => mandate.mandateId;

/** Returns the words by which a mandate is found: its name, description, and those of its rules. */
function textOf({ name, description, pack, rules }: Mandate): string {
  const words = rules.flatMap(({ tool, description: why, when, conditions }) => [
    tool,
    why,
    when,
    ...(conditions?.matchActionTypes ?? []),
    ...(conditions?.steps ?? []),
    ...(conditions?.rules ?? []).map(({ field }) => field),
    ...(conditions?.arguments ?? []).map(({ path }) => path),
  ]);
  return [name, description, pack, ...words]
    .filter((word) => word !== undefined)
    .join("\n")
    .toLowerCase();
}

/** Mandates of the workspace. */
export function Mandates({ id }: ScreenProps) {
  if (id === "new") return <NewMandate />;
  return id === undefined ? <MandateList /> : <MandateView mandateId={id} />;
}

function MandateList() {
  const mayChange = useMayChange();
  const [parameters] = useSearchParams();
  const q = (parameters.get("q") ?? "").trim().toLowerCase();
  const pages = usePages(MandateService.method.listMandates, REQUEST, mandatesOf);
  const firings = useFirings();
  const items = useMemo(
    () =>
      pages.items
        .filter((mandate) => q === "" || textOf(mandate).includes(q) || ruleTypesOf(mandate).includes(q))
        .map((mandate) => ({ mandate, firings: firings?.of(mandate.mandateId) })),
    [pages.items, firings, q],
  );
  return (
    <ScreenFrame
      name="mandates"
      title="Mandates"
      actions={
        mayChange ? (
          <Link href="/mandates/new" className="button is-primary" data-action="new">
            Write a mandate
          </Link>
        ) : undefined
      }
    >
      <search className="filters">
        <AddressSearch name="q" label="Name or rule" placeholder="send_payment" />
      </search>
      <PagedList
        key={q}
        pages={{ ...pages, items }}
        loading="the mandates"
        empty={
          q === "" ? (
            <Empty title="No mandate is in force">The workspace decides every action by its default.</Empty>
          ) : (
            <Empty title="No mandate has this in its name or rules">Search by another word.</Empty>
          )
        }
        idOf={idOf}
        rowHeight={ROW_HEIGHT}
        label="Mandates"
        columns={COLUMNS}
        className="mandates"
        rowClassName="mandate-row"
      />
      {firings?.from === undefined ? null : (
        <p className="hint">Firings are counted over the newest {firings.from.toLocaleString("en")} decisions.</p>
      )}
    </ScreenFrame>
  );
}
