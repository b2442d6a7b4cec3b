import { createContext } from 'preact';
import { useContext, useMemo } from 'preact/hooks';
import { placeOf, splitAddress, withChanges } from './address.ts';
import { createState, useShared } from './state.ts';

type QueryChanges = Parameters<typeof withChanges>[1];

const here = () => `${location.pathname}${location.search}`;
const address = createState(here());

/** Called once at the start: follows the browser's back and forward, and links to places of the page. */
export function startRouter(): void {
  addEventListener('popstate', () => address.set(here()));
  document.addEventListener('click', (event) => {
    const target = linkOf(event);
    if (target === undefined) return;
    event.preventDefault();
    navigate(target);
  });
}

/** Opens a place of the page; `replace` adds no entry to the history, as for a changed filter. */
export function navigate(to: string, { replace = false }: { replace?: boolean } = {}): void {
  if (to === here()) return;
  if (replace) history.replaceState(history.state, '', to);
  else history.pushState(null, '', to);
  const isOtherPage = splitAddress(address.get()).path !== location.pathname;
  address.set(here());
  if (isOtherPage) scrollTo(0, 0);
}

export function usePath(): string {
  return splitAddress(useShared(address)).path;
}

/** True in the side panel: its page has its own address in the parameter `open`, and only reads and changes that. */
export const Beside = createContext(false);

const addressBeside = () => splitAddress(new URLSearchParams(location.search).get('open') ?? '');

/** The query of the address, and a function that changes parts of it: an empty value removes its name. */
export function useQuery(): [URLSearchParams, (changes: QueryChanges) => void] {
  const isBeside = useContext(Beside);
  const { search: whole } = splitAddress(useShared(address));
  const search = isBeside ? addressBeside().search : whole;
  const query = useMemo(() => new URLSearchParams(search), [search]);
  return [query, isBeside ? changeBeside : changeQuery];
}

function changeBeside(changes: QueryChanges): void {
  const { path, search } = addressBeside();
  changeQuery({ open: `${path}${withChanges(search, changes)}` });
}

function changeQuery(changes: QueryChanges): void {
  navigate(`${location.pathname}${withChanges(location.search, changes)}`, { replace: true });
}

/** The target of a plain click on a link of the page; undefined if the browser should handle the click itself. */
export function linkOf(event: MouseEvent): string | undefined {
  if (event.defaultPrevented || event.button !== 0) return undefined;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return undefined;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (link === null || link.target !== '' || link.hasAttribute('download')) return undefined;
  return placeOf(link.href, location.origin);
}
