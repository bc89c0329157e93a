import { type Command, CommandError, type CommandOption, OPTIONS, type OptionName } from "./command.ts";

const SHELLS = { bash: bashScript, zsh: zshScript } as const;

/** Creates `agentctl completion`. */
export function createCompletion(commands: () => readonly Command[]): Command {
  return {
    name: "completion",
    arguments: "<shell>",
    summary: "print the completion of commands and options for bash or zsh",
    details: [
      "",
      '<shell> is `bash` or `zsh`. For bash: eval "$(agentctl completion bash)" in ~/.bashrc; for zsh the same with `zsh` in ~/.zshrc,',
      "after compinit.",
    ],
    options: [],
    exit: "failure",
    async run({ positionals: [shell = ""] }) {
      if (!Object.hasOwn(SHELLS, shell)) throw new CommandError("<shell> is `bash` or `zsh`");
      const script = SHELLS[shell as keyof typeof SHELLS](commands());
      return { lines: script.trimEnd().split("\n"), json: { shell, script } };
    },
  };
}

/** A word that may come next, with its meaning. */
interface Candidate {
  readonly word: string;
  readonly meaning: string;
}

/** Candidates by the words that were typed, the longest first; the empty text stands for none. */
function candidatesOf(
  commands: readonly Command[],
): readonly (readonly [typed: string, candidates: readonly Candidate[]])[] {
  const found = new Map<string, Map<string, string>>();
  const add = (typed: string, word: string, meaning: string): void => {
    const words = found.get(typed) ?? new Map<string, string>();
    found.set(typed, words);
    if (!words.has(word)) words.set(word, meaning);
  };
  for (const { name, summary, options } of commands) {
    const words = name.split(" ");
    for (const [at, word] of words.entries())
      add(words.slice(0, at).join(" "), word, at === words.length - 1 ? summary : word);
    for (const option of [...options, "json", "help"] as const) add(name, `--${option}`, OPTIONS[option].help);
  }
  return [...found]
    .map(([typed, words]) => [typed, [...words].map(([word, meaning]) => ({ word, meaning }))] as const)
    .toSorted(([a], [b]) => b.length - a.length);
}

/** Returns the options whose value is no switch: after them a file or another text follows. */
function valued(): string {
  return (Object.keys(OPTIONS) as OptionName[])
    .filter((name) => (OPTIONS[name] as CommandOption).value !== undefined)
    .map((name) => `--${name}`)
    .join("|");
}

function bashScript(commands: readonly Command[]): string {
  const cases = candidatesOf(commands).map(
    ([typed, candidates]) => `    "${typed}"*) words="${candidates.map(({ word }) => word).join(" ")}" ;;`,
  );
  return `_agentctl() {
  local current="\${COMP_WORDS[COMP_CWORD]}" typed="" words="" word
  case "\${COMP_WORDS[COMP_CWORD-1]}" in
    ${valued()}) COMPREPLY=(); return ;;
  esac
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) break ;; *) typed="\${typed:+$typed }$word" ;; esac
  done
  case "$typed" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _agentctl agentctl
`;
}

function zshScript(commands: readonly Command[]): string {
  const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  const cases = candidatesOf(commands).map(([typed, candidates]) => {
    const words = candidates.map(({ word, meaning }) => quoted(`${word}:${meaning.replaceAll(":", "\\:")}`));
    return `    "${typed}"*) found=(${words.join(" ")}) ;;`;
  });
  return `#compdef agentctl
_agentctl() {
  local typed="" word
  local -a found
  case "\${words[CURRENT-1]}" in
    ${valued()}) _files; return ;;
  esac
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$word" in -*) break ;; *) typed="\${typed:+$typed }$word" ;; esac
  done
  case "$typed" in
${cases.join("\n")}
  esac
  _describe -t commands agentctl found || _files
}
compdef _agentctl agentctl
`;
}
