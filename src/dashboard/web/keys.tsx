import { Dialog } from './kit/overlays.tsx';
import { navigate } from './router.ts';
import { createState, useShared } from './state.ts';

/** A page of the navigation, and the letter that opens it after `g`. */
interface Place {
  readonly key: string;
  readonly text: string;
  readonly href: string;
}

export function KeyHelp({ places }: { places: readonly Place[] }) {
  if (!useShared(keyHelp)) return null;
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => keyHelp.set(false)}>
      <dl class="key-list">
        {[...places.map(goTo), ...KEYS].map(([keys, does]) => (
          <div key={keys}>
            <dt>
              {keys.split(/\s+/).map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

/** Whether the list of keys is shown. */
export const keyHelp = createState(false);

const goTo = ({ key, text }: Place): KeyText => [`g ${key}`, text];

type KeyText = readonly [keys: string, does: string];

/** The other keys and their effects, as shown in the help. */
const KEYS: readonly KeyText[] = [
  ['j  k', 'Next, previous row'],
  ['Enter', 'Open the row'],
  ['/', 'Search'],
  ['?', 'These shortcuts'],
];

/** How long `g` waits for the letter of a place. */
const CHORD_MS = 1500;
let goSince = Number.NEGATIVE_INFINITY;

export function startKeys(places: readonly Place[]): void {
  document.addEventListener('keydown', (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event)) return;
    if (document.querySelector('dialog[open]') !== null) return;
    if (handleKey(event, places)) event.preventDefault();
  });
}

function handleKey(event: KeyboardEvent, places: readonly Place[]): boolean {
  const { key, timeStamp } = event;
  const isChord = timeStamp - goSince < CHORD_MS;
  goSince = key === 'g' ? timeStamp : Number.NEGATIVE_INFINITY;
  const place = isChord ? places.find((each) => each.key === key) : undefined;
  if (place !== undefined) navigate(place.href);
  else if (key === '/') return focusSearch();
  else if (key === '?') keyHelp.set(true);
  else if (key === 'j' || key === 'k') return moveRow(key === 'j' ? 1 : -1);
  else if ((key === 'ArrowDown' || key === 'ArrowUp') && focusedRow() !== -1) {
    return moveRow(key === 'ArrowDown' ? 1 : -1);
  } else return false;
  return true;
}

function isTyping({ target }: KeyboardEvent): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

function focusSearch(): boolean {
  const search = document.querySelector<HTMLInputElement>('[data-search]');
  search?.focus();
  search?.select();
  return search !== null;
}

const rowLinks = () => [...document.querySelectorAll<HTMLElement>('[data-row]')];

function focusedRow(): number {
  return rowLinks().indexOf(document.activeElement as HTMLElement);
}

function moveRow(step: 1 | -1): boolean {
  const links = rowLinks();
  const current = focusedRow();
  const next = links[current === -1 ? (step === 1 ? 0 : links.length - 1) : current + step];
  next?.focus();
  next?.closest('tr')?.scrollIntoView({ block: 'nearest' });
  return next !== undefined;
}
