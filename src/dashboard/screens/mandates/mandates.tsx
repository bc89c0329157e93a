import { Link } from "wouter";
import {
  type ListMandatesResponse,
  type Mandate,
  MandateMode,
  MandateService,
  MandateStatus,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Scope } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { usePages } from "../../kit/lists/use-pages.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Empty } from "../../kit/states.tsx";
import { Time } from "../../kit/time.tsx";
import type { ScreenProps } from "../../screens.tsx";
import { useMayChange } from "../../session.ts";
import "../../styles/mandates.css";
import { MandateView, NewMandate } from "./mandate-view.tsx";

const REQUEST = { pageSize: 100, status: MandateStatus.ACTIVE };
const ROW_HEIGHT = 60;
const mandatesOf = ({ mandates }: ListMandatesResponse): readonly Mandate[] => mandates;

/** Mandates of the workspace. */
export function Mandates({ id }: ScreenProps) {
  if (id === "new") return <NewMandate />;
  return id === undefined ? <MandateList /> : <MandateView mandateId={id} />;
}

function MandateList() {
  const mayChange = useMayChange();
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
      <PagedList
        pages={usePages(MandateService.method.listMandates, REQUEST, mandatesOf)}
        loading="the mandates"
        empty={<Empty title="No mandate is in force">The workspace decides every action by its default.</Empty>}
        idOf={({ mandateId }) => mandateId}
        rowHeight={ROW_HEIGHT}
        label="Mandates"
        row={(mandate) => <MandateRow mandate={mandate} />}
      />
    </ScreenFrame>
  );
}

const SCOPES: Readonly<Record<number, string>> = { [Scope.DEPARTMENT]: "one department", [Scope.AGENT]: "one agent" };

function MandateRow({ mandate }: { readonly mandate: Mandate }) {
  const { mandateId, name, mode, scope, priority, rules, pack, version, violations, updatedAt } = mandate;
  return (
    <div className="mandate-row">
      <Link href={`/mandates/${mandateId}`} className="mandate-name">
        <Shown text={name} />
      </Link>
      {mode === MandateMode.OBSERVE ? <Badge tone="plain">observes</Badge> : null}
      {violations.length === 0 ? null : (
        <Badge tone="bad">
          {violations.length} {violations.length === 1 ? "rule" : "rules"} no longer compile
        </Badge>
      )}
      <span className="hint">
        {rules.length} {rules.length === 1 ? "rule" : "rules"} for {SCOPES[scope] ?? "the workspace"}
        {priority === 0 ? "" : `, priority ${priority}`}
        {pack === undefined ? "" : `, of pack ${pack}`}, version {version}, <Time at={updatedAt} />
      </span>
    </div>
  );
}
