import type { ComponentChildren } from 'preact';
import { useContext, useEffect } from 'preact/hooks';
import { ApiError, messageOf } from '../api.ts';
import { format } from '../format.ts';
import type { Look } from '../looks.ts';
import { Beside } from '../router.ts';
import { Icon } from './pill.tsx';

interface PageProps {
  readonly title: string;
  /** The tab's title, if the heading is too long or too short for it. */
  readonly tabTitle?: string;
  /** Places above this one. */
  readonly trail?: readonly (readonly [text: string, href: string])[];
  /** States, next to the heading. */
  readonly badges?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** The service's name for people: Sluice, unless the settings name it. */
export const serviceName =
  document.querySelector<HTMLMetaElement>('meta[name="application-name"]')?.content ?? 'Sluice';

/** A page: its one heading, the title of the tab, and its actions. */
export function Page({ title, tabTitle = title, trail = [], badges, actions, children }: PageProps) {
  const isBeside = useContext(Beside);
  const Head = isBeside ? 'div' : 'header';
  useEffect(() => {
    if (!isBeside) document.title = `${tabTitle} · ${serviceName}`;
  }, [tabTitle]);
  return (
    <>
      <Head class="page-head">
        <div>
          {trail.length === 0 || isBeside ? null : (
            <nav class="trail" aria-label="Breadcrumb">
              {trail.map(([text, href]) => (
                <a key={href} href={href}>
                  {text}
                </a>
              ))}
            </nav>
          )}
          <div class="title-line">
            {isBeside ? <h2 class="h1">{title}</h2> : <h1 tabIndex={-1}>{title}</h1>}
            {badges}
          </div>
        </div>
        {actions === undefined ? null : <div class="actions">{actions}</div>}
      </Head>
      {children}
    </>
  );
}

/** The number of items that a page lists, next to its heading. */
export function Total({ count, isBound = false }: { count: number; isBound?: boolean }) {
  return <span class="muted">{`${format.count(count)}${isBound ? '+' : ''}`}</span>;
}

interface PanelProps {
  readonly title: string;
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
  /** Without padding, for tables. */
  readonly isFlush?: boolean;
}

export function Panel({ title, aside, children, isFlush = false }: PanelProps) {
  return (
    <section class="panel">
      <header>
        <h2>{title}</h2>
        {aside === undefined ? null : <div class="aside">{aside}</div>}
      </header>
      <div class={isFlush ? 'panel-body flush' : 'panel-body'}>{children}</div>
    </section>
  );
}

/** Says that nothing is here, and what to do about it. */
export function Empty({ icon, title, children }: { icon: Look['icon']; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <Icon name={icon} />
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** Grey bars in place of content that is loading. */
export function Skeleton({ lines = 3 }: { lines?: number }) {
  return (
    <div class="skeleton" role="status">
      <span class="unseen">Loading</span>
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} class="bar" />
      ))}
    </div>
  );
}

/** A failed request, and a button to repeat it. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const isLogin = error instanceof ApiError && error.status === 401;
  return (
    <div class="failure" role="alert">
      <Icon name="warn" />
      <span>{isLogin ? 'Your login is no longer valid.' : messageOf(error)}</span>
      {isLogin ? (
        <button type="button" class="button" onClick={() => location.reload()}>
          Log in again
        </button>
      ) : null}
      {!isLogin && retry !== undefined ? (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      ) : null}
    </div>
  );
}

interface LoadedProps<Answer> {
  readonly of: { readonly data: Answer | undefined; readonly error: unknown; readonly refresh: () => void };
  readonly lines?: number;
  readonly children: (answer: Answer) => ComponentChildren;
}

/** A resource's answer: bars before it, the failure if it failed, both answer and failure if a later request failed. */
export function Loaded<Answer>({ of: { data, error, refresh }, lines, children }: LoadedProps<Answer>) {
  if (data === undefined && error === undefined) return <Skeleton lines={lines ?? 3} />;
  return (
    <>
      {error === undefined ? null : <Failure error={error} retry={refresh} />}
      {data === undefined ? null : children(data)}
    </>
  );
}
