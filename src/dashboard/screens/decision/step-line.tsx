import type { JsonObject } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { ReactNode } from "react";
import { Link } from "wouter";
import type { DecisionRecord } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { textAt } from "../../../verify/json.ts";
import { DecisionBadge } from "../../kit/badge.tsx";
import { Shown } from "../../kit/shown.tsx";
import { durationText } from "../../kit/time.tsx";
import { isoText, useZone } from "../../kit/zone.ts";
import { WordBadge } from "./judged.tsx";

/** Decision at which a time line ends. */
export interface LineEnd {
  readonly decisionId: string;
  /** Word of the decision. */
  readonly word: string;
  readonly actionType: string;
  readonly agentId: string;
  /** Epoch milliseconds. */
  readonly ms: number;
}

/** Returns the sealed decision as the end of a time line. */
export const lineEndOf = (body: JsonObject): LineEnd => ({
  decisionId: textAt(body, "decision_id"),
  word: textAt(body, "decision"),
  actionType: textAt(body, "action.action_type"),
  agentId: textAt(body, "action.agent_id"),
  ms: Date.parse(textAt(body, "at")),
});

/** Properties of a time line. */
export interface StepLineProps {
  readonly label: string;
  readonly end: LineEnd;
  /** Rows for which room is kept, the last one included. */
  readonly rows: number;
  /** Earlier steps, oldest first. */
  readonly children?: ReactNode;
}

/** A time line of steps that ends at the decision shown, with the time of each before it. */
export function StepLine({ label, end, rows, children }: StepLineProps) {
  return (
    <ol className="step-line" aria-label={label} style={{ minHeight: `${rows * 2.6}rem` }}>
      {children}
      <li className="step is-last" data-id={end.decisionId} aria-current="step">
        <span className="hint">this action</span>
        <WordBadge word={end.word} />
        <span className="step-what">
          <Shown text={end.actionType} />
        </span>
      </li>
    </ol>
  );
}

/** An earlier step, which leads to its decision. */
export function EarlierStep({ record, end, pattern }: { record: DecisionRecord; end: LineEnd; pattern?: string }) {
  const { decisionId, decision, decidedAt, actionType, agentId, agentName } = record;
  const ms = decidedAt === undefined ? end.ms : timestampMs(decidedAt);
  const [zone] = useZone();
  return (
    <li className="step" data-id={decisionId}>
      <time className="hint" dateTime={isoText(ms, "utc")} title={isoText(ms, zone)}>
        {end.ms - ms < 1_000 ? "just" : durationText(end.ms - ms)} before
      </time>
      <DecisionBadge decision={decision} />
      <span className="step-what">
        <Link href={`/decisions/${decisionId}`}>
          <Shown text={actionType} />
        </Link>
        {agentId === end.agentId ? null : (
          <span className="hint">
            {" by "}
            <Shown text={agentName || agentId} />
          </span>
        )}
        {pattern === undefined || pattern === actionType ? null : (
          <span className="hint">
            {" as "}
            <code>
              <Shown text={pattern} />
            </code>
          </span>
        )}
      </span>
    </li>
  );
}
