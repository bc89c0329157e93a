import { fold } from "../../text/fold.ts";
import type { JsonRecord } from "../../verify/json.ts";
import { isCall, type RecordedStep } from "../replay/episode.ts";
import type { FileTool } from "./tool-file.ts";

/** Makes the plan of a session from the words of its prompt. */
export class Planner {
  readonly #tools: ReadonlyMap<string, FileTool>;
  readonly #outside: string;

  /** `outside`: what happens to calls outside of a plan, as in an intent contract. */
  constructor(tools: readonly FileTool[], outside: string) {
    this.#tools = new Map(tools.map((tool) => [fold(tool.name), tool]));
    this.#outside = outside;
  }

  /**
   * Returns the contract of an episode: those of its tools whose words stand in the prompt, and those of every plan. Tools that the
   * episode does not call decide nothing, and are left out.
   */
  contractOf(prompt: string, steps: readonly RecordedStep[]): JsonRecord {
    const words = ` ${fold(prompt).replace(/[^\p{L}\p{N}]+/gu, " ")} `;
    const called = new Set(steps.flatMap((step) => (isCall(step) ? [fold(step.tool)] : [])));
    const planned = [...called].flatMap((name) => {
      const tool = this.#tools.get(name);
      return tool !== undefined && isPlanned(tool, words) ? [tool.name] : [];
    });
    // A contract without a step would admit everything.
    const names = planned.length === 0 ? [NO_TOOL] : planned.sort();
    return { goal: "", steps: names.map((tool): JsonRecord => ({ tool })), outside: this.#outside };
  }
}

/** Name of a tool that there is not. */
const NO_TOOL = "no-tool";

/** Tests whether a word of the prompt, or the beginning of one, is among a tool's. */
const isPlanned = ({ words }: FileTool, prompt: string): boolean =>
  words === undefined || words.some((word) => prompt.includes(` ${word.replace(/[^\p{L}\p{N}]+/gu, " ").trim()}`));
