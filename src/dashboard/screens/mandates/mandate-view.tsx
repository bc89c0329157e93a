import { useQuery } from "@connectrpc/connect-query";
import { Tabs } from "radix-ui";
import { lazy, useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import {
  type Mandate,
  MandateMode,
  MandateService,
  MandateStatus,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import { ProposalService } from "../../../../gen/agentcontrol/v1/proposal_service_pb.js";
import { ProposalStatus } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Confirm } from "../../kit/change-dialog.tsx";
import { DialogButton } from "../../kit/dialog.tsx";
import { Message } from "../../kit/message.tsx";
import { Part } from "../../kit/part.tsx";
import { changeText, proposalHref, toldProposal, waitText } from "../../kit/proposed.ts";
import { ScreenFrame, type ScreenPlace } from "../../kit/screen.tsx";
import { shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { useMayChange } from "../../session.ts";
import { Observed } from "./observed.tsx";

const { archiveMandate, getMandate, listMandates } = MandateService.method;

const Draft = lazy(() => import("./draft.tsx").then(({ Draft: draft }) => ({ default: draft })));
const History = lazy(() => import("./history.tsx").then(({ History: history }) => ({ default: history })));
const Tests = lazy(() => import("./tests.tsx").then(({ Tests: tests }) => ({ default: tests })));

/** At most 100 proposals wait in a workspace. */
const OPEN_PROPOSALS = { open: true, pageSize: 100 };
const MANDATES: ScreenPlace = { title: "Mandates", href: "/mandates" };

/** Template of a new mandate. */
export function NewMandate() {
  const [, navigate] = useLocation();
  return (
    <ScreenFrame name="mandate" title="New mandate" within={MANDATES}>
      <Part what="the editor">
        <Draft current={undefined} onPublished={({ mandateId }) => navigate(`/mandates/${mandateId}`)} />
      </Part>
    </ScreenFrame>
  );
}

const TABS = [
  { value: "edit", title: "Text" },
  { value: "tests", title: "Tests" },
  { value: "history", title: "History" },
] as const;

/** One mandate: its text, tests, versions and effects. */
export function MandateView({ mandateId }: { readonly mandateId: string }) {
  const query = useQuery(getMandate, { mandateId });
  const mandate = query.data?.mandate;
  return (
    <ScreenFrame
      name="mandate"
      title={mandate === undefined ? "Mandate" : shownText(mandate.name)}
      within={MANDATES}
      actions={mandate?.status === MandateStatus.ACTIVE ? <Archive mandate={mandate} /> : undefined}
    >
      {query.isPending ? <Loading what="the mandate" /> : null}
      {query.isError ? <Fault error={query.error} onRetry={() => void query.refetch()} /> : null}
      {mandate === undefined ? null : (
        <Sections mandate={mandate} versions={query.data?.versions ?? []} onPublished={() => void query.refetch()} />
      )}
    </ScreenFrame>
  );
}

/** Archives a mandate after confirmation. */
function Archive({ mandate: { mandateId, name } }: { readonly mandate: Mandate }) {
  const mayChange = useMayChange();
  const [, navigate] = useLocation();
  if (!mayChange) return null;
  return (
    <DialogButton action="archive" tone="danger" label="Archive">
      {(close) => (
        <Confirm
          title="Archive the mandate?"
          submit="Archive"
          word={name}
          change={(call) => call(archiveMandate, { mandateId })}
          refreshes={[listMandates, ProposalService.method.listProposals]}
          done={toldProposal}
          onDone={({ proposal }) => {
            if (proposal === undefined) navigate("/mandates");
          }}
          onClose={close}
        >
          <p>Its rules no longer decide. It takes no new version; a new mandate may have its name.</p>
        </Confirm>
      )}
    </DialogButton>
  );
}

/** Changes of a mandate that wait for others. */
function OpenProposals({ mandateId }: { readonly mandateId: string }) {
  const query = useQuery(ProposalService.method.listProposals, OPEN_PROPOSALS);
  const own = (query.data?.proposals ?? []).filter(
    (each) => each.mandateId === mandateId && each.status === ProposalStatus.PENDING,
  );
  if (own.length === 0) return null;
  return (
    <ul className="open-proposals" aria-label="Proposals">
      {own.map((proposal) => (
        <li key={proposal.proposalId} className="row" data-id={proposal.proposalId}>
          <span>{waitText(proposal)}:</span>
          <Link href={proposalHref(proposal)}>{changeText(proposal.kind)}</Link>
        </li>
      ))}
    </ul>
  );
}

interface SectionsProps {
  readonly mandate: Mandate;
  readonly versions: readonly Mandate[];
  readonly onPublished: () => void;
}

function Sections({ mandate, versions, onPublished }: SectionsProps) {
  const [parameters, setParameters] = useSearchParams();
  const tab = TABS.find(({ value }) => value === parameters.get("show"))?.value ?? "edit";
  const { mandateId, version, status, pack, violations } = mandate;
  const isObserving = mandate.mode === MandateMode.OBSERVE;
  // The text begins anew once a version that was restored here has been read.
  const [restored, setRestored] = useState(0);
  const [begun, setBegun] = useState(0);
  if (begun < restored && mandate.version >= restored) setBegun(restored);
  return (
    <>
      <div className="row">
        <span className="hint">version {version}</span>
        {status === MandateStatus.ACTIVE ? (
          <Badge tone={isObserving ? "plain" : "good"}>{isObserving ? "observes" : "enforces"}</Badge>
        ) : null}
        {status === MandateStatus.ARCHIVED ? <Badge tone="plain">archived</Badge> : null}
        {pack === undefined ? null : (
          <span className="hint">
            of pack <code>{pack}</code>: the next time the pack is applied, its files replace what is published here
          </span>
        )}
      </div>
      {violations.length === 0 ? null : (
        <ul className="fault" role="alert">
          {violations.map(({ path, message }) => (
            <li key={path}>
              <code>{path}</code> <Message text={message} />
            </li>
          ))}
        </ul>
      )}
      <OpenProposals mandateId={mandateId} />
      <Observed mandate={mandate} />
      <Tabs.Root value={tab} onValueChange={(value) => setParameters({ show: value }, { replace: true })}>
        <Tabs.List className="tabs" aria-label="Parts of the mandate">
          {TABS.map(({ value, title }) => (
            <Tabs.Trigger key={value} value={value} className="tab">
              {title}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        {/* The other parts keep an unsaved text. */}
        <Tabs.Content value="edit" className="tab-panel" forceMount hidden={tab !== "edit"}>
          <Part what="the text">
            <Draft key={`${mandateId} ${begun}`} current={mandate} onPublished={onPublished} />
          </Part>
        </Tabs.Content>
        <Tabs.Content value="tests" className="tab-panel">
          <Part what="the tests">
            <Tests mandateId={mandateId} />
          </Part>
        </Tabs.Content>
        <Tabs.Content value="history" className="tab-panel">
          <Part what="the history">
            <History mandate={mandate} versions={versions} onRestored={({ version: now }) => setRestored(now)} />
          </Part>
        </Tabs.Content>
      </Tabs.Root>
    </>
  );
}
