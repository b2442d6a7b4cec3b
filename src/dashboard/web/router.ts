import type { ComponentType } from 'preact';
import { useMemo } from 'preact/hooks';
import { createState, useShared } from './state.ts';

export type Params = Readonly<Record<string, string>>;

export interface Route {
  /** Segments that begin with a colon are parameters, such as `/flows/runs/:id`. */
  readonly path: string;
  readonly page: ComponentType<{ params: Params }>;
  /** What the browser's tab says until the page says more. */
  readonly title: string;
}

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

/** Goes to a place of the page; `replace` leaves no entry in the history, as a changed filter should not. */
export function navigate(to: string, { replace = false }: { replace?: boolean } = {}): void {
  if (to === here()) return;
  if (replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  const isOtherPage = address.get().split('?')[0] !== location.pathname;
  address.set(here());
  if (isOtherPage) scrollTo(0, 0);
}

export function usePath(): string {
  return useShared(address).split('?')[0] ?? '';
}

/** The query of the address, and a way to change parts of it: an empty value removes its name. */
export function useQuery(): [URLSearchParams, (changes: Readonly<Record<string, string | undefined>>) => void] {
  const search = useShared(address).split('?')[1] ?? '';
  const query = useMemo(() => new URLSearchParams(search), [search]);
  return [query, changeQuery];
}

function changeQuery(changes: Readonly<Record<string, string | undefined>>): void {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === '') next.delete(name);
    else next.set(name, value);
  }
  navigate(`${location.pathname}${next.size === 0 ? '' : `?${next}`}`, { replace: true });
}

export function matchRoute(routes: readonly Route[], path: string): { route: Route; params: Params } | undefined {
  for (const route of routes) {
    const params = matchPath(route.path, path);
    if (params !== undefined) return { route, params };
  }
  return undefined;
}

function matchPath(pattern: string, path: string): Params | undefined {
  const given = path.replace(/\/+$/, '').split('/');
  const wanted = pattern.split('/');
  if (given.length !== wanted.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? '';
    if (!part.startsWith(':')) {
      if (part !== value) return undefined;
      continue;
    }
    const decoded = decode(value);
    if (decoded === undefined) return undefined;
    params[part.slice(1)] = decoded;
  }
  return params;
}

function decode(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

/** Where a plain click on a link of the page leads; undefined for what the browser should do itself. */
function linkOf(event: MouseEvent): string | undefined {
  if (event.defaultPrevented || event.button !== 0) return undefined;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return undefined;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (link === null || link.target !== '' || link.hasAttribute('download')) return undefined;
  const { origin, pathname, search } = new URL(link.href);
  const isPlace = /^\/flows(\/|$)/.test(pathname) && !/^\/flows\/(api|assets)(\/|$)/.test(pathname);
  return origin === location.origin && isPlace ? `${pathname}${search}` : undefined;
}
