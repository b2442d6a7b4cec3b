import { createState, useShared } from './state.ts';

type Theme = 'system' | 'light' | 'dark';

const ONE_YEAR_SECONDS = 31_536_000;
const NEXT: Readonly<Record<Theme, Theme>> = { system: 'light', light: 'dark', dark: 'system' };

const theme = createState<Theme>(chosen());

export function useTheme(): { theme: Theme; next: () => void } {
  return { theme: useShared(theme), next: () => choose(NEXT[theme.get()]) };
}

function chosen(): Theme {
  const { theme: name } = document.documentElement.dataset;
  return name === 'light' || name === 'dark' ? name : 'system';
}

/** The server reads the cookie, so that the next page is drawn in these colours from its first moment. */
function choose(next: Theme): void {
  const age = next === 'system' ? 0 : ONE_YEAR_SECONDS;
  // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is missing on pages without TLS.
  document.cookie = `sluice-theme=${next}; Path=/flows; SameSite=Strict; Max-Age=${age}`;
  if (next === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  theme.set(next);
}

/** Calls back when the colours changed, by choice or by the system; for drawings on a canvas. */
export function onColoursChange(callback: () => void): () => void {
  const media = matchMedia('(prefers-color-scheme: dark)');
  media.addEventListener('change', callback);
  const unsubscribe = theme.subscribe(callback);
  return () => {
    media.removeEventListener('change', callback);
    unsubscribe();
  };
}
