import { Dialog } from "../kit/dialog.tsx";
import { useShortcutSetting } from "../kit/shortcuts.ts";
import { NAVIGATION } from "../screens.tsx";
import { useSession } from "../session.ts";
import "../styles/find.css";

interface KeyRow {
  readonly keys: readonly string[];
  readonly does: string;
}

const ANYWHERE: readonly KeyRow[] = [
  { keys: ["Ctrl K", "⌘ K"], does: "find anything" },
  { keys: ["?"], does: "show these keys" },
  { keys: ["Esc"], does: "close what is open" },
];
const ANSWERS: readonly KeyRow[] = [
  { keys: ["j", "k"], does: "mark the next one, the one before" },
  { keys: ["a"], does: "approve the marked one" },
  { keys: ["r"], does: "reject it with a reason" },
  { keys: ["e"], does: "edit its arguments, then approve" },
  { keys: ["x"], does: "select it for an answer to several" },
];

/** Lists the keys of the dashboard, with the switch of single keys. */
export function KeysDialog({ onClose }: { readonly onClose: () => void }) {
  const { role } = useSession().session;
  const [isOn, setIsOn] = useShortcutSetting();
  const screens = NAVIGATION.filter(({ roles }) => roles?.includes(role) ?? true).map(({ key, title }) => ({
    keys: [`g ${key}`],
    does: title,
  }));
  return (
    <Dialog title="Keys" isOpen isWide onClose={onClose}>
      <label className="row">
        <input type="checkbox" name="shortcuts" checked={isOn} onChange={({ target }) => setIsOn(target.checked)} />
        Single keys act
      </label>
      <div className="keys-lists">
        <KeyList title="Anywhere" rows={ANYWHERE} />
        {role === "auditor" ? null : <KeyList title="Escalations" rows={ANSWERS} />}
        <KeyList title="Go to" rows={screens} />
      </div>
    </Dialog>
  );
}

function KeyList({ title, rows }: { readonly title: string; readonly rows: readonly KeyRow[] }) {
  return (
    <section className="stack is-tight">
      <h3>{title}</h3>
      <dl className="keys-list">
        {rows.map(({ keys, does }) => (
          <div key={does}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
