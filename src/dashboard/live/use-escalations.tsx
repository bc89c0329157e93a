import { createClient } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { createContext, type ReactNode, useContext, useEffect, useMemo, useSyncExternalStore } from "react";
import { EscalationService } from "../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { EscalationFeed, type EscalationsNow } from "./escalation-feed.ts";

const FeedContext = createContext<EscalationFeed | undefined>(undefined);

/** Follows the escalations on one stream for all screens. */
export function FollowEscalations({ children }: { readonly children: ReactNode }) {
  const transport = useTransport();
  const feed = useMemo(() => new EscalationFeed(createClient(EscalationService, transport)), [transport]);
  useEffect(() => feed.start(), [feed]);
  return <FeedContext value={feed}>{children}</FeedContext>;
}

/** Returns the feed of the escalations. */
export function useEscalationFeed(): EscalationFeed {
  const feed = useContext(FeedContext);
  if (feed === undefined) throw new Error("the escalations are not followed here");
  return feed;
}

/** Returns the current state of the feed. */
export function useEscalations(): EscalationsNow {
  const feed = useEscalationFeed();
  return useSyncExternalStore(
    (listener) => feed.subscribe(listener),
    () => feed.now,
  );
}

/** Returns the number of pending escalations. */
export function usePendingCount(): number {
  const feed = useEscalationFeed();
  return useSyncExternalStore(
    (listener) => feed.subscribe(listener),
    () => feed.now.pending.length,
  );
}
