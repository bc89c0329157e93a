import { useQuery } from "@connectrpc/connect-query";
import type { UseQueryResult } from "@tanstack/react-query";
import {
  type GetNotificationPreferencesResponse,
  NotificationService,
} from "../../../../gen/agentcontrol/v1/notification_service_pb.js";
import { ScreenFrame } from "../../kit/screen.tsx";
import { Empty, Fault, Loading } from "../../kit/states.tsx";
import { useSession } from "../../session.ts";
import "../../styles/notifications.css";
import { SETTINGS } from "../settings/place.ts";
import { AddEmail, LinkSlack, NotifyBrowser } from "./add-channel.tsx";
import { ChannelItem } from "./channel-item.tsx";
import { PreferencesForm } from "./preferences-form.tsx";
import { WorkspaceSettings } from "./workspace-settings.tsx";

const { getNotificationPreferences } = NotificationService.method;
const REFRESH_MS = 5_000;

/** How the signed-in person is told of escalations, and how their workspace tells people. */
export function Notifications() {
  const { role } = useSession().session;
  const isAuditor = role === "auditor";
  const own = useQuery(getNotificationPreferences, {}, { enabled: !isAuditor, refetchInterval: REFRESH_MS });
  return (
    <ScreenFrame name="notifications" title="Notifications" within={SETTINGS}>
      {isAuditor ? (
        <Empty title="Nothing to be told of">Auditors answer no escalations, so they are not told of them.</Empty>
      ) : (
        <Own query={own} />
      )}
      {/* Below what is above it, which would move it later. */}
      {isAuditor || !own.isPending ? <WorkspaceSettings mayChange={role === "admin"} /> : null}
    </ScreenFrame>
  );
}

interface OwnProps {
  readonly query: UseQueryResult<GetNotificationPreferencesResponse>;
}

/** The person's channels and wishes. */
function Own({ query }: OwnProps) {
  if (query.isError) return <Fault error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Loading what="your channels" />;
  const { channels, preferences, pushPublicKey } = query.data;
  return (
    <>
      <section className="card stack" aria-labelledby="own-channels">
        <h2 id="own-channels">Where you are told</h2>
        {channels.length === 0 ? (
          <p className="hint">Nowhere yet: add a browser, an e-mail address or a Slack account.</p>
        ) : (
          <ul className="channels">
            {channels.map((channel) => (
              <ChannelItem key={channel.channelId} channel={channel} />
            ))}
          </ul>
        )}
        <div className="row">
          <NotifyBrowser publicKey={pushPublicKey} />
          <AddEmail />
          <LinkSlack />
        </div>
      </section>
      <section className="card stack" aria-labelledby="own-wishes">
        <h2 id="own-wishes">Of what, and when</h2>
        <PreferencesForm preferences={preferences} />
      </section>
    </>
  );
}
