import { TransportProvider } from "@connectrpc/connect-query";
import { QueryClientProvider } from "@tanstack/react-query";
import { Tooltip } from "radix-ui";
import { type ReactNode, useCallback, useEffect, useMemo, useState } from "react";
import { Redirect, Route, Switch, useLocation } from "wouter";
import { FocusReturn } from "./kit/focus-return.tsx";
import { Part } from "./kit/part.tsx";
import { Empty, Fault, Loading } from "./kit/states.tsx";
import { Announcements } from "./kit/toast.tsx";
import { FollowEscalations } from "./live/use-escalations.tsx";
import { INVITE_PATH, Invite } from "./screens/invite.tsx";
import { SignIn } from "./screens/sign-in.tsx";
import { SCREENS } from "./screens.tsx";
import { type OidcOffer, readSession, type Session, SessionContext } from "./session.ts";
import { Shell } from "./shell.tsx";
import { createQueryClient, createTransport } from "./transport.ts";
import { UnsavedGuard } from "./unsaved.tsx";
import { useUpgrade } from "./use-upgrade.ts";

/** The dashboard: an invite, which needs no sign-in, or what is behind the sign-in. */
export function App() {
  return window.location.pathname === INVITE_PATH ? <Invite /> : <SignedInApp />;
}

/** The sign-in, or the screens. */
function SignedInApp() {
  const [session, setSession] = useState<Session | null | undefined>(undefined);
  const [oidc, setOidc] = useState<OidcOffer | null>(null);
  const [fault, setFault] = useState<unknown>(undefined);
  useEffect(() => {
    readSession().then((read) => {
      setOidc(read.oidc);
      setSession(read.session);
    }, setFault);
  }, []);
  const leave = useCallback(() => setSession(null), []);
  if (fault !== undefined) return <Fault error={fault} />;
  if (session === undefined) return <Loading what="the sign-in" />;
  if (session === null) return <SignIn oidc={oidc} onSignedIn={setSession} />;
  return <Screens key={session.csrfToken} session={session} leave={leave} />;
}

function Screens({ session, leave }: { readonly session: Session; readonly leave: () => void }) {
  const transport = useMemo(() => createTransport(session, leave), [session, leave]);
  const queries = useMemo(createQueryClient, []);
  const signedIn = useMemo(() => ({ session, leave }), [session, leave]);
  return (
    <SessionContext value={signedIn}>
      <TransportProvider transport={transport}>
        <QueryClientProvider client={queries}>
          <FollowEscalations>
            <Tooltip.Provider delayDuration={300}>
              <Announcements>
                <FocusReturn>
                  <UnsavedGuard>
                    <Shell>
                      <LoadedScreen>
                        <Switch>
                          {SCREENS.map(({ path, screen: Screen }) => (
                            <Route key={path} path={path}>
                              {(parameters: Readonly<Record<string, string | undefined>>) => (
                                <Screen id={decoded(parameters.id)} />
                              )}
                            </Route>
                          ))}
                          <Route path="/">
                            <Redirect to="/overview" replace />
                          </Route>
                          <Route>
                            <Empty title="There is nothing here">The address names no screen of the dashboard.</Empty>
                          </Route>
                        </Switch>
                      </LoadedScreen>
                    </Shell>
                  </UnsavedGuard>
                </FocusReturn>
              </Announcements>
            </Tooltip.Provider>
          </FollowEscalations>
        </QueryClientProvider>
      </TransportProvider>
    </SessionContext>
  );
}

/** Decodes an id of an address: the router leaves `/` and `?` in it escaped. */
function decoded(id: string | undefined): string | undefined {
  try {
    return id === undefined ? undefined : decodeURIComponent(id);
  } catch {
    return id;
  }
}

/** The screen at the address. It loads on first use. */
function LoadedScreen({ children }: { readonly children: ReactNode }) {
  const [location] = useLocation();
  useUpgrade();
  return (
    <Part what="the screen" content={location}>
      {children}
    </Part>
  );
}
