import { ConnectError } from "@connectrpc/connect";
import { createQueryOptions, useQuery, useTransport } from "@connectrpc/connect-query";
import { keepPreviousData, useQueryClient } from "@tanstack/react-query";
import { lazy, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { ApproverGroupService } from "../../../../gen/agentcontrol/v1/approver_group_service_pb.js";
import { DepartmentService } from "../../../../gen/agentcontrol/v1/department_service_pb.js";
import { ListService } from "../../../../gen/agentcontrol/v1/list_service_pb.js";
import {
  type Mandate,
  MandateMode,
  MandateService,
  MandateStatus,
} from "../../../../gen/agentcontrol/v1/mandate_service_pb.js";
import type {
  Proposal,
  RuleViolation,
  RuleWarning,
  ToolArgument,
} from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { ToolService } from "../../../../gen/agentcontrol/v1/tool_service_pb.js";
import { requestErrorFrom } from "../../../client/request-error.ts";
import type { DeclaredArgument } from "../../../notation/argument-shape.ts";
import { Button } from "../../kit/button.tsx";
import { Message } from "../../kit/message.tsx";
import { Part } from "../../kit/part.tsx";
import { lineAt } from "../../kit/text-place.ts";
import { useMayChange } from "../../session.ts";
import { useUnsaved } from "../../unsaved.tsx";
import { questionOf } from "../backtests/question.ts";
import { completeMandate, type Known } from "./completion.ts";
import { Editor } from "./editor.tsx";
import { readMandateText, type TextFault, textFromMandate, withMember } from "./mandate-text.ts";
import { ProposedNote } from "./proposed-note.tsx";
import { Publish } from "./publish.tsx";

const BacktestDialog = lazy(() =>
  import("../backtests/backtest-dialog.tsx").then(({ BacktestDialog: dialog }) => ({ default: dialog })),
);
const RuleForm = lazy(() => import("./rule-form.tsx").then(({ RuleForm: form }) => ({ default: form })));

const START = `name: large payments need a person
rules:
  - tool: send_payment
    decision: escalate
    conditions:
      rules:
        - field: amount
          operator: ">"
          value: 500
`;
const NAMES = 500;
const COMPILE_AFTER_MS = 250;
/** Time for which completion keeps the arguments of a tool. */
const TOOL_MS = 10_000;

/** Properties of a draft. */
export interface DraftProps {
  /** Mandate in force that is edited; undefined for a new one. */
  readonly current: Mandate | undefined;
  readonly onPublished: (mandate: Mandate) => void;
}

/** A draft of a mandate: compiled while it is typed, tried on past decisions, and published. */
export function Draft({ current, onPublished }: DraftProps) {
  const [base, setBase] = useState(current);
  const inForce = useMemo(() => (base === undefined ? "" : textFromMandate(base)), [base]);
  const [text, setText] = useState(base === undefined ? START : inForce);
  const [open, setOpen] = useState<"publish" | "rule" | "backtest" | undefined>(undefined);
  const mayChange = useMayChange() && current?.status !== MandateStatus.ARCHIVED;
  const read = useMemo(() => readMandateText(text), [text]);
  const compiled = useCompiled(read, mayChange);
  const faults = useMemo(() => [...read.faults, ...compiled.faults], [read, compiled.faults]);
  const known = useKnown();
  const complete = useMemo(() => completeMandate(() => known.current), [known]);
  const errors = faults.filter(({ severity }) => severity === "error");
  const isReady = read.definition !== undefined && errors.length === 0 && !compiled.isPending;
  const isObserving = read.definition?.mode === MandateMode.OBSERVE;
  // The text waits as a proposal until it is written on.
  const [proposed, setProposed] = useState<{ readonly text: string; readonly proposal: Proposal } | undefined>(
    undefined,
  );
  const isProposed = proposed?.text === text;
  const release = useUnsaved(mayChange && !isProposed && text !== (base === undefined ? START : inForce));
  const publish = (mandate: Mandate): void => {
    release();
    setBase(mandate);
    setText(textFromMandate(mandate));
    setOpen(undefined);
    onPublished(mandate);
  };
  return (
    <div className="stack">
      <Editor text={text} onChange={setText} faults={faults} complete={complete} isReadOnly={!mayChange} />
      <FaultList faults={faults} text={text} />
      {proposed !== undefined && isProposed ? <ProposedNote proposal={proposed.proposal} /> : null}
      {mayChange ? (
        <div className="row">
          <Button
            action="publish"
            tone="primary"
            disabled={!isReady || isProposed || text === inForce}
            onClick={() => setOpen("publish")}
          >
            Publish …
          </Button>
          <Button action="backtest" disabled={!isReady} onClick={() => setOpen("backtest")}>
            Try on the past …
          </Button>
          <Button action="add-rule" onClick={() => setOpen("rule")}>
            Add a rule …
          </Button>
          <Button
            action="mode"
            disabled={read.definition === undefined}
            onClick={() => setText(withMember(text, "mode", isObserving ? "enforce" : "observe"))}
          >
            {isObserving ? "Let it enforce" : "Let it only observe"}
          </Button>
          {base !== undefined && text !== inForce ? (
            <Button action="revert" tone="quiet" onClick={() => setText(inForce)}>
              Back to the version in force
            </Button>
          ) : null}
        </div>
      ) : null}
      {open === "publish" && read.definition !== undefined ? (
        <Publish
          base={base}
          before={inForce}
          definition={read.definition}
          onPublished={publish}
          onProposed={(proposal) => setProposed({ text, proposal })}
          onClose={() => setOpen(undefined)}
        />
      ) : null}
      {open === "backtest" && read.definition !== undefined ? (
        <Part what="the backtest">
          <BacktestDialog question={questionOf(read.definition, base?.mandateId)} onClose={() => setOpen(undefined)} />
        </Part>
      ) : null}
      {open === "rule" ? (
        <Part what="the form">
          <RuleForm text={text} tools={known.current.tools} onText={setText} onClose={() => setOpen(undefined)} />
        </Part>
      ) : null}
    </div>
  );
}

/** Compiles the rules a moment after the last edit. */
function useCompiled(
  read: ReturnType<typeof readMandateText>,
  isOn: boolean,
): { readonly faults: readonly TextFault[]; readonly isPending: boolean } {
  const [settled, setSettled] = useState(read);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(read), COMPILE_AFTER_MS);
    return () => clearTimeout(timer);
  }, [read]);
  const rules = settled.definition?.rules;
  const query = useQuery(
    MandateService.method.compileMandate,
    { rules: rules ?? [] },
    { enabled: isOn && rules !== undefined, retry: false, placeholderData: keepPreviousData },
  );
  const faults = useMemo((): readonly TextFault[] => {
    if (rules === undefined) return [];
    if (query.error !== null) return faultsOfError(query.error, settled);
    const { violations = [], warnings = [] } = query.data ?? {};
    return [
      ...violations.map((violation) => faultOfViolation(violation, settled)),
      ...warnings.map((warning) => faultOfWarning(warning, settled)),
    ];
  }, [rules, query.data, query.error, settled]);
  return { faults, isPending: isOn && (settled !== read || query.isFetching) };
}

