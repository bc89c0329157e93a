import type { Work } from "../../async/work.ts";
import { digestsOfContent } from "../../observation/content-values.ts";
import { argumentsFrom } from "../../policy/names.ts";
import type { ToolSchema } from "../../policy/types.ts";
import { approvedFormsOf } from "../../provenance/argument-values.ts";
import { KEY_BYTES, packDigests } from "../../provenance/digests.ts";
import { type ObservedKind, type ObservedRow, SessionValues } from "../../provenance/session-values.ts";
import type { Action, DecisionReason } from "../../state/types.ts";
import type { EpisodeCall } from "./episode.ts";

/** Maximum characters of a content that is read, as of one that a session observes. */
const MAX_CONTENT = 1_048_576;
/** Key of the digests. Nothing of a replay is kept, and a key that never changes leaves out the same values each time. */
const KEY = Buffer.alloc(KEY_BYTES);

/** What the session of a replayed episode knows: it observes prompts and results as sessions of agents do. */
export class SessionMemory {
  #values = SessionValues.from(KEY, [], false);

  /** What the session knows now. */
  get values(): SessionValues {
    return this.#values;
  }

  /** Observes what the agent was asked. */
  *prompt(text: string): Work<void> {
    yield* this.#content("prompt", undefined, { source: "prompt", content: text, declared: undefined, args: {} });
  }

  /** Observes the result of a call. Nothing of an error is trusted, whatever the registration of the tool says. */
  *result(
    { action, result = "", isError }: EpisodeCall,
    toolName: string | undefined,
    tool: ToolSchema | undefined,
  ): Work<void> {
    const declared = isError ? undefined : tool?.provenance;
    const args = declared === undefined ? {} : (argumentsFrom(action.metadata) ?? {});
    yield* this.#content("result", toolName, { source: "result", content: result, declared, args });
  }

  /** Remembers the values on which rules asked as approved by a person. */
  *approval({ metadata }: Action, reasons: readonly DecisionReason[]): Work<void> {
    const asked = reasons.flatMap(({ argument, valueKind: kind }) =>
      argument === undefined || kind === undefined ? [] : [{ argument, kind }],
    );
    const approved = yield* packDigests(KEY, approvedFormsOf(asked, argumentsFrom(metadata) ?? {}));
    if (approved.length > 0) this.#add("approval", undefined, { approved });
  }

  *#content(
    kind: ObservedKind,
    tool: string | undefined,
    job: Omit<Parameters<typeof digestsOfContent>[0], "key">,
  ): Work<void> {
    const isCut = job.content.length > MAX_CONTENT;
    const content = isCut ? job.content.slice(0, MAX_CONTENT) : job.content;
    const digests = yield* digestsOfContent({ ...job, key: KEY, content });
    this.#add(kind, tool, digests, isCut);
  }

  #add(kind: ObservedKind, tool: string | undefined, digests: ObservedRow["digests"], isCut = false): void {
    const seq = this.#values.rows.length;
    const row = { seq, observationId: `obs_${seq}`, kind, tool, valuesDigest: "", digests };
    const addition = this.#values.fit(row);
    this.#values = this.#values.with({ ...addition, isFull: addition.isFull || isCut });
  }
}
