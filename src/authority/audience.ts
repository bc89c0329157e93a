import { ControlPlaneError, ErrorReason } from "../errors.ts";

/** Address and name of the service. */
export interface ServiceAudienceOptions {
  /** `ACP_PUBLIC_URL`; undefined if it is not set. */
  readonly publicUrl: string | undefined;
  /** Name of the service, `ACP_VAULT_ORIGIN`. */
  readonly origin: string;
}

/**
 * Audiences of federation tokens that open calls: the address of the service, and its name with the workspace, so that a service
 * without a public address issues tokens for itself as well. Tokens for any other audience are for other parties.
 */
export class ServiceAudience {
  readonly #publicUrl: string | undefined;
  readonly #origin: string;

  constructor({ publicUrl, origin }: ServiceAudienceOptions) {
    this.#publicUrl = publicUrl;
    this.#origin = origin;
  }

  /** Returns the name of the service for the tokens of a workspace. */
  nameFor(workspaceId: string): string {
    return `${this.#origin}/workspaces/${workspaceId}`;
  }

  /** Lists the audiences that open calls of a workspace. */
  of(workspaceId: string): readonly string[] {
    const name = this.nameFor(workspaceId);
    return this.#publicUrl === undefined ? [name] : [this.#publicUrl, name];
  }
}

/** Throws KEY_INVALID for a federation token whose audience is none of those that open the call, the first of which is named. */
export function assertAudience(audience: string, wanted: readonly string[]): void {
  if (wanted.some((each) => isSameAudience(each, audience))) return;
  const [named] = wanted;
  const which = named === undefined ? "set `ACP_PUBLIC_URL` to the address of this service" : `it must be \`${named}\``;
  const message = `the federation token is for another audience; ${which}`;
  throw new ControlPlaneError(ErrorReason.KEY_INVALID, message, named === undefined ? {} : { audience: named });
}

/**
 * Tests whether two audiences are the same. An http or https address is compared with its scheme and host in lower case, without
 * the default port and without slashes at the end of its path; any other audience is compared as it is.
 */
export const isSameAudience = (left: string, right: string): boolean => formOf(left) === formOf(right);

function formOf(audience: string): string {
  const url = /^https?:/i.test(audience) && URL.canParse(audience) ? new URL(audience) : undefined;
  if (url === undefined || url.username !== "" || url.password !== "") return audience;
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}${url.search}${url.hash}`;
}
