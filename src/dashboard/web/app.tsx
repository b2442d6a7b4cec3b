import { useEffect, useRef } from 'preact/hooks';
import { KEYS, keyHelp } from './keys.ts';
import { ConfirmDialog, Dialog } from './kit/dialog.tsx';
import { Icon, type IconName } from './kit/icon.tsx';
import { Empty, Page } from './kit/page.tsx';
import { Toasts } from './kit/toast.tsx';
import { type LiveState, useLive } from './live.ts';
import { matchRoute, usePath } from './router.ts';
import { routes } from './routes.ts';
import { useShared } from './state.ts';
import { useTheme } from './theme.ts';

const PLACES: readonly (readonly [text: string, href: string, icon: IconName])[] = [
  ['Overview', '/flows', 'overview'],
  ['Deliveries', '/flows/deliveries', 'deliveries'],
  ['Flows', '/flows/flows', 'flows'],
  ['Runs', '/flows/runs', 'runs'],
  ['Schedules', '/flows/schedules', 'schedules'],
];

export function App() {
  return (
    <>
      <a class="skip" href="#content">
        Skip to content
      </a>
      <TopBar />
      <Content />
      <Toasts />
      <ConfirmDialog />
      <KeyHelp />
    </>
  );
}

function TopBar() {
  const path = usePath().replace(/\/+$/, '');
  return (
    <header class="top-bar">
      <a class="brand" href="/flows">
        <svg viewBox="0 0 32 32" aria-hidden="true" focusable="false">
          <path d="M5 8h9v16H5zM18 8h9v6h-9zM18 18h9v6h-9z" />
        </svg>
        Sluice
      </a>
      <nav aria-label="Main">
        {PLACES.map(([text, href, icon]) => {
          const isHere = href === '/flows' ? path === href : path === href || path.startsWith(`${href}/`);
          return (
            <a key={href} href={href} aria-current={isHere ? 'page' : undefined}>
              <Icon name={icon} />
              <span>{text}</span>
            </a>
          );
        })}
      </nav>
      <div class="tools">
        <LiveButton />
        <ThemeButton />
        <button type="button" class="icon-button keys-button" title="Keys (?)" onClick={() => keyHelp.set(true)}>
          <Icon name="keys" />
          <span class="unseen">Keys</span>
        </button>
      </div>
    </header>
  );
}

const LIVE_TEXTS: Readonly<Record<LiveState, readonly [text: string, title: string]>> = {
  connecting: ['Connecting', 'Connecting to the stream of events'],
  live: ['Live', 'Shows what happens as it happens; click to pause'],
  paused: ['Paused', 'Nothing changes by itself; click to go on'],
  offline: ['Offline', 'The stream of events broke off; trying again'],
};

function LiveButton() {
  const { state, toggle } = useLive();
  const [text, title] = LIVE_TEXTS[state];
  return (
    <button type="button" class={`live ${state}`} title={title} aria-pressed={state !== 'paused'} onClick={toggle}>
      <span class="dot" />
      {text}
    </button>
  );
}

function ThemeButton() {
  const { theme, next } = useTheme();
  const icon = { system: 'system', light: 'sun', dark: 'moon' } as const;
  return (
    <button type="button" class="icon-button" title={`Colours: ${theme}`} onClick={next}>
      <Icon name={icon[theme]} />
      <span class="unseen">{`Colours: ${theme}; change`}</span>
    </button>
  );
}

function Content() {
  const path = usePath();
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  const match = matchRoute(routes, path);
  // Whoever comes to another page by keyboard starts at its heading.
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else main.current?.querySelector<HTMLElement>('h1')?.focus({ preventScroll: true });
  }, [path]);
  useEffect(() => {
    if (match !== undefined) document.title = `${match.route.title} · Sluice`;
  }, [match?.route]);
  return (
    <main id="content" ref={main} tabIndex={-1}>
      {match === undefined ? <NoSuchPage path={path} /> : <match.route.page key={path} params={match.params} />}
    </main>
  );
}

function NoSuchPage({ path }: { path: string }) {
  return (
    <Page title="No such page">
      <Empty icon="search" title={`Nothing is at ${path}`}>
        <p>
          The address may be mistyped. <a href="/flows">Go to the overview</a>
        </p>
      </Empty>
    </Page>
  );
}

function KeyHelp() {
  if (!useShared(keyHelp)) return null;
  return (
    <Dialog title="Keys" onClose={() => keyHelp.set(false)}>
      <dl class="key-list">
        {KEYS.map(([keys, does]) => (
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
