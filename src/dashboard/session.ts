import { createContext, useContext } from "react";

/** What the signed-in key may do. */
export type RoleWord = "admin" | "operator" | "auditor";

/** Who is signed in. */
export interface Session {
  /** The key's id, or the person's name: the log and `resolved_by` show it. */
  readonly keyId: string;
  readonly workspaceId: string;
  readonly role: RoleWord;
  /** Goes with every call; see `createTransport`. */
  readonly csrfToken: string;
}

interface SessionJson {
  readonly key_id: string;
  readonly workspace_id: string;
  readonly role: RoleWord;
  readonly csrf_token: string;
}

const sessionFrom = ({
  key_id: keyId,
  workspace_id: workspaceId,
  role,
  csrf_token: csrfToken,
}: SessionJson): Session => ({
  keyId,
  workspaceId,
  role,
  csrfToken,
});

/** A way to sign in beside keys. */
export interface OidcOffer {
  /** Name for its button. */
  readonly label: string;
  /** Address that begins it. */
  readonly url: string;
}

/** Who is signed in, null for nobody; and how people sign in beside keys, null for keys alone. */
export interface SignInState {
  readonly session: Session | null;
  readonly oidc: OidcOffer | null;
}

/** Reads who is signed in. Rejects when the service cannot be reached. */
export async function readSession(): Promise<SignInState> {
  const response = await fetch("/dashboard/session");
  if (!response.ok) throw new Error(await faultOf(response));
  type Answer = { readonly session: SessionJson | null; readonly oidc: OidcOffer | null };
  const { session, oidc } = (await response.json()) as Answer;
  return { session: session === null ? null : sessionFrom(session), oidc };
}

const MAX_RETURN_TO = 500;

/** Returns the address that begins a sign-in and leads back to this screen. */
export function oidcStartOf({ url }: OidcOffer, { pathname, search }: Location): string {
  const here = pathname + search;
  return `${url}?${new URLSearchParams({ return_to: here.length <= MAX_RETURN_TO ? here : pathname })}`;
}

/** Signs in with a key. Rejects with a message that says what is wrong. */
export async function signIn(key: string): Promise<Session> {
  const response = await post("/dashboard/sign-in", { key });
  return sessionFrom((await response.json()) as SessionJson);
}

/** Signs out of this browser, or of all. */
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

/** What the screens know of the sign-in. */
export interface SignedIn {
  readonly session: Session;
  /** Shows the sign-in again. */
  leave(): void;
}

/** Gives the sign-in to the screens. */
export const SessionContext = createContext<SignedIn | undefined>(undefined);

/** Returns the sign-in of the screen. */
export function useSession(): SignedIn {
  const signedIn = useContext(SessionContext);
  if (signedIn === undefined) throw new Error("the screen is shown without a sign-in");
  return signedIn;
}

/** True if the signed-in key may change things: an auditor only reads. The service checks it again. */
export function useMayChange(): boolean {
  return useSession().session.role !== "auditor";
}
