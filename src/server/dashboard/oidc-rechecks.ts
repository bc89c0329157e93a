import type { Logger } from "pino";
import type { Role } from "../../../gen/agentcontrol/v1/access_pb.js";
import type { OidcIssuer } from "./oidc-issuer.ts";
import { type GroupRule, groupsFrom, membershipsFrom } from "./oidc-person.ts";
import { OidcRefusal } from "./oidc-refusal.ts";

/** A person whose issuer is to be asked again. */
interface DuePerson {
  readonly workspaceId: string;
  readonly subject: string;
  readonly refreshToken: string;
  /** True once the issuer has given no answer about them for so long that they count as gone. */
  readonly isOverdue: boolean;
}

/** Store of memberships that fall due. */
export interface DueMemberships<Due extends DuePerson> {
  /** Takes people who are due; no other process takes them for a while. */
  takeDue(limit: number): Promise<readonly Due[]>;
  /** Keeps the answer about a person; without a role their sign-ins end, and keys that they own are refused. */
  renew(
    due: Due,
    answer: { readonly groups: readonly string[]; readonly groupRole: Role | null; readonly refreshToken: string },
  ): Promise<void>;
  /** Ends the sign-ins and the rights of the keys of a person whom the issuer no longer vouches for. */
  end(due: Due): Promise<void>;
}

/** Options of the checks. */
export interface OidcRechecksOptions<Due extends DuePerson> {
  readonly issuer: Pick<OidcIssuer, "refresh">;
  readonly memberships: DueMemberships<Due>;
  readonly groups: readonly GroupRule[];
  readonly groupsClaim: string;
  readonly log: Pick<Logger, "info" | "warn">;
}

/** Milliseconds between looks for people who are due. */
const LOOK_MS = 2_000;
/** People who are asked about at once. */
const AT_ONCE = 8;

/**
 * Asks the issuer again for the groups of people who are signed in or own keys. An issuer that cannot be reached is asked again within a
 * minute; a sign-in that nobody could renew ends by itself, and keys go on until the person is overdue.
 */
export class OidcRechecks<Due extends DuePerson> {
  readonly #options: OidcRechecksOptions<Due>;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: OidcRechecksOptions<Due>) {
    this.#options = options;
  }

  /** Looks for people who are due, from now on. */
  start(): void {
    if (this.#isClosed) return;
    this.#running = this.#askAll()
      .catch((error: Error) => {
        this.#options.log.warn({ reason: error.message }, "memberships could not be asked again");
      })
      .then(() => {
        this.#running = undefined;
        if (this.#isClosed) return;
        this.#timer = setTimeout(() => this.start(), LOOK_MS);
        this.#timer.unref();
      });
  }

  /** Stops once the questions in flight are answered. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #askAll(): Promise<void> {
    while (!this.#isClosed) {
      const due = await this.#options.memberships.takeDue(AT_ONCE);
      await Promise.all(due.map((person) => this.#ask(person)));
      if (due.length < AT_ONCE) return;
    }
  }

  async #ask(due: Due): Promise<void> {
    const { issuer, memberships, groups: rules, groupsClaim, log } = this.#options;
    const { workspaceId, subject } = due;
    try {
      const { claims, refreshToken = due.refreshToken } = await issuer.refresh(due.refreshToken, subject);
      const claim = claims[groupsClaim];
      const found = membershipsFrom(claim, rules).find((each) => each.workspaceId === workspaceId);
      await memberships.renew(due, { groups: groupsFrom(claim), groupRole: found?.role ?? null, refreshToken });
    } catch (error) {
      if (!(error instanceof OidcRefusal)) throw error;
      if (error.fault === "ended" || due.isOverdue) await memberships.end(due);
      const { fault, code } = error;
      log.info({ workspace_id: workspaceId, fault, code }, "the issuer did not renew a membership");
    }
  }
}
