import { render } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { pageParts } from '../../features/page.ts';
import { matchRoute } from './address.ts';
import { format } from './format.ts';
import { KeyHelp, keyHelp, startKeys } from './keys.tsx';
import { Overlays } from './kit/overlays.tsx';
import { Empty, Page, serviceName } from './kit/page.tsx';
import { Icon } from './kit/pill.tsx';
import { startLive, type Trouble, useErrors, useLive, useTrouble } from './live.ts';
import { allPlaces, allRoutes, handIn, shownAt } from './part.ts';
import { askEarly } from './resource.ts';
import { startRouter, usePath } from './router.ts';
import { seesService } from './scopes.ts';
import { useTheme } from './theme.ts';

handIn(pageParts);
const routes = allRoutes();
const places = allPlaces();
const navigation = places.flatMap(({ icon, isOfService = false, ...place }) =>
  icon === undefined || (isOfService && !seesService) ? [] : [{ ...place, icon }],
);

function App() {
  return (
    <>
      <a class="skip" href="#content">
        Skip to content
      </a>
      <TopBar />
      <TroubleBanner />
      <Content />
      {shownAt('everywhere', {})}
      <Overlays />
      <KeyHelp places={places} />
    </>
  );
}

function TopBar() {
  const path = usePath().replace(/\/+$/, '');
  const errors = useErrors();
  return (
    <header class="top-bar">
      <a class="brand" href="/flows">
        <svg viewBox="0 0 32 32" aria-hidden="true" focusable="false">
          <path d="M5 8h9v16H5zM18 8h9v6h-9zM18 18h9v6h-9z" />
        </svg>
        <span>{serviceName}</span>
      </a>
      <nav aria-label="Main">
        {navigation.map(({ text, href, icon }) => {
          const isHere = href === '/flows' ? path === href : path === href || path.startsWith(`${href}/`);
          return (
            <a key={href} href={href} aria-current={isHere ? 'page' : undefined}>
              <Icon name={icon} />
              <span>{text}</span>
              {href === '/flows' && errors > 0 ? (
                <span class="errors" title={`${format.counted(errors, 'error')} in the attention list`}>
                  {errors}
                  <span class="unseen"> need attention</span>
                </span>
              ) : null}
            </a>
          );
        })}
      </nav>
      <div class="tools">
        <LiveButton />
        <ThemeButton />
        {shownAt('topBar', {})}
        <button type="button" class="icon-button keys-button" title="Keys (?)" onClick={() => keyHelp.set(true)}>
          <Icon name="keys" />
          <span class="unseen">Keys</span>
        </button>
      </div>
    </header>
  );
}

const TROUBLES: Readonly<Record<Trouble['kind'], string>> = {
  'not ready': 'The service is not ready.',
  refusing: 'Deliveries are not served.',
  'no answer': 'The service does not answer.',
  'not live': 'Live updates stopped.',
};

/** Empty while all is well, so that a screen reader knows the place and reads new messages. */
function TroubleBanner() {
  const trouble = useTrouble();
  return (
    <div class="trouble" role="alert">
      {trouble === undefined ? null : (
        <p class={trouble.kind === 'not live' ? 'warn' : ''}>
          <Icon name="warn" />
          <span>
            <b>{TROUBLES[trouble.kind]}</b> {trouble.text}
          </span>
        </p>
      )}
    </div>
  );
}

const LIVE_TEXTS: Readonly<Record<ReturnType<typeof useLive>['state'], readonly [text: string, title: string]>> = {
  connecting: ['Connecting', 'Connecting to live updates'],
  live: ['Live', 'This page updates live; click to pause'],
  paused: ['Paused', 'Live updates are paused; click to resume'],
  offline: ['Offline', 'Live updates stopped; reconnecting'],
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
  // The keyboard focus starts at the heading of the new page.
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else main.current?.querySelector<HTMLElement>('h1')?.focus({ preventScroll: true });
  }, [path]);
  useEffect(() => {
    if (match !== undefined) document.title = `${match.route.title} · ${serviceName}`;
  }, [match?.route]);
  return (
    <main id="content" ref={main} tabIndex={-1}>
      {match === undefined ? <NoSuchPage path={path} /> : <match.route.page key={path} params={match.params} />}
    </main>
  );
}

function NoSuchPage({ path }: { path: string }) {
  return (
    <Page title="Page not found">
      <Empty icon="search" title={`There is no page at ${path}`}>
        <p>
          The address may be mistyped. <a href="/flows">Go to the overview</a>
        </p>
      </Empty>
    </Page>
  );
}

const root = document.getElementById('page');
if (root === null) throw new Error('The shell has no place for the page');
startRouter();
// First, so that no event is missed between an answer and the first event.
startLive();
const question = matchRoute(routes, location.pathname)?.route.question;
if (question !== undefined) askEarly(question(new URLSearchParams(location.search)));
startKeys(places);
render(<App />, root);
