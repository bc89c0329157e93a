# Types into an interactive shell on a terminal of its own, and prints what it shows: `zsh -f type-in.zsh <shell> <start> <keys>...`.
# `<start>` is a file that the shell reads first. Each `<keys>` begins a command line and may hold escapes such as `\t`; what the
# shell shows ends with `line<...>end`, which holds the command line as it is then.
zmodload zsh/zpty || exit 3
shell=$1 start=$2
shift 2
case $shell in
  zsh) zpty typed env TERM=dumb COLUMNS=200 LINES=100 zsh -f -i ;;
  bash) zpty typed env TERM=dumb bash --norc --noprofile -i ;;
esac

# Reads until the shell has printed a text; fails after half a minute.
await() {
  local text=$1 part
  SECONDS=0 shown=
  while [[ $shown != *$text* ]]; do
    (( SECONDS > 30 )) && { print -u2 -r -- "the shell does not print $text: $shown"; exit 4 }
    zpty -r -t typed part && shown+=$part || sleep 0.02
  done
}

# The echo of a command does not hold the text that it prints.
zpty -w typed "stty -echo columns 200 rows 100; . '$start'; printf '%s%s\n' rea dy"
await ready
# Control-X prints the command line between brackets.
if [[ $shell == zsh ]]; then
  zpty -w typed "shown() { print -rn -- \$'\\n''line<'\$BUFFER'>end' }; zle -N shown; bindkey '^X' shown; printf '%s%s\n' bou nd"
else
  zpty -w typed "shown() { printf '\\nline<%s>end' \"\$READLINE_LINE\"; }; bind -x '\"\\C-x\": shown'; printf '%s%s\n' bou nd"
fi
await bound
for keys in "$@"; do
  # Control-U clears the line.
  zpty -w -n typed $'\x15'"${(g::)keys}"$'\x18'
  await '>end'
  print -r -- "$shown"
done
zpty -d typed
