/** What a semantic rule asks about. One object for the life of the compiled rule. */
export interface SemanticSpec {
  /** Equal for equal questions: rules that share it share one answer. */
  readonly key: string;
  /** What an action must not do, in its author's words. */
  readonly prompt: string;
  /** Milliseconds that the answer may take; undefined leaves it to the guard. */
  readonly timeoutMs: number | undefined;
}

/** What asking a guard about an action came to. */
export type GuardAnswer =
  | {
      readonly kind: "verdict";
      readonly violates: boolean;
      /** 0 to 1. */
      readonly confidence: number;
      /** The model's own words: untrusted text. */
      readonly reason: string;
      readonly model: string;
      readonly latencyMs: number;
    }
  | {
      readonly kind: "unavailable";
      /** A stable word. */
      readonly cause: string;
      readonly latencyMs: number;
    };

/** What came of one semantic rule; sealed with the decision. */
export interface GuardFinding {
  readonly mandateId: string;
  readonly version: number;
  /** Path of the rule in the mandate: `rules[0]`. */
  readonly rule: string;
  readonly spec: SemanticSpec;
  readonly answer: GuardAnswer;
}

/** The answer to a question that nobody asked: the rule came into force while the action waited. */
export const NOT_ASKED: GuardAnswer = { kind: "unavailable", cause: "not_asked", latencyMs: 0 };
