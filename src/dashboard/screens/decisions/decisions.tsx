import { createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { useSearchParams } from "wouter";
import { EnforcementService } from "../../../../gen/agentcontrol/v1/enforcement_service_pb.js";
import type { DecisionRecord } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { Badge, type Tone } from "../../kit/badge.tsx";
import { Button } from "../../kit/button.tsx";
import { PagedList } from "../../kit/lists/paged-list.tsx";
import { useNarrow } from "../../kit/lists/use-narrow.ts";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Empty } from "../../kit/states.tsx";
import { useSession } from "../../session.ts";
import "../../styles/decisions.css";
import { DecisionFeed, type FeedState } from "./decision-feed.ts";
import { DecisionRow } from "./decision-row.tsx";
import { type FeedFilter, FILTERS, filterFrom, whyNotLive } from "./feed-filter.ts";
import { type ChangeFilter, FeedFilters } from "./feed-filters.tsx";
import { Histogram } from "./histogram.tsx";

/** Row heights set by the style sheet, pixels. */
const ROW_HEIGHT = 44;
const NARROW_ROW_HEIGHT = 84;

const idOf = ({ decisionId }: DecisionRecord): string => decisionId;

/** Live feed of decisions, with their history. */
export function Decisions() {
  const [parameters, setParameters] = useSearchParams();
  const key = FILTERS.map((name) => `${name}=${parameters.get(name) ?? ""}`).join("&");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the same filters make the same feed
  const filter = useMemo(() => filterFrom(parameters), [key]);
  const change: ChangeFilter = (changed, isMore = false) =>
    setParameters(
      (before) => Object.entries({ ...filterFrom(before), ...changed }).filter(([, value]) => value !== ""),
      { replace: isMore },
    );
  const feed = useFeed(filter);
  const state = useSyncExternalStore(feed.subscribe, feed.state);
  return (
    <ScreenFrame name="decisions" title="Decisions" actions={<FeedActions feed={feed} state={state} filter={filter} />}>
      <FeedFilters filter={filter} onChange={change} />
      <Histogram filter={filter} />
      <Rows feed={feed} state={state} filter={filter} />
    </ScreenFrame>
  );
}

function useFeed(filter: FeedFilter): DecisionFeed {
  const transport = useTransport();
  const { leave } = useSession();
  const feed = useMemo(
    () => new DecisionFeed(createClient(EnforcementService, transport), filter, leave),
    [transport, filter, leave],
  );
  useEffect(() => {
    feed.start();
    return () => feed.stop();
  }, [feed]);
  return feed;
}

interface FeedProps {
  readonly feed: DecisionFeed;
  readonly state: FeedState;
  readonly filter: FeedFilter;
}

const LINKS: Readonly<Record<FeedState["link"], readonly [Tone, string]>> = {
  connecting: ["plain", "connecting"],
  live: ["good", "live"],
  broken: ["bad", "reconnecting"],
  off: ["plain", "not live"],
};

function FeedActions({ feed, state, filter }: FeedProps) {
  const [tone, word] = state.isPaused ? (["wait", "paused"] as const) : LINKS[state.link];
  return (
    <>
      <span role="status" data-link={state.link} title={whyNotLive(filter, Date.now())}>
        <Badge tone={tone}>{word}</Badge>
      </span>
      {state.link === "off" ? null : (
        <Button action={state.isPaused ? "resume" : "pause"} onClick={() => feed.pause(!state.isPaused)}>
          {state.isPaused ? "Resume" : "Pause"}
        </Button>
      )}
    </>
  );
}

/** Shows the number of decisions held back, as a button that shows them. */
function Waiting({ feed, state }: Omit<FeedProps, "filter">) {
  if (state.waiting === 0) return null;
  const show = (): void => {
    feed.pause(false);
    document.querySelector(".feed .virtual")?.scrollTo({ top: 0 });
  };
  return (
    <Button action="show-new" tone="primary" onClick={show}>
      <span data-waiting={state.waiting}>
        Show {state.waiting.toLocaleString("en")} new {state.waiting === 1 ? "decision" : "decisions"}
      </span>
    </Button>
  );
}

function Rows({ feed, state, filter }: FeedProps) {
  const rowHeight = useNarrow() ? NARROW_ROW_HEIGHT : ROW_HEIGHT;
  const { rows, isReading, hasMore, isSearchStopped, error } = state;
  const isPending = rows.length === 0 && isReading;
  const isFiltered = FILTERS.some((name) => filter[name] !== "");
  const pages = {
    items: rows,
    isPending,
    isPrevious: false,
    error: error ?? null,
    readMore: hasMore && !isSearchStopped ? feed.readMore : undefined,
    readAgain: feed.searchOn,
  };
  return (
    <div className="feed">
      <div className="feed-waiting" aria-live="polite">
        <Waiting feed={feed} state={state} />
      </div>
      <PagedList
        key={rowHeight}
        pages={pages}
        loading="the decisions"
        empty={isSearchStopped ? null : <None isFiltered={isFiltered} />}
        idOf={idOf}
        rowHeight={rowHeight}
        isEven
        label="Decisions, newest first"
        row={(record) => <DecisionRow record={record} />}
        onAway={feed.away}
      />
      {isPending ? null : (
        <p className="hint feed-end" role="status">
          {rows.length.toLocaleString("en")} shown
          {isReading ? ", reading older ones …" : hasMore ? ", older ones follow as you scroll" : ""}
        </p>
      )}
      {isSearchStopped ? (
        <p className="row">
          The search stopped after half a million entries of the log.
          <Button action="search-on" onClick={feed.searchOn}>
            Search further back
          </Button>
        </p>
      ) : null}
    </div>
  );
}

function None({ isFiltered }: { readonly isFiltered: boolean }) {
  return isFiltered ? (
    <Empty title="No decision fits the filters">Widen or clear them.</Empty>
  ) : (
    <Empty title="Nothing was decided yet">Decisions appear here as agents ask for them.</Empty>
  );
}
