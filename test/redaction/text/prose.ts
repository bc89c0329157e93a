/** A sequence of numbers in [0, 1) that is the same for the same seed (mulberry32, after T. Ettinger). */
export function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const ENGLISH = `the of and to in that is was for it with as his on be at by had not are but from or have an they which one you
were all her she there would their we him been has when who will no more if out so up said what its about than into them can
only other time new some could these two may first then do any like my now over such our man even most made after also did many
off before must well back through years much where your way down should because long each just state those people too mister
little good world make very year still see own work men day get here between life being under three never know same last another
while us might great go come since against right came take used himself few house use place without again around however small
found mother thought went say part once general high upon school every united left number course war until always away something
fact water public put though less think almost hand enough far took head yet government system set better told nothing night end
why called going look find asked later knew point next program city business give group toward young days let room within
children side social given present several order national second possible rather per face form important often things looked
early white case large big need four felt along god saw best church ever light least power development thing seemed want
interest others mind country area done turned although open family kind door problem began already during account invoice
delivery payment customer agreement appointment question answer support ticket request update schedule document contract`;
const GERMAN = `der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat
dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr durch man sein
wurde sei hatte kann gegen vom können schon wenn habe seine ihre dann unter wir soll ich eines jahr zwei diese dieser wieder
keine uhr seiner worden will zwischen immer was sagte gibt alle seit muss doch jetzt drei neue damit bereits da ihr ihren ohne
sondern selbst ersten nun etwa heute ihm weil menschen große vielen stadt land arbeit zeit frage teil welt haus seite tag leben
hand kunde rechnung lieferung vertrag termin antwort anfrage unterlagen zahlung betrag konto überweisung gespräch rückfrage
schreiben nachricht abteilung vorgang bearbeitung prüfung bestätigung änderung adresse geschäft unternehmen mitarbeiter leitung
grundsätzlich möglicherweise selbstverständlich außerdem schließlich während daraufhin einschließlich zuständigkeit größe`;
const LANGUAGES = [ENGLISH, GERMAN].map((words) => words.split(/\s+/));
const SYLLABLES =
  "an bel cor da el fi gar hol in ju kar lo mi no or pe qua ros sa ti ul ve wil xa yor zim ber sch ner ström".split(
    " ",
  );

const pick = <T>(items: readonly T[], random: () => number): T => items[Math.floor(random() * items.length)] as T;
const capital = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1);

function nameWord(random: () => number): string {
  const length = 2 + Math.floor(random() * 2);
  return capital(Array.from({ length }, () => pick(SYLLABLES, random)).join(""));
}

/** Different names of two words. */
export function namesFrom(random: () => number, count: number): string[] {
  const names = new Set<string>();
  while (names.size < count) names.add(`${nameWord(random)} ${nameWord(random)}`);
  return [...names];
}

/** Different account numbers. */
export function accountsFrom(random: () => number, count: number): string[] {
  const numbers = new Set<string>();
  while (numbers.size < count) numbers.add(`KD-${String(Math.floor(random() * 1e9)).padStart(9, "0")}`);
  return [...numbers];
}

/** A sentence in English or German, now and then with a number in it. */
export function sentenceFrom(random: () => number): string {
  const words = pick(LANGUAGES, random);
  const length = 6 + Math.floor(random() * 14);
  const sentence = Array.from({ length }, () =>
    random() < 0.02
      ? String(Math.floor(random() * 2000))
      : random() < 0.08
        ? capital(pick(words, random))
        : pick(words, random),
  );
  const comma = Math.floor(random() * length);
  sentence[comma] += ",";
  return `${capital(sentence.join(" "))}. `.replace(",.", ".");
}

/** Text of at least `length` units with one of `values` for each `every` units. */
export function proseFrom(random: () => number, length: number, values: readonly string[], every = 1000): string {
  const parts: string[] = [];
  let size = 0;
  let due = every / 2;
  while (size < length) {
    const sentence = sentenceFrom(random);
    const isDue = size >= due && values.length > 0;
    const part = isDue ? sentence.replace(" ", ` ${pick(values, random)} `) : sentence;
    if (isDue) due += every;
    parts.push(part);
    size += part.length;
  }
  return parts.join("");
}
