import type { Work } from "../../async/work.ts";
import { contentDigestOf, observe } from "../../log/observation.ts";
import { type ContentJob, digestsOfContent } from "../../observation/content-values.ts";
import { argumentsFrom } from "../../policy/names.ts";
import type { ToolSchema } from "../../policy/types.ts";
import { approvedFormsOf } from "../../provenance/argument-values.ts";
import { KEY_BYTES, packDigests } from "../../provenance/digests.ts";
import { SessionValues } from "../../provenance/session-values.ts";
import type { Action, DecisionReason } from "../../state/types.ts";
import type { WorkspaceState } from "../../state/workspace.ts";
import type { EpisodeCall } from "./episode.ts";
import { REPLAYED_SESSION } from "./own-workspace.ts";

/** Maximum characters of a content that is read, as of one that a session observes. */
const MAX_CONTENT = 1_048_576;
/** Key of the digests. Nothing of a replay is kept, and a key that never changes leaves out the same values each time. */
const KEY = Buffer.alloc(KEY_BYTES);

/** Session of a replayed episode, which observes prompts and results as sessions of agents do. */
export class SessionMemory {
  readonly #state: WorkspaceState;
  readonly #agentId: string;

  /** `state`: the workspace of the episode, in which the agent has the session. */
  constructor(state: WorkspaceState, agentId: string) {
    this.#state = state;
    this.#agentId = agentId;
    state.sessions.put(REPLAYED_SESSION, undefined);
  }

  /** Observes what the agent was asked. `isCut`: its end is missing. */
  *prompt(text: string, isCut = false): Work<void> {
    const job = { source: "prompt", content: text, declared: undefined, args: {} } as const;
    yield* this.#observe(job, isCut, undefined, undefined);
  }

  /** Observes the result of a call. Nothing of an error is trusted, whatever the registration of the tool says. */
  *result(
    { action, result = "", isError, isCut }: EpisodeCall,
    toolName: string | undefined,
    tool: ToolSchema | undefined,
  ): Work<void> {
    const declared = isError ? undefined : tool?.provenance;
    const args = declared === undefined ? {} : (argumentsFrom(action.metadata) ?? {});
    yield* this.#observe({ source: "result", content: result, declared, args }, isCut, action.decisionId, toolName);
  }

  /** Remembers the values on which rules asked as approved by a person. */
  *approval({ metadata }: Action, reasons: readonly DecisionReason[]): Work<void> {
    const approved = yield* packDigests(KEY, approvedFormsOf(reasons, argumentsFrom(metadata) ?? {}));
    if (approved.length === 0) return;
    const values = this.#state.sessions.get(REPLAYED_SESSION) ?? SessionValues.from(KEY, [], false);
    const { seq } = this.#state;
    const row = { seq, observationId: `obs_${seq}`, kind: "approval", tool: undefined, valuesDigest: "" } as const;
    this.#put(values.with(values.fit({ ...row, digests: { approved } })));
  }

  *#observe(
    job: Omit<ContentJob, "key">,
    isCutBefore: boolean,
    decisionId: string | undefined,
    tool: string | undefined,
  ): Work<void> {
    const { source, content } = job;
    const found = yield* digestsOfContent({ ...job, key: KEY, content: content.slice(0, MAX_CONTENT) });
    const isCut = isCutBefore || content.length > MAX_CONTENT || found.isCut;
    const { workspaceId, seq, lastAtMs: atMs } = this.#state;
    const teller = { sessionId: REPLAYED_SESSION, agentId: this.#agentId, by: "", isByAgent: false };
    const observation = { ...teller, source, decisionId, tool, declared: job.declared };
    const contentDigest = contentDigestOf(KEY, content, isCut);
    const told = { ...observation, key: KEY, contentDigest, digests: found.digests, isCut };
    const place = { workspaceId, seq, atMs, previousRoot: "", previousSize: 0 };
    const observed = observe(this.#state, told, place);
    if (observed.kind === "new") this.#put(observed.after);
  }

  #put(values: SessionValues): void {
    this.#state.sessions.put(REPLAYED_SESSION, values);
    this.#state.seq += 1;
  }
}
