import { createContext, useContext } from "react";

/** Role of the signed-in key. */
export type RoleWord = "admin" | "operator" | "auditor";

/** The signed-in key or person. */
export interface Session {
  /** Id of the key, or name of the person, as the log and `resolved_by` show it. */
  readonly keyId: string;
  /** Email address or name of the person, or the key's owner or name; undefined if there is none. */
  readonly name: string | undefined;
  readonly workspaceId: string;
  readonly role: RoleWord;
  /** Token sent with every call; see `createTransport`. */
  readonly csrfToken: string;
}

interface SessionJson {
  readonly key_id: string;
  readonly name: string | null;
  readonly workspace_id: string;
  readonly role: RoleWord;
  readonly csrf_token: string;
}

const sessionFrom = ({
  key_id: keyId,
  name,
  workspace_id: workspaceId,
  role,
  csrf_token: csrfToken,
}: SessionJson): Session => ({
  keyId,
  name: name ?? undefined,
  workspaceId,
  role,
  csrfToken,
});

/** Single sign-on, offered beside keys. */
export interface OidcOffer {
  /** Label of its button. */
  readonly label: string;
  /** Address that starts the sign-in. */
  readonly url: string;
}

/** Session of the browser, null if signed out, and the offer of single sign-on, null if only keys sign in. */
export interface SignInState {
  readonly session: Session | null;
  readonly oidc: OidcOffer | null;
}

/** Reads the session. Rejects when the service cannot be reached. */
export async function readSession(): Promise<SignInState> {
  const response = await fetch("/dashboard/session");
  if (!response.ok) throw new Error(await faultOf(response));
  type Answer = { readonly session: SessionJson | null; readonly oidc: OidcOffer | null };
  const { session, oidc } = (await response.json()) as Answer;
  return { session: session === null ? null : sessionFrom(session), oidc };
}

const MAX_RETURN_TO = 500;

/** Returns the address that starts a sign-in and leads back to this screen. */
export function oidcStartOf({ url }: OidcOffer, { pathname, search }: Location): string {
  const here = pathname + search;
  return `${url}?${new URLSearchParams({ return_to: here.length <= MAX_RETURN_TO ? here : pathname })}`;
}

/** Signs in with a key. Rejects with a message for people. */
export async function signIn(key: string): Promise<Session> {
  const response = await post("/dashboard/sign-in", { key });
  return sessionFrom((await response.json()) as SessionJson);
}

/** A key that an invite made, shown this once. */
export interface InvitedKey {
  /** Name of its person; undefined if they have none. */
  readonly name: string | undefined;
  readonly role: RoleWord;
  readonly workspaceId: string;
  readonly secret: string;
}

interface InvitedKeyJson {
  readonly name: string | null;
  readonly role: RoleWord;
  readonly workspace_id: string;
  readonly secret: string;
}

/** Uses an invite up. Rejects with a message for people. */
export async function openInvite(secret: string): Promise<InvitedKey> {
  const response = await post("/dashboard/invite", { secret });
  const { name, role, workspace_id: workspaceId, secret: key } = (await response.json()) as InvitedKeyJson;
  return { name: name ?? undefined, role, workspaceId, secret: key };
}

/** Signs out of this browser, or of all browsers. */
export async function signOut({ csrfToken }: Session, everywhere: boolean): Promise<void> {
  await post("/dashboard/sign-out", { everywhere }, { "x-csrf-token": csrfToken });
}

async function post(path: string, body: object, more: Readonly<Record<string, string>> = {}): Promise<Response> {
  const headers = { "content-type": "application/json", ...more };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  if (response.ok) return response;
  throw new Error(await faultOf(response));
}

async function faultOf(response: Response): Promise<string> {
  const body = (await response.json().catch(() => ({}))) as { readonly error?: { readonly message?: string } };
  return body.error?.message ?? `the service answered ${response.status}`;
}

/** Session as the screens see it. */
export interface SignedIn {
  readonly session: Session;
  /** Returns to the sign-in screen. */
  leave(): void;
}

/** Provides the session to the screens. */
export const SessionContext = createContext<SignedIn | undefined>(undefined);

/** Returns the session of the screen. */
export function useSession(): SignedIn {
  const signedIn = useContext(SessionContext);
  if (signedIn === undefined) throw new Error("the screen is shown without a sign-in");
  return signedIn;
}

/** Returns true if the signed-in key may change things; an auditor only reads. The service checks it again. */
export function useMayChange(): boolean {
  return useSession().session.role !== "auditor";
}
