import { navigate } from './router.ts';
import { createState } from './state.ts';

/** Whether the list of keys is shown. */
export const keyHelp = createState(false);

const PLACES: Readonly<Record<string, string>> = {
  o: '/flows',
  d: '/flows/deliveries',
  f: '/flows/flows',
  r: '/flows/runs',
  s: '/flows/schedules',
};

/** Every key and what it does, as the help shows them. */
export const KEYS: readonly (readonly [keys: string, does: string])[] = [
  ['g o', 'Overview'],
  ['g d', 'Deliveries'],
  ['g f', 'Flows'],
  ['g r', 'Runs'],
  ['g s', 'Schedules'],
  ['j  k', 'Next, previous row'],
  ['Enter', 'Open the row'],
  ['/', 'Search'],
  ['?', 'These keys'],
];

/** How long `g` waits for the letter of the place to go to. */
const CHORD_MS = 1500;
let goSince = Number.NEGATIVE_INFINITY;

export function startKeys(): void {
  document.addEventListener('keydown', (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event)) return;
    if (document.querySelector('dialog[open]') !== null) return;
    if (handle(event)) event.preventDefault();
  });
}

function handle(event: KeyboardEvent): boolean {
  const { key, timeStamp } = event;
  const isChord = timeStamp - goSince < CHORD_MS;
  goSince = key === 'g' ? timeStamp : Number.NEGATIVE_INFINITY;
  const place = isChord ? PLACES[key] : undefined;
  if (place !== undefined) navigate(place);
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
