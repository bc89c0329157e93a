import type { JsonObject } from "@bufbuild/protobuf";
import { ownValue } from "../policy/json-value.ts";

/** Levels of log messages, from the most verbose on. */
const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/**
 * State that the sessions of one child have set at it: subscriptions and levels of log messages. A child that is started again
 * gets it again.
 */
export class ChildSessionState<Session> {
  readonly #subscribers = new Map<string, Set<Session>>();
  readonly #levels = new Map<Session, string>();

  /** Records a request that succeeded. */
  record(session: Session, method: string, params: JsonObject): void {
    const uri = ownValue(params, "uri");
    const level = ownValue(params, "level");
    if (method === "resources/subscribe" && typeof uri === "string") {
      const subscribers = this.#subscribers.get(uri) ?? new Set();
      this.#subscribers.set(uri, subscribers.add(session));
    }
    if (method === "resources/unsubscribe" && typeof uri === "string") this.#unsubscribe(session, uri);
    if (method === "logging/setLevel" && typeof level === "string") this.#levels.set(session, level);
  }

  /** Forgets a session. Returns the resources that no session is subscribed to any more. */
  leave(session: Session): readonly string[] {
    this.#levels.delete(session);
    return [...this.#subscribers.keys()].filter((uri) => this.#unsubscribe(session, uri));
  }

  /** True if another session needs the subscription that this one ends. */
  isNeededByOthers(session: Session, uri: string): boolean {
    return [...(this.#subscribers.get(uri) ?? [])].some((each) => each !== session);
  }

  /** Returns the level to set at the child when a session sets its own: the most verbose one. */
  levelWith(session: Session, level: string): string {
    const others = [...this.#levels].filter(([each]) => each !== session).map(([, other]) => other);
    return [level, ...others].reduce((a, b) => (rankOf(b) < rankOf(a) ? b : a));
  }

  /** Tests whether a notification is for a session: it is subscribed to the resource, and the level is its own. */
  concerns(session: Session, method: string, params: JsonObject): boolean {
    const uri = ownValue(params, "uri");
    if (method === "notifications/resources/updated" && typeof uri === "string") {
      // A server may name a resource below the one subscribed to.
      const subscribers = this.#subscribers.get(uri);
      return subscribers === undefined || subscribers.has(session);
    }
    if (method !== "notifications/message") return true;
    const own = this.#levels.get(session);
    return own === undefined || rankOf(String(ownValue(params, "level"))) >= rankOf(own);
  }

  /** Requests that bring a child that was started again into this state. */
  requests(): readonly { readonly method: string; readonly params: JsonObject }[] {
    const [level] = [...this.#levels.values()].sort((a, b) => rankOf(a) - rankOf(b));
    return [
      ...(level === undefined ? [] : [{ method: "logging/setLevel", params: { level } }]),
      ...[...this.#subscribers.keys()].map((uri) => ({ method: "resources/subscribe", params: { uri } })),
    ];
  }

  #unsubscribe(session: Session, uri: string): boolean {
    const subscribers = this.#subscribers.get(uri);
    if (subscribers?.delete(session) !== true || subscribers.size > 0) return false;
    return this.#subscribers.delete(uri);
  }
}

/** Position of a level; an unknown one is the least verbose. */
function rankOf(level: string): number {
  const rank = LEVELS.indexOf(level);
  return rank === -1 ? LEVELS.length : rank;
}
