import { type Client, Code, ConnectError, createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import {
  EnforcementService,
  type ListDecisionsResponse,
  type WatchDecisionsResponse,
} from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import {
  type ActionOutcome,
  Decision,
  type DecisionRecord,
  OutcomeStatus,
} from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { followStream } from "../../../client/follow-stream.ts";
import { type Pages, usePages } from "../../kit/lists/use-pages.ts";

const PAGE_SIZE = 100;
const PAUSES = { firstMs: 500, maxMs: 15_000 };
/** Milliseconds within which outcomes that become unknown are read together. */
const TOGETHER_MS = 250;

/** An action whose outcome is unknown, or was when it was listed. */
export interface UnknownOutcome {
  readonly record: DecisionRecord;
  /** Outcome that stands since; undefined while it is unknown. */
  readonly settled: ActionOutcome | undefined;
}

/** Actions whose outcomes are unknown. */
export interface UnknownOutcomes {
  /** Newest decision first. One that was settled since keeps its place until the screen is left. */
  readonly pages: Pages<UnknownOutcome>;
  readonly isLive: boolean;
  /** Takes the outcome of an action from an answer, without waiting for the watch. */
  readonly take: (decisionId: string, outcome: ActionOutcome) => void;
}

const recordsOf = ({ decisions }: ListDecisionsResponse): readonly DecisionRecord[] => decisions;

/** Lists the actions whose outcomes are unknown, and follows what becomes of them. */
export function useUnknownOutcomes(): UnknownOutcomes {
  const request = { outcome: OutcomeStatus.UNKNOWN, pageSize: PAGE_SIZE };
  const pages = usePages(EnforcementService.method.listDecisions, request, recordsOf);
  const [settled, setSettled] = useState<ReadonlyMap<string, ActionOutcome>>(new Map());
  const seen = useRef(new Map<string, DecisionRecord>());
  const take = useCallback((decisionId: string, outcome: ActionOutcome) => {
    if (seen.current.has(decisionId)) setSettled((before) => new Map(before).set(decisionId, outcome));
  }, []);
  const isLive = useOutcomeWatch(take, pages.readAgain);
  const items = useMemo(() => {
    for (const record of pages.items) seen.current.set(record.decisionId, record);
    const kept = [...settled.keys()].flatMap((id) => seen.current.get(id) ?? []);
    const records = [...new Map([...pages.items, ...kept].map((each) => [each.decisionId, each])).values()];
    return records
      .sort((a, b) => Number(b.seq - a.seq))
      .map((record) => ({ record, settled: settled.get(record.decisionId) }));
  }, [pages.items, settled]);
  return { pages: { ...pages, items }, isLive, take };
}

/** Follows outcomes: calls `onSettled` with each that stands, and `onUnknown` after some became unknown or the watch began anew. */
function useOutcomeWatch(
  onSettled: (decisionId: string, outcome: ActionOutcome) => void,
  onUnknown: () => void,
): boolean {
  const transport = useTransport();
  const [isLive, setIsLive] = useState(false);
  const latest = useRef({ onSettled, onUnknown });
  latest.current = { onSettled, onUnknown };
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const readSoon = (): void => {
      timer ??= setTimeout(() => {
        timer = undefined;
        latest.current.onUnknown();
      }, TOGETHER_MS);
    };
    const hear = ({ update }: WatchDecisionsResponse): void => {
      if (update?.outcome === undefined) return;
      if (update.outcome.status === OutcomeStatus.UNKNOWN) readSoon();
      else latest.current.onSettled(update.decisionId, update.outcome);
    };
    const client = createClient(EnforcementService, transport);
    // Rejects only with a fault that a further attempt cannot cure.
    void follow(client, stop.signal, { hear, setIsLive, readSoon }).catch(() => setIsLive(false));
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [transport]);
  return isLive;
}

interface Listener {
  readonly hear: (message: WatchDecisionsResponse) => void;
  readonly setIsLive: (isLive: boolean) => void;
  readonly readSoon: () => void;
}

/** Faults that a further attempt cannot cure. */
const FINAL: ReadonlySet<Code> = new Set([Code.PermissionDenied, Code.Unauthenticated]);

async function follow(
  client: Client<typeof EnforcementService>,
  signal: AbortSignal,
  { hear, setIsLive, readSoon }: Listener,
): Promise<void> {
  let cursor = "";
  let isOpen = false;
  const messages = followStream({
    open(ending) {
      isOpen = false;
      const request = { cursor, decision: Decision.ALLOW, outcomes: true };
      return client.watchDecisions(request, { signal: ending, timeoutMs: 0 });
    },
    signal,
    pauses: PAUSES,
    onLost(fault) {
      setIsLive(false);
      const code = fault === undefined ? undefined : ConnectError.from(fault).code;
      if (code !== undefined && FINAL.has(code)) throw fault;
      // A log that ends before the cursor is another log.
      if (code === Code.InvalidArgument || code === Code.OutOfRange) cursor = "";
    },
  });
  for await (const message of messages) {
    if (!isOpen) {
      isOpen = true;
      setIsLive(true);
      // A watch without a cursor begins with the present.
      if (cursor === "") readSoon();
    }
    cursor = message.cursor;
    hear(message);
  }
}