/** Beginning of a message about an expression, which the place in the text says. */
const PLACE_IN_EXPRESSION = /^line \d+, column \d+: /;

function faultOfViolation(violation: RuleViolation, { placeOf }: ReturnType<typeof readMandateText>): TextFault {
  const { path, message, line, column } = violation;
  if (line === undefined || column === undefined) return { ...placeOf(path), message, severity: "error" };
  const text = message.replace(PLACE_IN_EXPRESSION, "");
  return { ...placeOf(path, { line, column }), message: text, severity: "error" };
}

/** Warnings about an expression as a whole. */
const OF_WHOLE_EXPRESSION = ["WHEN_DOES_NOT_FILTER", "WHEN_ALWAYS_FAILS"];

function faultOfWarning(warning: RuleWarning, { placeOf }: ReturnType<typeof readMandateText>): TextFault {
  const { path, reason, message, line, column } = warning;
  const isOfSpot = line !== undefined && column !== undefined && !OF_WHOLE_EXPRESSION.includes(reason);
  return { ...placeOf(path, isOfSpot ? { line, column } : undefined), message, severity: "warning" };
}

function faultsOfError(error: Error, { placeOf }: ReturnType<typeof readMandateText>): readonly TextFault[] {
  const violations = error instanceof ConnectError ? requestErrorFrom(error).violations : [];
  if (violations.length === 0) return [{ ...placeOf(""), message: error.message, severity: "error" }];
  return violations.map(({ field, description }) => ({ ...placeOf(field), message: description, severity: "error" }));
}

const declaredFrom = ({ path, types, description, enum: values }: ToolArgument): DeclaredArgument => ({
  path,
  types,
  description,
  texts: values.flatMap(({ kind }) => (kind.case === "stringValue" ? [kind.value] : [])),
});

/** Reads the names for completion once, and the arguments of a tool on demand. */
function useKnown(): { readonly current: Known } {
  const transport = useTransport();
  const client = useQueryClient();
  const tools = useQuery(ToolService.method.listTools, { pageSize: NAMES });
  const departments = useQuery(DepartmentService.method.listDepartments, { pageSize: NAMES });
  const lists = useQuery(ListService.method.listLists, { pageSize: NAMES });
  const approverGroups = useQuery(ApproverGroupService.method.listApproverGroups, { pageSize: NAMES });
  const known = useRef<Known>({
    tools: [],
    departments: [],
    lists: [],
    approverGroups: [],
    argumentsOf: async () => [],
  });
  known.current = {
    tools: tools.data?.tools.map(({ name }) => name) ?? [],
    departments: departments.data?.departments.map(({ departmentId }) => departmentId) ?? [],
    lists: lists.data?.lists.map(({ name }) => name) ?? [],
    approverGroups: approverGroups.data?.approverGroups.map(({ name }) => name) ?? [],
    argumentsOf: async (name) => {
      const options = createQueryOptions(ToolService.method.getTool, { name }, { transport });
      const reply = await client.fetchQuery({ ...options, staleTime: TOOL_MS, retry: false }).catch(() => undefined);
      return (reply?.tool?.arguments ?? []).map(declaredFrom);
    },
  };
  return known;
}

/** Faults by line, for readers who cannot see the marks in the text. */
function FaultList({ faults, text }: { readonly faults: readonly TextFault[]; readonly text: string }) {
  const shown = useDeferredValue(faults);
  if (shown.length === 0) return <p className="hint">The text compiles.</p>;
  return (
    <div role="status" aria-label="What is wrong">
      <ul className="text-faults">
        {shown.slice(0, 20).map(({ from, message, severity }) => (
          <li
            key={`${from} ${message}`}
            className={severity === "error" ? "is-bad" : "is-wait"}
            data-line={lineAt(text, from)}
          >
            line {lineAt(text, from)}: <Message text={message} />
          </li>
        ))}
      </ul>
    </div>
  );
}
